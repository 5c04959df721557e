"""What SQLite alone promises: group commit, turns between processes, durability, a full disk."""

import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from servers.speed import HANG_S, assert_within
from tenuto.db import sqlite, writer
from tenuto.db.database import Database, Transaction
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.errors import OperatorError, Unavailable

# Writes until it is killed; says every number once `write` has returned.
WRITE_FOR_EVER = """
import asyncio, itertools, sys
from tenuto.db.database_opening import open_database
database = open_database(sys.argv[1])
async def client(client):
    for n in itertools.count():
        name = f"{client}-{n}"
        await database.write_async(lambda tx: tx.run("insert into note (id) values (:id)", id=name))
        print(name, flush=True)
async def main():
    await asyncio.gather(*(client(f"{sys.argv[2]}{n}") for n in range(int(sys.argv[3]))))
asyncio.run(main())
"""

# Writes a little, now and then, and says how long the slowest took.
WRITE_QUIETLY = """
import json, sys, time
from tenuto.db.database_opening import open_database
database = open_database(sys.argv[1])
waits = []
for n in range(100):
    started = time.monotonic()
    database.write(lambda tx: tx.run("insert into note (id) values (:id)", id=f"quiet-{n}"))
    waits.append(time.monotonic() - started)
    time.sleep(0.005)
print(json.dumps(sorted(waits)))
"""

# Fills its disk as a limit on the size of files lets it; then the limit is lifted.
FILL_THE_DISK = """
import json, resource, sys
from tenuto.db.database_opening import open_database
from tenuto.errors import Unavailable
database = open_database(sys.argv[1])
stored, refused = 0, 0
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
for n in range(300):
    try:
        database.write(lambda tx: tx.run("insert into note values (:id, :body)", id=f"n{n}", body="x" * 4000))
        stored += 1
    except Unavailable:
        refused += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
database.write(lambda tx: tx.run("insert into note values (:id, :body)", id="after", body=""))
found = database.read(lambda tx: tx.one("select count(*) as number from note"))["number"]
print(json.dumps({"stored": stored, "refused": refused, "found": found}))
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/tenuto.db"


@pytest.fixture
def notes(url: str) -> Iterator[Database]:
    """A database with one table."""
    with closing(open_database(url)) as database:
        database.write(lambda tx: tx.run("create table note (id text primary key, body text)"))
        yield database


def add(tx: Transaction, name: str) -> None:
    tx.run("insert into note (id) values (:id)", id=name)


def ids(database: Database) -> set[str]:
    return {row["id"] for row in database.read(lambda tx: tx.all("select id from note"))}


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True)


def test_waiting_writes_are_one_commit(notes: Database) -> None:
    """What waits while another writes is committed together: one version of the database more, not thirty."""
    with closing(sqlite3.connect(notes._path)) as watcher:  # type: ignore[attr-defined]
        has_begun, may_end, seen = threading.Event(), threading.Event(), set[int]()

        def slow(tx: Transaction) -> None:
            has_begun.set()
            may_end.wait(10)

        def write(number: int) -> asyncio.Future[None]:
            return asyncio.ensure_future(notes.write_async(lambda tx: add(tx, f"{number}")))

        async def together() -> None:
            first = asyncio.ensure_future(notes.write_async(slow))
            await asyncio.to_thread(has_begun.wait, 10)
            rest = [write(n) for n in range(30)]
            await asyncio.sleep(0.02)
            may_end.set()
            for written in rest:
                await written
                seen.add(watcher.execute("select count(*) from note").fetchone()[0])
            await first

        asyncio.run(together())

    assert {30} == seen


@pytest.mark.parametrize("migrated", [False, True])
def test_what_undoes_an_operation_of_a_group_is_in_memory(
    notes: Database, migrated: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group's savepoints write no temporary file, and with it all that its pages held before, also in a
    process that has applied a migration."""
    monkeypatch.setattr(writer, "GROUP_S", 60.0)
    if migrated:
        (tmp_path / "more").mkdir()
        (tmp_path / "more" / "0001_more.sql").write_text("create table more (id text);")
        migrate(notes, folder=tmp_path / "more")
    for number in range(100):
        notes.write(lambda tx, name=f"{number} {'x' * 4000}": add(tx, name))  # type: ignore[misc]
    has_begun, may_end = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        add(tx, "slow")
        has_begun.set()
        may_end.wait(10)

    def fail(tx: Transaction) -> None:
        raise LookupError

    def change(tx: Transaction) -> list[str]:
        tx.run("update note set id = 'y' || id")
        files = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return [file for file in files if "etilqs" in file]

    async def together() -> list[str]:
        first = asyncio.ensure_future(notes.write_async(slow))
        await asyncio.to_thread(has_begun.wait, 10)
        failing = asyncio.ensure_future(notes.write_async(fail))  # Without one, there are no savepoints.
        second = asyncio.ensure_future(notes.write_async(change))
        await asyncio.sleep(0)
        may_end.set()
        await first
        with pytest.raises(LookupError):
            await failing
        return await second

    assert [] == asyncio.run(together())


def test_a_lost_transaction_fails_its_group(notes: Database) -> None:
    """Where SQLite undoes everything, nobody of the group is told that theirs was stored; the next are."""
    has_begun, may_end = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        has_begun.set()
        may_end.wait(10)

    def lose(tx: Transaction) -> None:
        tx.run("insert or rollback into note (id) values ('there')")

    async def together() -> list[object]:
        first = asyncio.ensure_future(notes.write_async(slow))
        await asyncio.to_thread(has_begun.wait, 10)
        rest = [notes.write_async(lambda tx: add(tx, "a")), notes.write_async(lose)]
        gathered = asyncio.gather(first, *rest, return_exceptions=True)
        await asyncio.sleep(0.02)
        may_end.set()
        return list(await gathered)

    notes.write(lambda tx: add(tx, "there"))
    answers = asyncio.run(together())
    notes.write(lambda tx: add(tx, "next"))

    assert {Unavailable} == {type(answer) for answer in answers[1:]}
    assert {"there", "next"} == ids(notes)


@pytest.mark.parametrize("turn", range(3))
def test_what_was_answered_outlasts_a_kill(notes: Database, url: str, turn: int) -> None:
    """A process is killed while it writes; every write that it was told of is there afterwards."""
    with start(WRITE_FOR_EVER, url, f"k{turn}-", "8") as process:
        assert process.stdout is not None
        said = [process.stdout.readline().strip() for _ in range(50 + 20 * turn)]
        process.kill()
        said += [
            line.strip() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")
        ]
    with closing(open_database(url)) as reopened:
        stored = ids(reopened)
        reopened.write(lambda tx: add(tx, "after"))

    assert set() == set(said) - stored
    assert "after" in ids(notes)


@pytest.mark.measured
def test_a_quiet_process_gets_its_turn(notes: Database, url: str) -> None:
    """Beside two processes that write without pause, the others' slowest write in a hundred stays short."""
    with start(WRITE_FOR_EVER, url, "a", "8") as first, start(WRITE_FOR_EVER, url, "b", "8") as second:
        try:
            assert first.stdout is not None
            assert second.stdout is not None
            first.stdout.readline()
            second.stdout.readline()
            for noisy in (first, second):
                threading.Thread(target=noisy.stdout.read, daemon=True).start()  # type: ignore[union-attr]
            quiet = subprocess.run(
                [sys.executable, "-c", WRITE_QUIETLY, url],
                capture_output=True,
                text=True,
                check=True,
                timeout=120,
            )
        finally:
            first.kill()
            second.kill()
    waits = json.loads(quiet.stdout)

    assert_within(1, waits[98])
    assert 100 == len({name for name in ids(notes) if name.startswith("quiet")})


def test_a_full_disk_is_unavailable_until_there_is_room(notes: Database, url: str) -> None:
    """What cannot be stored is refused, what was answered is there, and writing goes on by itself."""
    done = subprocess.run(
        [sys.executable, "-c", FILL_THE_DISK, url], capture_output=True, text=True, check=True, timeout=120
    )
    told = json.loads(done.stdout.splitlines()[-1])

    assert told["refused"] > 0
    assert "database.refuses" in done.stdout
    assert told["stored"] + 1 == told["found"]


def test_each_statement_of_a_read_sees_what_is_committed_by_then(notes: Database) -> None:
    """As on PostgreSQL: nobody writes code that is right on one database only."""

    def twice(tx: Transaction) -> list[int]:
        first = len(tx.all("select id from note"))
        writing = threading.Thread(target=notes.write, args=(lambda other: add(other, "between"),))
        writing.start()
        writing.join(HANG_S)
        return [first, len(tx.all("select id from note"))]

    assert [0, 1] == notes.read(twice)
    assert {"between"} == ids(notes)


def test_the_lock_of_a_stopped_process_is_not_waited_for_for_ever(
    notes: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When another process keeps the write lock, a write ends with Unavailable; later writes go through."""
    monkeypatch.setattr("tenuto.db.sqlite_processes.TURN_TIMEOUT_S", 0.2)
    with closing(open_database(url)) as other:
        holds, may_end = threading.Event(), threading.Event()

        def hold(tx: Transaction) -> None:
            holds.set()
            may_end.wait(10)

        holding = threading.Thread(target=other.write, args=(hold,))
        holding.start()
        holds.wait(10)
        with pytest.raises(Unavailable, match="lock"):
            notes.write(lambda tx: add(tx, "early"))
        may_end.set()
        holding.join(HANG_S)
        notes.write(lambda tx: add(tx, "late"))

    assert {"late"} == ids(notes)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """The operator is told which file it is."""
    (tmp_path / "tenuto.db").write_bytes(b"something else entirely" * 100)

    with pytest.raises(OperatorError, match=r"tenuto\.db"):
        open_database(f"sqlite:///{tmp_path}/tenuto.db")


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel says that the folder lies on NFS or the like, the database is not opened."""
    folder = tmp_path / "data"
    local = next(mounted for mounted in (sqlite.file_system(tmp_path),) if mounted)
    monkeypatch.setattr(sqlite, "NETWORK_FILE_SYSTEMS", frozenset([local]))

    with pytest.raises(OperatorError, match=local):
        open_database("sqlite:///tenuto.db", folder=folder)


def test_a_damaged_text_keeps_no_other_row_from_being_read(tmp_path: Path) -> None:
    """Bytes that are not UTF-8, as a flipped bit in the file makes them: lone surrogates stand for them
    (PEP 383), and the other rows are had, by every kind of question.
    """
    with closing(open_database(f"sqlite:///{tmp_path}/damaged.db")) as database:
        database.write(lambda tx: tx.run("create table note (id text, size bigint)"))
        database.write(lambda tx: tx.run("insert into note values ('a', 1), (cast(x'62ff' as text), 2)"))
        text = "select id, size from note order by size desc"
        rows = database.read(lambda tx: tx.all(text))
        one = database.read(lambda tx: tx.one(text))
        asked = database.write(lambda tx: tx.ask(text).one())
        sound = database.read(lambda tx: tx.all("select id from note where size = 1"))

    assert [("b\udcff", 2), ("a", 1)] == [(row["id"], row["size"]) for row in rows]
    assert one is not None
    assert asked is not None
    assert ("b\udcff", "b\udcff", "a") == (one["id"], asked["id"], sound[0]["id"])
