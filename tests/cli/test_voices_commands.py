"""`tenuto admin voices`: what there is, and adding a voice that every account may use."""

import hashlib
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


def test_a_damaged_voice_breaks_no_list(operator: Operator, database_url: str) -> None:
    operator.settings.update(database=database_url)
    damaged = operator.json("admin", "voices", "list")[2]["id"]
    change = "update voice set languages = '[\"zh\"' where id = :id"
    with closing(open_database(database_url)) as database:
        database.write(lambda tx: tx.run(change, id=damaged))
    listed = {voice["id"]: voice for voice in operator.json("admin", "voices", "list")}
    table = {line["id"]: line["languages"] for line in rows(operator("admin", "voices", "list"))}

    assert 14 == len(listed) and ([], True) == (listed[damaged]["languages"], listed[damaged]["damaged"])
    assert [damaged] == [voice_id for voice_id, languages in table.items() if languages == "damaged"]


def test_an_imported_voice_is_everybodys(paid_service: RunningService, tmp_path: Path) -> None:
    """Every account sees and hears it at once, under a new id each time (R161, R175)."""
    file = tmp_path / "voice.wav"
    file.write_bytes(CONTENT)
    arguments = ("import", str(file), "--name", "远山", "--languages", "zh, en")
    first, second = (paid_service.command_json("admin", "voices", *arguments) for _ in range(2))
    with paid_service.client(paid_service.make_key(credit="1")) as client:
        listed = {voice["voice_id"]: voice for voice in client.get("/v1/voices").json()["data"]}
        content = client.get(f"/v1/voices/{first['id']}/content").content

    assert first["id"] != second["id"]
    assert ("official", "远山", ["zh", "en"], None) == tuple(
        listed[first["id"]][name] for name in ("kind", "name", "languages", "provenance")
    )
    assert CONTENT == content
    assert hashlib.sha256(CONTENT).hexdigest() == listed[second["id"]]["audio"]["sha256"]


def test_what_cannot_be_imported(operator: Operator, tmp_path: Path) -> None:
    """The same rules as for uploads: one line says why, and there are the built-in voices alone, which are
    there before any service has run."""
    listed = operator.json("admin", "voices", "list")
    cases: list[tuple[bytes | None, list[str], str]] = [
        (b"no WAV", ["--name", "x"], "it is not RIFF WAVE"),
        (CONTENT, ["--name", "x", "--languages", "fr,zh"], "there is no language fr"),
        (None, ["--name", "x"], "cannot be read: No such file"),
    ]
    for number, (content, arguments, said) in enumerate(cases):
        file = tmp_path / f"{number}.wav"
        if content is not None:
            file.write_bytes(content)

        assert said in told(operator("admin", "voices", "import", str(file), *arguments))
    assert ["shared", *["official"] * 11, *["emotion"] * 2] == [voice["kind"] for voice in listed]
    assert listed == operator.json("admin", "voices", "list")
