"""What PostgreSQL alone can do to us: restarts, deadlocks, commits whose outcome nobody knows."""

import asyncio
import itertools
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import psycopg
import pytest
from psycopg import conninfo
from structlog.testing import capture_logs

from servers.postgres import PostgresServer, start_postgres
from servers.speed import HANG_S, assert_within
from servers.threads import lacking
from tenuto.db import connection, postgres
from tenuto.db.connection_errors import describe, remedy
from tenuto.db.database import Asking, Database, Deferred, Row, Transaction
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.db.postgres import PostgresDatabase
from tenuto.errors import OperatorError, Unavailable

_numbers = itertools.count(1)
# Two messages of the protocol: ready for a query, and an error with its severity, state and text.
READY = re.compile(rb"Z\x00\x00\x00\x05[ITE]$")
_FIELDS = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"
ENDED = b"E" + (len(_FIELDS) + 4).to_bytes(4, "big") + _FIELDS


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that tests may stop, if they start it again."""
    own = start_postgres(is_durable=False)
    yield own
    own.stop()


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database on that server."""
    name = f"test_{next(_numbers)}"
    server.run(f"create database {name}")
    return server.url(name)


@pytest.fixture
def notes(url: str) -> Iterator[Database]:
    """A database with one table on that server."""
    with closing(open_database(url)) as database:
        database.write(lambda tx: tx.run("create table note (id text primary key, size bigint)"))
        yield database


def add(tx: Transaction, name: str) -> None:
    tx.do("insert into note (id, size) values (:id, 0)", id=name)


def sizes(database: Database) -> dict[str, int]:
    return {row["id"]: row["size"] for row in database.read(lambda tx: tx.all("select id, size from note"))}


def sizes_at_last(database: Database) -> dict[str, int] | None:
    """The rows, once the pause after failed connections is over."""
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        with suppress(Unavailable):
            return sizes(database)
    return None


@pytest.mark.measured
def test_without_a_server_the_answer_is_quick(server: PostgresServer, notes: Database) -> None:
    """While the server is away, operations get Unavailable at once; when it is back, they go through."""
    server.kill()
    started = time.monotonic()
    for _ in range(20):
        with pytest.raises(Unavailable):
            notes.write(lambda tx: add(tx, "away"))
        with pytest.raises(Unavailable):
            asyncio.run(notes.read_async(lambda tx: tx.all("select id from note")))
        with pytest.raises(Unavailable):
            asyncio.run(notes.look_up(backend))
    took_s = time.monotonic() - started
    server.start()

    assert {} == sizes_at_last(notes)
    assert_within(20, took_s)  # Sixty times; a pause of two seconds for each would be 120.


def backend(tx: Asking) -> Callable[[], int]:
    """The server's process that answers."""
    asked = tx.ask("select pg_backend_pid() as pid")
    return lambda: int(one(asked)["pid"])


def one(asked: Deferred) -> Row:
    row = asked.one()
    assert row is not None
    return row


def occupied(notes: Database, seconds: float) -> list["asyncio.Future[int]"]:
    """Reads that keep all threads of the pool busy for so long; each gives its backend."""

    def sleep(tx: Transaction) -> int:
        row = tx.one(f"select pg_backend_pid() as pid, pg_sleep({seconds})")
        assert row is not None
        return int(row["pid"])

    return [asyncio.ensure_future(notes.read_async(sleep)) for _ in range(postgres.CONNECTIONS)]


async def connected(notes: Database) -> int:
    """The backend of look-ups, once they have a connection of their own."""
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        busy = occupied(notes, 0.05)
        pids = set(await asyncio.gather(*(notes.look_up(backend) for _ in range(20))))
        if len(pids) == 1 and pids.isdisjoint(await asyncio.gather(*busy)):
            return pids.pop()
    raise AssertionError("there is no connection for look-ups")


def test_look_ups_need_no_thread(notes: Database) -> None:
    """While all threads of the pool are busy, look-ups are answered on a connection of their own."""

    async def together() -> tuple[set[int], set[int], bool]:
        await connected(notes)
        busy = occupied(notes, 1.0)
        await asyncio.sleep(0.1)
        pids = set(await asyncio.gather(*(notes.look_up(backend) for _ in range(10))))
        was_busy = not any(each.done() for each in busy)
        return pids, set(await asyncio.gather(*busy)), was_busy

    pids, others, was_busy = asyncio.run(together())

    assert (1, postgres.CONNECTIONS) == (len(pids), len(others))
    assert pids.isdisjoint(others)
    assert was_busy


def test_a_restart_is_not_noticed(server: PostgresServer, notes: Database) -> None:
    """Old connections are replaced within the first call. Look-ups are answered all the same, and have one of
    their own again soon. Who listens is woken, for notices may have been lost.
    """
    notes.write(lambda tx: add(tx, "a"))

    def size(tx: Asking) -> Callable[[], int]:
        asked = tx.ask("select size from note where id = 'a'")
        return lambda: int(one(asked)["size"])

    async def together() -> tuple[list[int], int, int]:
        before = await connected(notes)
        server.restart()
        sizes = await asyncio.gather(*(notes.look_up(size) for _ in range(10)))
        return sizes, before, await connected(notes)

    with closing(notes.listen("jobs")) as listener:
        was_woken = listener.wait(HANG_S)
        sizes, before, after = asyncio.run(together())
        is_woken = listener.wait(HANG_S)
    server.restart()
    notes.write(lambda tx: add(tx, "b"))

    assert [0] * 10 == sizes
    assert before != after
    assert was_woken and is_woken


def test_nobody_waits_long_behind_a_slow_look_up(server: PostgresServer, notes: Database, url: str) -> None:
    """What travels with it, or waits for it, runs in a thread before it has its answer; so does itself."""

    def slow(tx: Asking) -> Callable[[], Row | None]:
        return tx.ask("select pg_advisory_lock_shared(1)").one

    async def together(holder: psycopg.Connection[Any]) -> bool:
        await connected(notes)
        waits = asyncio.ensure_future(notes.look_up(slow))
        beside = asyncio.ensure_future(notes.look_up(backend))
        await asyncio.sleep(0.05)
        await notes.look_up(backend)
        await beside
        is_slow = not waits.done()
        holder.execute("select pg_advisory_unlock(1)")
        await waits
        return is_slow

    with psycopg.connect(url, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(1)")

        assert asyncio.run(together(holder))


def test_a_database_is_closed_over_a_look_up(url: str) -> None:
    """It is refused rather than left to wait for ever."""

    async def together(database: Database) -> object:
        await connected(database)
        waits = asyncio.ensure_future(database.look_up(lambda tx: tx.ask("select pg_sleep(5)").one))
        for _ in range(3):  # The loop queues it in one turn and sends it in the next.
            await asyncio.sleep(0)
        # In the loop's thread: from another one, a busy machine might hand the look-up to the pool first.
        database.close()
        (answer,) = await asyncio.wait_for(asyncio.gather(waits, return_exceptions=True), 10)
        with pytest.raises(Unavailable):
            await database.look_up(backend)
        return answer

    with closing(open_database(url)) as database:
        answer = asyncio.run(together(database))

    assert isinstance(answer, Unavailable)


def test_writes_through_restarts_are_each_stored_once(server: PostgresServer, notes: Database) -> None:
    """What was answered is there after crashes of the server; what was refused may be sent again."""
    said: list[str] = []
    is_over = threading.Event()

    def client(number: int) -> None:
        turn = 0
        while not is_over.is_set():
            turn += 1
            with suppress(Unavailable):
                notes.write(lambda tx, name=f"{number}-{turn}": add(tx, name))  # type: ignore[misc]
                said.append(f"{number}-{turn}")

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        enough = len(said) + 100
        while len(said) < enough:
            time.sleep(0.01)
        server.restart()
    is_over.set()
    for thread in threads:
        thread.join(HANG_S)

    stored = sizes_at_last(notes)
    assert stored is not None
    assert set() == set(said) - set(stored)


def test_an_unknown_outcome_is_not_repeated(notes: Database) -> None:
    """When the connection breaks during COMMIT, nobody can know: the operation is not run again by us."""
    notes.write(
        lambda tx: [
            tx.run(statement)
            for statement in (
                "create function die() returns trigger language plpgsql as"
                " $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$",
                "create constraint trigger at_commit after update on note"
                " deferrable initially deferred for each row execute function die()",
            )
        ]
    )
    runs: list[int] = []

    def change(tx: Transaction) -> None:
        runs.append(1)
        tx.run("update note set size = 1 where id = 'a'")

    notes.write(lambda tx: add(tx, "a"))
    with pytest.raises(Unavailable, match="unknown"):
        notes.write(change)
    notes.write(lambda tx: add(tx, "b"))

    assert [1] == runs
    assert {"a", "b"} == set(sizes(notes))


def test_a_connection_lost_before_the_commit_is_replaced(notes: Database) -> None:
    """When the connection breaks before COMMIT was sent, the operation is run again."""
    runs: list[int] = []

    def change(tx: Transaction) -> None:
        runs.append(1)
        add(tx, "a")
        if len(runs) == 1:
            tx.one("select pg_terminate_backend(pg_backend_pid())")
            tx.one("select 1 as one")

    notes.write(change)

    assert [1, 1] == runs
    assert {"a": 0} == sizes(notes)


def test_a_deadlock_is_run_again(notes: Database) -> None:
    """Of two transactions that wait for each other, both are stored in the end."""
    notes.write(lambda tx: [tx.run("insert into note values (:id, 0)", id=name) for name in "ab"])
    both_hold = threading.Barrier(2)
    runs: list[str] = []

    def raise_both(tx: Transaction, first: str, second: str) -> None:
        runs.append(first)
        for name in (first, second):
            tx.run("update note set size = size + 1 where id = :id", id=name)
            if name == first and len(runs) <= 2:
                both_hold.wait(10)

    threads = [
        threading.Thread(target=notes.write, args=(lambda tx, pair=pair: raise_both(tx, *pair),))
        for pair in ("ab", "ba")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert {"a": 2, "b": 2} == sizes(notes)
    # The one that gave way may reach its row first once more, and then they collide a second time.
    assert len(runs) >= 3


def test_a_migration_that_collides_with_requests_finds_a_gap(
    url: str, notes: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is undone by a deadlock more often than a request would be run again, and is applied anyway."""
    monkeypatch.setattr(postgres, "ATTEMPTS", 1)
    notes.write(lambda tx: tx.run("create table other (id text primary key)"))
    script = "alter table note add column later text;\nalter table other add column later text;\n"
    (tmp_path / "0001_later.sql").write_text(script)
    applied: list[str] = []
    migrating = threading.Thread(target=lambda: applied.extend(migrate(notes, folder=tmp_path)))
    with psycopg.connect(url) as request:
        request.execute("set deadlock_timeout = '60s'")  # The migration is the one that gives way.
        request.execute("lock table other in access exclusive mode")
        migrating.start()
        while not request.execute("select 1 from pg_locks where not granted").fetchone():
            time.sleep(0.05)
        request.execute("lock table note in access exclusive mode")
    migrating.join(HANG_S)

    assert ["0001_later"] == applied


def test_nobody_is_refused_behind_a_migration_that_waits(url: str, notes: Database, tmp_path: Path) -> None:
    """While a backup reads a table, a migration cannot have it. Requests do not wait behind it until they are
    refused, and it is applied once the backup has ended.
    """
    (tmp_path / "0001_later.sql").write_text("alter table note add column later text;\n")
    applied: list[str] = []
    migrating = threading.Thread(target=lambda: applied.extend(migrate(notes, folder=tmp_path)))
    with psycopg.connect(url) as backup, psycopg.connect(url, autocommit=True) as looking:
        backup.execute("select count(*) from note")
        migrating.start()
        for written in "abc":
            while not looking.execute("select 1 from pg_locks where not granted").fetchone():
                time.sleep(0.05)
            notes.write(lambda tx, written=written: add(tx, written))  # type: ignore[misc]
    migrating.join(HANG_S)

    assert ["0001_later"] == applied
    assert {"a", "b", "c"} == set(sizes(notes))


def test_a_migration_of_millions_of_rows_is_applied(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the server's limit for a statement nor our own patience with the server ends it, and another
    process that starts meanwhile waits for it (P21).
    """
    limit = f"statement_timeout = {connection.STATEMENT_TIMEOUT_MS}"
    limited = connection._SETTINGS.replace(limit, "statement_timeout = 500")
    monkeypatch.setattr(connection, "_SETTINGS", limited)
    monkeypatch.setattr(PostgresDatabase._connect, "__defaults__", (connection.LOCK_TIMEOUT_MS, 500))
    (tmp_path / "0001_later.sql").write_text("create table later (id bigint);\nselect pg_sleep(2);\n")
    applied: list[list[str]] = []

    def apply() -> None:
        with closing(open_database(url)) as database:
            applied.append(migrate(database, folder=tmp_path))

    threads = [threading.Thread(target=apply) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_S)

    assert [[], ["0001_later"]] == sorted(applied)


def test_a_lock_is_not_waited_for_for_ever(url: str, notes: Database) -> None:
    """A row that somebody keeps locked is Unavailable after the lock timeout, and logged; then it goes on."""
    notes.write(lambda tx: add(tx, "a"))

    def change(tx: Transaction) -> None:
        tx.run("set local lock_timeout = 50")
        tx.run("update note set size = 1 where id = 'a'")

    with psycopg.connect(url) as other:
        other.execute("select * from note for update")
        with capture_logs() as logs, pytest.raises(Unavailable):
            notes.write(change)
    notes.write(change)

    assert ["55P03"] == [line["sqlstate"] for line in logs if line["event"] == "database.refuses"]
    assert {"a": 1} == sizes(notes)


def test_a_column_that_another_adds_is_no_error(url: str, notes: Database) -> None:
    """Statements that were prepared before a later version's migration are prepared anew: in a read, in a
    write and in a group; each operation is done once (P21).
    """
    text = "select * from note order by id"

    def count(tx: Transaction) -> int:
        rows = tx.all(text)
        tx.run("update note set size = size + 1")
        return len(rows)

    def add_column(name: str) -> None:
        with closing(open_database(url)) as later:
            later.write(lambda tx: tx.run(f"alter table note add column {name} text"))

    notes.write(lambda tx: add(tx, "a"))
    before = [notes.read(lambda tx: tx.all(text)), notes.write(count), asyncio.run(notes.write_async(count))]
    add_column("b")
    read = notes.read(lambda tx: tx.all(text))
    add_column("c")
    written = notes.write(count)
    add_column("d")
    grouped = asyncio.run(notes.write_async(count))

    assert 3 == len(before)
    assert (["id", "size", "b"], 1, 1) == (list(read[0].keys()), written, grouped)
    assert {"a": 4} == sizes(notes)


def test_a_swallowed_error_is_caught(notes: Database) -> None:
    """An operation that hides a database error from us does not pass for stored."""

    def swallow(tx: Transaction) -> None:
        with suppress(Exception):
            tx.run("insert into nowhere values (1)")

    with pytest.raises(AssertionError, match="caught"):
        notes.write(swallow)
    notes.write(lambda tx: add(tx, "a"))

    assert {"a": 0} == sizes(notes)


def test_an_old_server_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is told which version is too old."""
    monkeypatch.setattr(connection, "FLOOR", 990_000)

    with closing(open_database(url)) as database, pytest.raises(OperatorError, match="too old"):
        database.read(lambda tx: tx.one("select 1 as one"))


def test_accounts_do_not_wait_for_each_other(notes: Database) -> None:
    """While an account's write waits for something, the writes of others are stored, but none of its own."""
    accounts = {crc32(name.encode()) % postgres.GROUPS: name for name in map(str, range(64))}
    one, another = accounts[0], accounts[1]
    has_begun, may_end = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        add(tx, "slow")
        has_begun.set()
        may_end.wait(10)

    async def together() -> set[str]:
        first = asyncio.ensure_future(notes.write_async(slow, account_id=one))
        await asyncio.to_thread(has_begun.wait, 10)
        own = asyncio.ensure_future(notes.write_async(lambda tx: add(tx, "own"), account_id=one))
        await notes.write_async(lambda tx: add(tx, "other"), account_id=another)
        seen = set(sizes(notes))
        may_end.set()
        await asyncio.gather(first, own)
        return seen

    assert {"other"} == asyncio.run(together())
    assert {"slow", "own", "other"} == set(sizes(notes))


def test_a_group_that_meets_a_lock_runs_alone(url: str, notes: Database) -> None:
    """One write that must wait for a stranger's lock does not hold up those beside it, and is no warning."""
    for name in "abcdefgh":
        notes.write(lambda tx, name=name: add(tx, name))  # type: ignore[misc]

    def write(name: str) -> "asyncio.Future[int]":
        statement = "update note set size = size + 1 where id = :id"
        return asyncio.ensure_future(notes.write_async(lambda tx: tx.run(statement, id=name)))

    async def together(other: psycopg.Connection[tuple[object, ...]]) -> dict[str, int]:
        other.execute("select * from note where id = 'd' for update")
        writes = {name: write(name) for name in "abcdefgh"}
        await asyncio.gather(*(waiting for name, waiting in writes.items() if name != "d"))
        seen = sizes(notes)
        other.rollback()
        await writes["d"]
        return seen

    with psycopg.connect(url) as other, capture_logs() as logs:
        seen = asyncio.run(together(other))

    assert [] == [line for line in logs if line["event"] == "database.refuses"]
    assert {name: int(name != "d") for name in "abcdefgh"} == seen
    assert dict.fromkeys("abcdefgh", 1) == sizes(notes)


def test_a_session_that_is_ended_between_two_answers_is_lost(server: PostgresServer, url: str) -> None:
    """The server's last word may come after an answer, about none: the connection is gone, nothing is wrong
    with the statement (P2).
    """
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as relay:
        port = relay.getsockname()[1]
        threading.Thread(target=_relay, args=(relay, server.address, ended), daemon=True).start()
        relayed = conninfo.make_conninfo(url, host="127.0.0.1", port=port, sslmode="disable")
        own = connection.Connection(psycopg.connect(relayed, autocommit=True))
        before = own.read(lambda tx: tx.one("select 1 as one"))
        ended.set()
        with closing(own), pytest.raises(connection.ConnectionLost):
            own.read(lambda tx: tx.one("select 1 as one"))

    assert {"one": 1} == before


def _relay(relay: socket.socket, address: Path, ended: threading.Event) -> None:
    """Between a client and the server; once `ended`, readiness becomes the end of the session."""
    client, _ = relay.accept()
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(str(address))
        threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
        while block := server.recv(1 << 16):
            if ended.is_set() and READY.search(block):
                client.sendall(READY.sub(lambda _: ENDED, block))
                return
            client.sendall(block)


def _pass_on(here: socket.socket, there: socket.socket) -> None:
    with suppress(OSError):
        while block := here.recv(1 << 16):
            there.sendall(block)


def test_a_damaged_text_keeps_no_other_row_from_being_read(server: PostgresServer) -> None:
    """Bytes that are not UTF-8, as a flipped bit on the server's disk makes them: lone surrogates for them
    (PEP 383), and the other rows are had.
    """
    server.run("create database damaged encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C' template template0")
    server.run("create table note (id text primary key, size bigint)", "damaged")
    server.run("insert into note values ('a', 1), (convert_from('\\x62ff', 'SQL_ASCII'), 2)", "damaged")
    server.run("update pg_database set encoding = 6 where datname = 'damaged'")
    with closing(open_database(server.url("damaged"))) as database:
        found = sizes(database)

    assert {"a": 1, "b\udcff": 2} == found


def test_writes_outlive_a_passing_lack_of_threads(notes: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The group's thread cannot be started: that write runs alone, and the next one is grouped."""
    refused = lacking(monkeypatch, "postgres-groups")

    async def go() -> None:
        for name in ("one", "two", "three"):
            writing = notes.write_async(partial(add, name=name), account_id="a")
            await asyncio.wait_for(writing, 20)

    asyncio.run(go())

    assert {"one": 0, "two": 0, "three": 0} == sizes(notes)
    assert ["postgres-groups"] == refused
    assert "postgres-groups" in {thread.name for thread in threading.enumerate()}


def test_connections_that_are_open_serve_if_the_server_admits_no_more(
    server: PostgresServer, url: str
) -> None:
    """A burst waits for them, none of it is refused, and neither is anything after it."""
    server.run("create role few login connection limit 4")

    async def burst(database: Database, size: int) -> list[object]:
        reads = (database.read_async(lambda tx: tx.one("select pg_sleep(0.02)")) for _ in range(size))
        return await asyncio.gather(*reads, return_exceptions=True)

    with closing(open_database(url.replace("postgres@", "few@"))) as database:
        ended = [each for size in (4, 100, 1, 1, 100) for each in asyncio.run(burst(database, size))]

    assert [] == [each for each in ended if isinstance(each, Exception)]


def test_a_pooler_that_changes_sessions_is_named(notes: Database) -> None:
    """In transaction mode its sessions lack our prepared statements, or have another's: no bug of ours."""

    def forget(tx: Transaction) -> None:
        tx.one("select 1 as one")
        tx.run("deallocate all")
        tx.one("select 1 as one")

    with pytest.raises(Unavailable) as refused:
        notes.read(forget)

    assert "is behind a pooler that changes sessions between transactions" == describe(refused.value)
    assert "set its pool_mode to session" == remedy(refused.value)
