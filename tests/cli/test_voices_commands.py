"""`tenuto admin voices`: what there is, and adding a voice that every account may use."""

from contextlib import closing
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database_opening import open_database
from tenuto.features.decoding.wav import pcm16_wav

pytestmark = pytest.mark.variant("database", only="postgresql")

CONTENT = pcm16_wav(bytes(2 * 16_000), 16_000, 1)


def test_built_in_voices_are_listed_and_a_damaged_one_breaks_no_list(
    operator: Operator, database_url: str, tmp_path: Path
) -> None:
    """They are there before any service has run. What is no recording of a voice is refused in one line that
    says why, by the same rules as for uploads."""
    operator.settings.update(database=database_url)
    kinds = [voice["kind"] for voice in operator.json("admin", "voices", "list")]
    damaged = operator.json("admin", "voices", "list")[2]["id"]
    change = "update voice set languages = '[\"zh\"' where id = :id"
    with closing(open_database(database_url)) as database:
        database.write(lambda tx: tx.run(change, id=damaged))
    (tmp_path / "x.wav").write_bytes(b"no WAV")
    refused = operator("admin", "voices", "import", str(tmp_path / "x.wav"), "--name", "x")
    listed = {voice["id"]: voice for voice in operator.json("admin", "voices", "list")}
    table = {line["id"]: line["languages"] for line in rows(operator("admin", "voices", "list"))}

    assert ["shared", *["official"] * 11, *["emotion"] * 2] == kinds
    assert 14 == len(listed) and ([], True) == (listed[damaged]["languages"], listed[damaged]["damaged"])
    assert [damaged] == [voice_id for voice_id, languages in table.items() if languages == "damaged"]
    assert "it is not RIFF WAVE" in told(refused)


def test_an_imported_voice_is_everybodys(paid_service: RunningService, tmp_path: Path) -> None:
    """Every account sees and hears it at once, under a new id each time (R161, R175)."""
    file = tmp_path / "voice.wav"
    file.write_bytes(CONTENT)
    words = ("admin", "voices", "import", str(file), "--name", "远山", "--languages", "zh, en")
    first, second = (paid_service.command_json(*words)["id"] for _ in range(2))
    with paid_service.client(paid_service.make_key(credit="1")) as client:
        listed = {voice["voice_id"]: voice for voice in client.get("/v1/voices").json()["data"]}
        content = client.get(f"/v1/voices/{first}/content").content

    assert first != second and second in listed
    assert ("official", "远山", ["zh", "en"], None) == tuple(
        listed[first][name] for name in ("kind", "name", "languages", "provenance")
    )
    assert CONTENT == content
