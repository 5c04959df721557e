"""`tenuto admin voices`: what there is, and adding a voice that every account may use."""

import hashlib
from pathlib import Path

import pytest

from cli.conftest import Operator, rows
from servers.command_lines import told
from servers.service import RunningService
from tenuto.db.database import Transaction
from tenuto.db.database_opening import open_database
from tenuto.features.decoding.wav import pcm16_wav

pytestmark = pytest.mark.variant("database", only="postgresql")

CONTENT = pcm16_wav(bytes(2 * 16_000), 16_000, 1)


def test_built_in_voices_are_there_from_the_start(operator: Operator) -> None:
    """14 in the list, the shared one first, before any service has run; the table is the same as the JSON."""
    operator("admin", "migrate")
    listed = operator.json("admin", "voices", "list")
    table = rows(operator("admin", "voices", "list"))

    assert ["shared", *["official"] * 11, *["emotion"] * 2] == [voice["kind"] for voice in listed]
    assert [voice["id"] for voice in listed] == [line["id"] for line in table]
    assert listed == operator.json("admin", "voices", "list")


def test_a_damaged_voice_breaks_no_list(operator: Operator, database_url: str) -> None:
    operator.settings.update(database=database_url)
    whole = operator.json("admin", "voices", "list")
    damage = {whole[2]["id"]: '["zh"', whole[3]["id"]: '{"zh": 1}'}
    database = open_database(database_url)

    def change(tx: Transaction) -> None:
        for voice_id, languages in damage.items():
            tx.run("update voice set languages = :text where id = :id", text=languages, id=voice_id)

    database.write(change)
    database.close()
    listed = operator.json("admin", "voices", "list")
    table = {line["id"]: line["languages"] for line in rows(operator("admin", "voices", "list"))}

    shown = {"languages": [], "damaged": True}
    assert [voice | (shown if voice["id"] in damage else {}) for voice in whole] == listed
    assert set(damage) == {voice_id for voice_id, languages in table.items() if languages == "damaged"}


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
    """The same rules as for uploads; exit code 1, one line that says why, nothing added."""
    operator("admin", "migrate")
    cases: list[tuple[bytes | None, list[str], str]] = [
        (b"no WAV", ["--name", "x"], "it is not RIFF WAVE"),
        (CONTENT, ["--name", "x", "--languages", "fr,zh"], "there is no language fr"),
        (bytes(12 * 1024 * 1024 + 1), ["--name", "x"], "which no recording needs"),
        (None, ["--name", "x"], "cannot be read: No such file"),
    ]
    for number, (content, arguments, said) in enumerate(cases):
        file = tmp_path / f"{number}.wav"
        if content is not None:
            file.write_bytes(content)

        assert said in told(operator("admin", "voices", "import", str(file), *arguments))
    assert 14 == len(operator.json("admin", "voices", "list"))
