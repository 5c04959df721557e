"""`tenuto admin backup` and `restore`: under load, killed, damaged, and from one database to the other."""

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from features.backup.conftest import MakeService, Origin
from servers import checker, forking
from servers.postgres import PostgresServer
from servers.processes import is_stopped, until
from servers.service import TENUTO, RunningService
from servers.speed import HANG_S
from tenuto import failpoints
from tenuto.db import connection, schema
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.errors import OperatorError
from tenuto.features.backup import backups, restore, take
from tenuto.features.backup.manifest import read_manifest
from tenuto.features.backup.row_store import rows_as_json
from tenuto.features.backup.rows import LEFT_OUT
from tenuto.file.directory import DirectoryBlobs
from tenuto.ids import Ids
from tenuto.process.data_opening import refuse_unfinished

Operation = dict[str, Any]

SLOW = """create function slow() returns trigger language plpgsql as
    $$ begin perform pg_sleep(2); return null; end $$;
    create trigger slow before update on event execute function slow()"""

OTHER = {"sqlite": "postgresql", "postgresql": "sqlite"}

OF_ONE = pytest.mark.parametrize("origin", ["sqlite"], indirect=True)
"""For what is shown of a backup itself, which holds no trace of the database that it was taken from."""


@OF_ONE
def test_millions_of_rows_are_restored_to_postgresql(
    origin: Origin, postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No limit for the statements of requests applies to one that changes every event (P21)."""
    postgres_server.run("create database millions")
    limit = f"statement_timeout = {connection.STATEMENT_TIMEOUT_MS}"
    manifest = restore.verify(origin.kept)
    with closing(open_database(postgres_server.url("millions"))) as database:
        migrate(database, only=frozenset(manifest.migrations))
    postgres_server.run(SLOW, "millions")
    limited = connection._SETTINGS.replace(limit, "statement_timeout = 1000")
    monkeypatch.setattr(connection, "_SETTINGS", limited)
    with closing(open_database(postgres_server.url("millions"))) as database:
        restore.fill(
            origin.kept, manifest, database, DirectoryBlobs(tmp_path / "blobs"), tell=lambda line: None
        )
        events = database.read(lambda tx: schema.count_rows(tx, "event"))

    assert manifest.tables["event"].rows == events > 0


def test_a_backup_under_load_is_restored_elsewhere(
    make_place: MakeService, dialect: str, tmp_path: Path
) -> None:
    """Taken while jobs are submitted and run, restored on the other database and another port (P21)."""
    place = started(make_place(dialect, TENUTO_SPEECH_SLOTS="2"))
    finished = [place.wait(place.submit(f"Sentence {number}.", stream=True)) for number in range(3)]
    accepted: list[str] = []
    stopping = threading.Event()

    def load() -> None:
        while not stopping.is_set():
            accepted.append(place.submit(f"[fake:sleep=0.02] Under load, number {len(accepted)}."))

    thread = threading.Thread(target=load)
    thread.start()
    try:
        done = place.command("admin", "backup", str(tmp_path / "kept"))
    finally:
        stopping.set()
        thread.join()
    other = restored(make_place, OTHER[dialect], tmp_path / "kept", place)
    audit = other.command("admin", "audit", "--deep")
    other.start()
    database = checker.open_records(other)
    known = {row["id"] for row in checker.rows(database, "select id from job")}
    database.close()
    for job_id in known:
        assert "succeeded" == other.wait(job_id)["state"]

    assert "agrees" in audit.stdout
    assert done.stdout.startswith(f"{tmp_path / 'kept'} holds all of ")
    assert {operation["id"] for operation in finished} <= known <= {*accepted, *(o["id"] for o in finished)}
    assert [downloads(place, each) for each in finished] == [downloads(other, each) for each in finished]
    assert other.command("admin", "audit", "--deep").returncode == 0


@OF_ONE
def test_only_its_owner_may_read_a_backup(origin: Origin, tmp_path: Path) -> None:
    """Folders are 0700 and files 0600, whatever the umask: there are hashes of keys and texts in it."""
    before = os.umask(0)
    try:
        origin.place.command("admin", "backup", str(tmp_path / "kept"))
    finally:
        os.umask(before)
    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / "kept", *(tmp_path / "kept").rglob("*"))
    }

    assert {(True, 0o700), (False, 0o600)} == modes


@pytest.mark.parametrize("where", [place for place in failpoints.PLACES if place.startswith("backup.")])
def test_a_killed_backup_is_none_and_is_taken_again(origin: Origin, tmp_path: Path, where: str) -> None:
    """SIGKILL anywhere: no folder of that name; the next one uses what was copied and is whole (P21)."""
    kept, half = tmp_path / "kept", tmp_path / "kept.unfinished"
    killed = with_failpoint(origin.place, f"{where}:1:kill", "admin", "backup", str(kept))
    was_there, copied = kept.exists(), {path.name: path.stat().st_ino for path in half.rglob("blob_*")}
    if where != "backup.before_name":
        with pytest.raises(OperatorError, match="is not a whole backup"):
            restore.verify(half)
    origin.place.command("admin", "backup", str(kept))

    assert -signal.SIGKILL == killed.returncode
    assert not was_there
    assert not half.exists()
    assert copied.items() <= {path.name: path.stat().st_ino for path in kept.rglob("blob_*")}.items()
    assert bool(copied) == (where in ("backup.mid_blobs", "backup.before_name"))
    assert read_manifest(origin.kept).tables == restore.verify(kept).tables
    forget_backups(origin.place)


@pytest.mark.parametrize("where", [place for place in failpoints.PLACES if place.startswith("restore.")])
def test_a_killed_restore_is_gone_on_with(make_place: MakeService, origin: Origin, where: str) -> None:
    """SIGKILL anywhere: nothing starts on the half; the same restore said again ends it (P21)."""
    other = make_place("sqlite" if origin.place.database_url else "postgresql")
    killed = with_failpoint(other, f"{where}:1:kill", "admin", "restore", str(origin.kept))
    with pytest.raises(OperatorError, match="run `tenuto admin restore` with the same backup again"):
        refuse_unfinished(other.folder)
    done = other.command("admin", "restore", str(origin.kept))

    assert -signal.SIGKILL == killed.returncode
    assert "is restored to" in done.stdout
    assert everything(origin.place) == everything(other)


@OF_ONE
@pytest.mark.parametrize(
    "damage", ["blob", "no blob", "row", "short rows", "no table", "manifest", "no manifest"]
)
def test_a_damaged_backup_is_refused(origin: Origin, tmp_path: Path, damage: str) -> None:
    """A flipped bit or a missing file anywhere is found before anything is written (P6, P21)."""
    kept = shutil.copytree(origin.kept, tmp_path / "kept")
    damage_it(kept, damage)

    with pytest.raises(OperatorError, match=r"damaged|is not a whole backup"):
        restore.verify(kept)


@OF_ONE
def test_nothing_starts_on_a_half_restore(make_place: MakeService, origin: Origin, tmp_path: Path) -> None:
    """No command opens the folder before the restore has come to its end."""
    other, kept = make_place("sqlite"), tmp_path / "kept"
    with_failpoint(other, "restore.after_rows:1:kill", "admin", "restore", str(origin.kept))
    lines = ("serve --port 0", "admin accounts list", "admin audit", "admin migrate --check", "admin doctor")
    refused = [other.command(*line.split(), check=False) for line in lines]
    refused.append(other.command("admin", "backup", str(kept), check=False))

    assert [1] * 6 == [done.returncode for done in refused]
    for done in refused:
        assert "holds an unfinished restore; run `tenuto admin restore` with the same backup again" in (
            done.stdout + done.stderr
        )
    assert not kept.exists()


def test_a_restore_needs_an_empty_place(make_place: MakeService, origin: Origin) -> None:
    """Neither a folder nor a database that holds anything is written to; the refusal names which."""
    before = everything(origin.place)
    again = origin.place.command("admin", "restore", str(origin.kept), check=False)
    elsewhere = make_place("sqlite")
    elsewhere.database_url = origin.place.database_url or f"sqlite:///{origin.place.folder}/tenuto.db"
    database = elsewhere.command("admin", "restore", str(origin.kept), check=False)

    assert f"{origin.place.folder} is not empty" in told_last(again)
    assert "the database is not empty" in told_last(database)
    assert before == everything(origin.place)


@OF_ONE
@pytest.mark.parametrize("where", ["before_rows", "mid_blobs"])
def test_a_restore_is_resumed_in_no_other_database(
    make_place: MakeService, origin: Origin, where: str
) -> None:
    """If the settings name another service's by then, it is refused, changes nothing there and stays
    unfinished; in the first one it still comes to its end (P21).
    """
    other, running = make_place("sqlite"), make_place("sqlite")
    running.command("admin", "accounts", "create", "production")
    before = everything(running)
    with_failpoint(other, f"restore.{where}:1:kill", "admin", "restore", str(origin.kept))
    other.database_url = f"sqlite:///{running.folder}/tenuto.db"
    refused = other.command("admin", "restore", str(origin.kept), check=False)
    after, other.database_url = everything(running), None
    done = other.command("admin", "restore", str(origin.kept))

    assert "the database is not empty; restore into the one where this restore was begun" in told_last(
        refused
    )
    assert before == after
    assert "is restored to" in done.stdout
    assert everything(origin.place) == everything(other)


@OF_ONE
def test_damaged_bytes_are_named_or_left_out(make_place: MakeService, origin: Origin, tmp_path: Path) -> None:
    """A backup is refused with the blob's name; with the option it is taken without, and says so."""
    place = make_place("sqlite")
    place.command("admin", "restore", str(origin.kept))
    database = checker.open_records(place)
    blob_id = checker.rows(database, "select blob_id from artifact order by id limit 1")[0]["blob_id"]
    database.close()
    (place.folder / "blobs" / blob_id[-2:] / blob_id).write_bytes(b"rotten")
    refused = place.command("admin", "backup", str(tmp_path / "kept"), check=False)
    taken = place.command("admin", "backup", str(tmp_path / "kept"), "--leave-out-damaged")

    assert f"1 blobs are missing or damaged: {blob_id}; `tenuto admin audit --deep`" in told_last(refused)
    assert taken.stdout.endswith("; 1 damaged blobs are left out\n")
    assert [blob_id] == restore.verify(tmp_path / "kept").left_out


def test_damaged_text_does_not_prevent_a_backup(make_place: MakeService, tmp_path: Path) -> None:
    """Text that is not UTF-8, or bytes in a column of text: invalid bytes are replaced and reported (P21)."""
    place = started(make_place("sqlite"))
    damaged, sound = (place.wait(place.submit(text)) for text in ("One.", "Two."))
    place.stop()
    with closing(sqlite3.connect(place.folder / "tenuto.db")) as records:
        records.execute("update job set metadata = cast(x'61ff' as text) where id = ?", (damaged["id"],))
        records.execute("update job set title = x'62fe' where id = ?", (damaged["id"],))
        records.commit()

    done = place.command("admin", "backup", str(tmp_path / "kept"))
    other = restored(make_place, "postgresql", tmp_path / "kept", place)
    rows = checker.open_records(other)
    kept = checker.rows(rows, "select * from job order by id")
    rows.close()

    assert "rows with text that is not UTF-8: 1; each invalid byte was replaced by U+FFFD" in done.stderr
    assert [("a\ufffd", "b\ufffd"), ("{}", "Two.")] == [(row["metadata"], row["title"]) for row in kept]
    assert [damaged["id"], sound["id"]] == [row["id"] for row in kept]


@pytest.mark.parametrize("known_at_once", [take.KNOWN_AT_ONCE, 5])
def test_a_backup_that_is_taken_again_has_no_bytes_of_the_first(
    make_place: MakeService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_at_once: int
) -> None:
    """What was erased since the backup that was killed is in none of them, in however many passes they go."""
    place = started(make_place("sqlite"))
    jobs = [place.wait(place.submit(f"Sentence {number}."))["id"] for number in range(2)]
    place.stop()
    kept = tmp_path / "kept"
    with_failpoint(place, "backup.before_name:1:kill", "admin", "backup", str(kept))
    forget_backups(place)
    first = {path.name for path in tmp_path.rglob("kept.unfinished/**/blob_*")}
    place.start()
    with place.client() as client:
        assert 200 == client.delete(f"/v1/jobs/{jobs[0]}/content").status_code
    place.stop()
    monkeypatch.setattr(take, "KNOWN_AT_ONCE", known_at_once)
    with closing(place.open_database()) as database:
        take.take(
            database,
            DirectoryBlobs(place.folder / "blobs"),
            kept,
            ids=Ids(lambda: 1),
            clock=lambda: 1,
            program="tenuto",
            tell=lambda line: None,
        )
    second = {path.name for path in kept.rglob("blob_*")}

    assert (1, set()) == (len(first - second), second - first)
    assert len(second) == restore.verify(kept).blobs


@OF_ONE
def test_a_folder_is_written_by_one_backup_or_restore_at_a_time(
    make_place: MakeService, origin: Origin, tmp_path: Path
) -> None:
    """A second one is refused and touches nothing: what the first reports to be whole is whole (P21)."""
    other, kept = make_place("sqlite"), tmp_path / "kept"
    backup, restoring = ("admin", "backup", str(kept)), ("admin", "restore", str(origin.kept))
    first = [
        start_with_failpoint(origin.place, "backup.mid_blobs:1:stop", *backup),
        start_with_failpoint(other, "restore.mid_blobs:1:stop", *restoring),
    ]
    until(lambda: all(is_stopped(each.pid) for each in first), HANG_S, "they stand still")
    second = [origin.place.command(*backup, check=False), other.command(*restoring, check=False)]
    for each in first:
        os.kill(each.pid, signal.SIGCONT)
    codes = [each.wait(60) for each in first]

    assert [0, 0] == codes
    for done, folder in zip(second, (f"{kept}.unfinished", other.folder), strict=True):
        assert f"{folder} is in use by another backup or restore" in told_last(done)
    assert {"blobs", "rows", "manifest.json"} == {path.name for path in kept.iterdir()}
    assert read_manifest(origin.kept).tables == restore.verify(kept).tables
    assert everything(origin.place) == everything(other)


def test_what_is_erased_during_a_backup_is_removed_after_it(
    make_place: MakeService, dialect: str, tmp_path: Path
) -> None:
    """The owner erases while the rows are copied and the bytes are not."""
    place = started(make_place(dialect))
    operation = place.wait(place.submit("To be erased."))
    waiting = start_with_failpoint(
        place, "backup.after_rows:1:stop", "admin", "backup", str(tmp_path / "kept")
    )
    until(lambda: is_stopped(waiting.pid), HANG_S, "it stands still")
    with place.client() as http:
        erased = http.delete(f"/v1/jobs/{operation['id']}/content")
    database = checker.open_records(place)
    [left] = checker.rows(database, "select id from blob where condemned_at is not null")
    file = place.folder / "blobs" / left["id"][-2:] / left["id"]
    was_kept = file.exists()
    os.kill(waiting.pid, signal.SIGCONT)
    code = waiting.wait(60)
    other = restored(make_place, dialect, tmp_path / "kept", place)

    assert (200, True, 0) == (erased.status_code, was_kept, code)
    assert 0 == other.command("admin", "audit", "--deep").returncode
    other.start()
    assert downloads(other, operation)
    place.stop()
    place.start()
    until(lambda: not file.exists(), HANG_S, "the bytes are removed", look_s=0.1)
    database.close()


def test_a_backup_that_beats_is_not_forgotten_for_another_observer(database: Database) -> None:
    """A row that has changed since it was read stays, also when the clock went back (P20, P21)."""
    write, read = database.write, database.read
    write(lambda tx: backups.begin(tx, "backup_1", now_ms=1_000_000))
    [before] = read(backups.under_way)
    beaten = write(lambda tx: backups.see(tx, "backup_1", now_ms=5))
    kept = write(lambda tx: backups.forget(tx, "backup_1", seen_at=before.seen_at))
    [after] = read(backups.under_way)
    gone = write(lambda tx: backups.forget(tx, "backup_1", seen_at=after.seen_at))
    late = write(lambda tx: backups.see(tx, "backup_1", now_ms=2_000_000))

    assert (True, False, True, False) == (beaten, kept, gone, late)
    assert before.seen_at < after.seen_at
    assert not read(backups.under_way)


@OF_ONE
@pytest.mark.parametrize(("name", "reason"), [("9999_later", "newer"), ("0001_initial", r"before 0\.1\.0")])
def test_a_backup_of_a_newer_or_an_unreleased_program_is_refused(
    origin: Origin, tmp_path: Path, name: str, reason: str
) -> None:
    """One line says that a newer version is needed, or that no released one reads it."""
    kept = shutil.copytree(origin.kept, tmp_path / "kept")
    manifest = read_manifest(kept)
    (kept / "manifest.json").unlink()
    replace(manifest, migrations=manifest.migrations | {name: "0" * 64}).write(kept)

    with pytest.raises(OperatorError, match=reason):
        restore.verify(kept)


def damage_it(kept: Path, damage: str) -> None:
    """Take a file away, or flip a bit in its middle, or cut the last row."""
    files = {"blob": max(kept.rglob("blob_*"), key=lambda path: path.stat().st_size)}
    files |= {"table": kept / "rows" / "entry.jsonl", "manifest": kept / "manifest.json"}
    target = files.get(damage.removeprefix("no "), kept / "rows" / "job.jsonl")
    content = target.read_bytes()
    middle = len(content) // 2
    if damage.startswith("no "):
        target.unlink()
    elif damage == "short rows":
        target.write_bytes(content[: content.rindex(b"\n", 0, -1) + 1])
    else:
        target.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


def forget_backups(place: RunningService) -> None:
    database = checker.open_records(place)
    database.write(lambda tx: tx.run("delete from backup"))
    database.close()


def started(place: RunningService) -> RunningService:
    place.start()
    place.key = place.make_key(credit="100")
    return place


def restored(make_place: MakeService, dialect: str, folder: Path, origin: RunningService) -> RunningService:
    """A place of its own, whose upkeep takes what ran in the other one over after a second."""
    other = make_place(dialect, TENUTO_SILENCE_S="1", TENUTO_HEARTBEAT_S="0.2")
    other.key = origin.key
    other.command("admin", "restore", str(folder))
    return other


def with_failpoint(place: RunningService, armed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forking.complete(arguments, env=place.environment | {"TENUTO_FAILPOINT": armed})


def start_with_failpoint(place: RunningService, armed: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [TENUTO, *arguments],
        env=place.environment | {"TENUTO_FAILPOINT": armed},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def told_last(done: subprocess.CompletedProcess[str]) -> str:
    """The last line on stderr, which says why; progress stands before it."""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("tenuto: "), done.stderr
    return last


def everything(place: RunningService) -> dict[str, list[str]]:
    """Every row of every table that is backed up, but for positions of events, which a restore clears."""
    database = checker.open_records(place)
    try:
        return database.snapshot(
            lambda tx: {
                table.name: [
                    json.dumps(
                        [
                            value
                            for column, value in zip(table.columns, json.loads(line), strict=True)
                            if column != "position"
                        ]
                    )
                    for page in rows_as_json(tx, database.dialect, table)
                    for line in page
                ]
                for table in schema.tables(tx, database.dialect)
                if table.name not in LEFT_OUT
            }
        )
    finally:
        database.close()


def downloads(place: RunningService, operation: Operation) -> tuple[bytes, object]:
    """The bytes of a job's artifact, and its segments."""
    [artifact] = operation["artifacts"]
    with place.client() as http:
        answer = http.get(f"/v1/artifacts/{artifact['id']}/content")
        segments = http.get(f"/v1/jobs/{operation['id']}/audio-segments").json()
    assert 200 == answer.status_code
    return answer.content, segments
