"""A backup that somebody has forged, its checksums made to fit: a sentence says so, nothing is written."""

import hashlib
import json
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from features.backup.conftest import MakeService, Origin
from tenuto.errors import OperatorError
from tenuto.features.backup import restore

Forge = Callable[[Path], None]
FLIPS = 150
DEEP = "[" * 100_000

# A backup holds no trace of the database that it was taken from.
pytestmark = pytest.mark.parametrize("origin", ["sqlite"], indirect=True)


@pytest.fixture
def kept(origin: Origin, tmp_path: Path) -> Path:
    """A sound backup, to be forged."""
    return Path(shutil.copytree(origin.kept, tmp_path / "kept"))


def manifest(**changes: Any) -> Forge:
    """These fields of the manifest, and its checksum made to fit."""
    return lambda kept: _write_manifest(kept, changes)


def line(table: str, number: int, change: Callable[[Any], Any]) -> Forge:
    """One line of a table's file, the columns being line 0, and all checksums made to fit."""

    def forge(kept: Path) -> None:
        file = kept / "rows" / f"{table}.jsonl"
        lines = file.read_bytes().splitlines(keepends=True)
        changed = change(json.loads(lines[number]))
        lines[number] = changed if isinstance(changed, bytes) else json.dumps(changed).encode() + b"\n"
        _write_rows(kept, table, b"".join(lines))

    return forge


def cell(table: str, column: str, value: Any) -> Forge:
    """One value of the first row."""

    def forge(kept: Path) -> None:
        with (kept / "rows" / f"{table}.jsonl").open("rb") as file:
            place = json.loads(file.readline()).index(column)
        line(table, 1, lambda row: [*row[:place], value, *row[place + 1 :]])(kept)

    return forge


def pipe(kept: Path) -> None:
    """Whoever opens it to read would wait for ever."""
    (kept / "rows" / "job.jsonl").unlink()
    os.mkfifo(kept / "rows" / "job.jsonl")


def link(kept: Path) -> None:
    (kept / "manifest.json").rename(kept.with_name("elsewhere"))
    (kept / "manifest.json").symlink_to(kept.with_name("elsewhere"))


FORGED: dict[str, Forge] = {
    "a table that is a path": manifest(tables={"../../x": {"rows": 0, "size_bytes": 0, "sha256": "0" * 64}}),
    "a table that is not one": manifest(tables={"xyz": {"rows": 0, "size_bytes": 0, "sha256": "0" * 64}}),
    "tables that are a list": manifest(tables=[]),
    "no tables": manifest(tables={}),
    "rows in words": manifest(tables={"job": {"rows": "1", "size_bytes": 0, "sha256": "0" * 64}}),
    "a moment beyond all calendars": manifest(created_at=10**30),
    "less than no blobs": manifest(blobs=-1),
    "bytes without number": manifest(blob_bytes=None),
    "a blob left out that is a path": manifest(left_out=["../../etc/passwd"]),
    "migrations that are a list": manifest(migrations=[["0001_schema", "x"]]),
    "a program that writes on the terminal": manifest(program="\x1b[2J"),
    "an id of two lines": manifest(backup_id="backup_1\nx"),
    "an unhashable format": manifest(format={}),
    "a manifest without bottom": lambda kept: _replace(kept, DEEP.encode()),
    "a manifest that is a list": lambda kept: _replace(kept, b"[]"),
    "a manifest that is a link": link,
    "rows that are a pipe": pipe,
    "a column that is SQL": line(
        "account", 0, lambda names: ["id) values (1); drop table job; --", *names[1:]]
    ),
    "a column that comes twice": line("account", 0, lambda names: [names[0], names[0], *names[2:]]),
    "columns that are a number": line("account", 0, lambda _: 7),
    "a row that is too short": line("account", 1, lambda row: row[:-1]),
    "a row that is an object": line("account", 1, lambda _: {}),
    "a row that is no JSON": line("account", 1, lambda _: b"\xff\n"),
    "a row without bottom": line("account", 1, lambda _: DEEP.encode() + b"\n"),
    "a row without an end": line("account", -1, lambda row: json.dumps(row).encode()),
    "text where money is": cell("account", "available_micros", "1 or 1"),
    "half a coin": cell("account", "available_micros", 0.5),
    "true money": cell("account", "available_micros", True),
    "more money than a column holds": cell("account", "available_micros", 2**63),
    "a number where a name is": cell("account", "name", 7),
    "a name with NUL": cell("account", "name", "a\0b"),
    "half a letter": line("account", 1, lambda row: json.dumps(["\ud800", *row[1:]]).encode() + b"\n"),
    "a blob that is a path": cell("blob", "id", "../../../../etc/passwd"),
    "a blob of less than nothing": cell("blob", "size_bytes", -1),
    "a blob larger than all disks": cell("blob", "size_bytes", 2**62),
    "a blob whose digest is none": cell("blob", "sha256", "x"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_backup_is_refused(kept: Path, name: str) -> None:
    """Names, types, sizes and shapes are held against the tables that there are (P21)."""
    restore.verify(kept)
    FORGED[name](kept)

    with pytest.raises(OperatorError):
        restore.verify(kept)


def test_a_forged_backup_costs_one_line(make_place: MakeService, kept: Path) -> None:
    """The command says what is wrong, without a traceback, and leaves nothing in the data folder. Two
    accounts of one id pass every look at a row: the database refuses them.
    """
    lines = (kept / "rows" / "account.jsonl").read_bytes().splitlines(keepends=True)
    _write_rows(kept, "account", b"".join([*lines, lines[-1]]))
    contradiction = make_place("sqlite").command("admin", "restore", str(kept), check=False)
    FORGED["a column that is SQL"](kept)
    other = make_place("sqlite")
    done = other.command("admin", "restore", str(kept), check=False)

    assert [1, 1] == [done.returncode, contradiction.returncode]
    assert "account has no column" in done.stderr.splitlines()[-1]
    assert "its rows do not fit together" in contradiction.stderr
    assert "Traceback" not in done.stderr + contradiction.stderr
    assert not other.folder.exists()


def test_bytes_that_nobody_meant_are_refused_or_restored(kept: Path) -> None:
    """Random bytes anywhere in rows and manifest, checksums made to fit: a sentence or none, nothing else."""
    draw, sound = random.Random(7), kept.with_name("sound")
    shutil.copytree(kept, sound)
    for _ in range(FLIPS):
        table = draw.choice(["account", "blob", "job", "entry"])
        content = bytearray((sound / "rows" / f"{table}.jsonl").read_bytes())
        for _ in range(draw.randint(1, 3)):
            content[draw.randrange(len(content))] = draw.choice(b'\0"[],{}0-9e.\\un\xff\n')
        _write_rows(kept, table, bytes(content))
        with suppress(OperatorError):
            restore.verify(kept)
        _write_rows(kept, table, (sound / "rows" / f"{table}.jsonl").read_bytes())


def _write_rows(kept: Path, table: str, content: bytes) -> None:
    (kept / "rows" / f"{table}.jsonl").write_bytes(content)
    tables = json.loads((kept / "manifest.json").read_bytes())["tables"]
    digest, rows = hashlib.sha256(content).hexdigest(), len(content.splitlines()) - 1
    tables[table] = {"rows": max(rows, 0), "size_bytes": len(content), "sha256": digest}
    _write_manifest(kept, {"tables": tables})


def _write_manifest(kept: Path, changes: dict[str, Any]) -> None:
    fields = json.loads((kept / "manifest.json").read_bytes()) | changes
    del fields["sha256"]
    text = json.dumps(fields, sort_keys=True, ensure_ascii=False)
    _replace(kept, json.dumps(fields | {"sha256": hashlib.sha256(text.encode()).hexdigest()}).encode())


def _replace(kept: Path, content: bytes) -> None:
    (kept / "manifest.json").unlink()
    (kept / "manifest.json").write_bytes(content)
