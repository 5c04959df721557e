"""Of several copies of a database, one is in use: that with the highest timeline, then the highest epoch."""

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from structlog.testing import capture_logs

from servers.pairs import NAME, Pair, ask, make_pair
from servers.postgres import THROUGH, PostgresServer, start_postgres
from servers.processes import until
from servers.proxy import Proxy
from tenuto.config import Settings
from tenuto.db import generation_row as store
from tenuto.db.connection_errors import describe
from tenuto.db.database import Database, Transaction
from tenuto.db.database_copy import Copy
from tenuto.db.failover import leave_outdated
from tenuto.db.migrations import migrate
from tenuto.db.postgres import PostgresDatabase
from tenuto.db.servers import Open, Servers
from tenuto.errors import Unavailable
from tenuto.file.directory import DirectoryBlobs
from tenuto.process.newest_copy import begin, exchange, open_compared

OURS = "select count(*) from pg_stat_activity where application_name like 'tenuto%'"


def notes(server: PostgresServer) -> list[object]:
    return ask(server, "select id from note order by id")


def note(database: Database, name: str) -> None:
    def add(tx: Transaction) -> None:
        tx.do("insert into note (id) values (:id)", id=name)

    database.write(add)


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Both have a migrated database with an empty table of notes."""
    made = make_pair()
    with closing(PostgresDatabase(made.old.url(NAME))) as database:
        migrate(database)
        database.write(lambda tx: tx.run("create table note (id text primary key)"))
    yield made
    made.stop()


def test_an_old_primary_that_comes_back_is_not_written_to(pair: Pair) -> None:
    """A process that has seen the promotion passes it over, although it comes first, and so do one that has
    heard of it and one that was idle meanwhile; a process that is given nothing else is refused, and told why
    (P1). A standby alone counts as away (P8)."""
    with (
        closing(PostgresDatabase(pair.url)) as database,
        closing(PostgresDatabase(pair.url)) as idle,
        closing(PostgresDatabase(pair.new.url(NAME))) as early,
    ):
        note(database, "before")
        note(idle, "idle")
        with pytest.raises(Unavailable) as too_early:
            note(early, "lost")
        pair.fail_over()
        until(lambda: has_noted(database, "promoted"), 30, "the promoted one is found")
        pair.old.start()
        until(lambda: has_noted(idle, "idle no more"), 30, "it connects again")
        with (
            capture_logs() as logs,
            closing(PostgresDatabase(pair.url)) as started,
            closing(PostgresDatabase(pair.old.url(NAME))) as misled,
        ):
            newest = database.servers.newest
            assert newest is not None
            for each in (started, misled):
                each.servers.reports = True
                each.servers.learn(newest)
            note(started, "started after it")
            database.snapshot(lambda tx: tx.one("select 1 as one"))  # On a new connection.
            with pytest.raises(Unavailable) as refused:
                note(misled, "lost")

    assert ["before", "idle"] == notes(pair.old)
    assert ["before", "idle", "idle no more", "promoted", "started after it"] == notes(pair.new)
    assert "does not answer: server is in hot standby mode" == describe(too_early.value)
    assert "is not the one in use" in describe(refused.value)
    assert "timeline 1, epoch 0, and timeline 2, epoch 0 is in use" in describe(refused.value)
    outdated = [line for line in logs if line["event"] == "database.outdated"]
    assert {(f"{pair.old.folder}:5432", "error", 1, 2)} == {
        (line["host"], line["log_level"], line["timeline"], line["newest_timeline"]) for line in outdated
    }


def has_noted(database: Database, name: str) -> bool:
    try:
        note(database, name)
    except Unavailable:
        return False
    return True


def test_connections_to_an_old_primary_are_ended_when_another_is_promoted(pair: Pair) -> None:
    """Nobody stopped it: a process with both hosts looks for itself, one with a single host hears of it. Idle
    connections, those that listen, and those inside a transaction end, with an error in the log (P1)."""
    with (
        closing(PostgresDatabase(pair.url)) as database,
        closing(PostgresDatabase(pair.old.url(NAME))) as single,
        closing(single.listen("jobs")),
        capture_logs() as logs,
    ):
        note(database, "one")
        note(single, "two")
        until(lambda: ask(pair.old, OURS) == [3], 30, "all are connected")
        pair.promote()

        def write(tx: Transaction) -> None:
            tx.run("insert into note (id) values ('lost')")
            for each in (database, single):
                leave_outdated(each.servers)
                single.servers.learn(database.servers.newest or pytest.fail("it has looked"))

        with pytest.raises(Unavailable):
            single.write(write)
        until(lambda: ask(pair.old, OURS) == [0], 30, "none is connected")
        note(database, "three")

    assert ["one", "two"] == notes(pair.old)
    assert ["one", "three", "two"] == notes(pair.new)
    left = {(line["host"], line["log_level"]) for line in logs if line["event"] == "database.left"}
    assert {(f"{pair.old.folder}:5432", "error")} == left


def test_of_two_promoted_copies_that_where_processes_start_is_in_use(pair: Pair) -> None:
    """They have one timeline; a start raises the epoch of its own, and a connection to the other ends. After
    a start on each, of processes that have not heard of each other, one copy is the newer one for both (P1).
    """
    other = pair.old.standby()
    try:
        pair.catch_up()
        pair.old.kill()
        for server in (pair.new, other):
            server.run("select pg_promote()")
        with (
            closing(PostgresDatabase(other.url(NAME))) as database,
            closing(PostgresDatabase(pair.new.url(NAME))) as started,
        ):
            note(database, "before the start")
            begin(started)
            newest = started.servers.newest
            assert newest is not None
            database.servers.learn(newest)
            leave_outdated(database.servers)
            with pytest.raises(Unavailable):
                note(database, "after it")
        with closing(PostgresDatabase(other.url(NAME))) as unknowing:
            begin(unknowing)
            second = unknowing.servers.newest
            assert second is not None

        assert (0, 2) == newest.generation[:2] == second.generation[:2]
        assert newest.epoch != second.epoch
        assert ["before the start"] == notes(other)
    finally:
        other.stop()


def test_what_a_command_has_seen_is_kept(pair: Pair, tmp_path: Path) -> None:
    """The store has not heard of the promotion: whoever saw it died before it said so, or the disk was full.
    A command uses the promoted one, and whoever starts while that does not answer is refused (P1)."""
    first = Settings(folder=tmp_path, database=pair.old.url(NAME))
    second = Settings(folder=tmp_path, database=pair.url)
    with closing(open_compared(first)) as database:
        begin(database)
        exchange(database, DirectoryBlobs(tmp_path / "blobs"))
    pair.fail_over()
    pair.old.start()
    with closing(open_compared(second)) as command:
        note(command, "one")
    pair.new.kill()
    with closing(open_compared(first)) as misled, pytest.raises(Unavailable):
        note(misled, "lost")
    pair.new.start()

    assert [] == notes(pair.old)
    assert ["one"] == notes(pair.new)


def test_all_addresses_of_a_name_are_compared(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to both servers is a list of hosts: nobody stopped the old primary (P1)."""
    old = Proxy(pair.old.address, "127.0.0.2")
    new = Proxy(pair.new.address, "127.0.0.3", old.port)
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, old.port)) for each in ("127.0.0.2", "127.0.0.3")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    url = THROUGH.format(port=old.port, name=NAME).replace("127.0.0.1", "db.example.com")
    with closing(old), closing(new), closing(PostgresDatabase(url)) as database:
        note(database, "one")
        pair.promote()
        leave_outdated(database.servers)
        until(lambda: has_noted(database, "two"), 30, "it connects again")
        with closing(PostgresDatabase(url)) as started:
            note(started, "three")

    assert ["one"] == notes(pair.old)
    assert ["one", "three", "two"] == notes(pair.new)


def test_a_second_promotion_to_the_same_timeline_is_refused(pair: Pair, tmp_path: Path) -> None:
    """Nothing of ours has started since the first one. The old primary is made a standby that follows nobody,
    and is promoted while the other is away: it misses what that one was told (P1)."""
    blobs = DirectoryBlobs(tmp_path / "blobs")
    settings = Settings(folder=tmp_path, database=pair.url)
    with closing(open_compared(settings)) as database:
        begin(database)
        exchange(database, blobs)
        pair.fail_over()
        until(lambda: has_noted(database, "one"), 30, "the promoted one is found")
        exchange(database, blobs)
        pair.new.kill()
        pair.old.stand_by()
        pair.old.run("select pg_promote()")
        until(lambda: ask(pair.old, "select pg_is_in_recovery()::int") == [0], 30, "it is promoted")
        with closing(open_compared(settings)) as started:
            for each in (database, started):
                with pytest.raises(Unavailable):
                    note(each, "lost")
        pair.new.start()
        until(lambda: has_noted(database, "two"), 30, "the right one is back")

    assert [] == notes(pair.old)
    assert ["one", "two"] == notes(pair.new)


def test_a_start_raises_the_epoch_of_the_copy_that_it_is_connected_to(pair: Pair) -> None:
    """Its epoch is higher than what others of its copy have read: they read it again, and go on. Where the
    store answers late that another copy is in use, the epoch of the old one is not taken for that one's,
    which all other processes would then leave (P1).
    """
    pid = "select pg_backend_pid() as pid"
    with closing(PostgresDatabase(pair.url)) as staying, closing(PostgresDatabase(pair.url)) as started:
        [before] = staying.read(lambda tx: tx.all(pid))
        begin(started)
        staying.servers.learn(started.servers.newest or pytest.fail("it has begun"))
        leave_outdated(staying.servers)
        [after] = staying.read(lambda tx: tx.all(pid))
    epochs = ask(pair.old, "select epoch from generation")
    pair.promote()
    with (
        closing(PostgresDatabase(pair.old.url(NAME))) as database,
        closing(PostgresDatabase(pair.new.url(NAME))) as other,
    ):
        note(database, "before the answer")
        begin(other)
        newest = other.servers.newest
        assert newest is not None
        database.servers.learn(newest)
        with pytest.raises(Unavailable):
            begin(database)

    assert before == after
    assert newest == database.servers.newest
    assert epochs == ask(pair.old, "select epoch from generation")


def test_a_server_that_hangs_keeps_nobody_from_the_others(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the connection and answers no question about its copy: the next host is asked (P1)."""
    monkeypatch.setattr("tenuto.db.servers.CONNECT_TIMEOUT_S", 1)
    pair.catch_up()
    with psycopg.connect(pair.old.url(NAME)) as holding:
        holding.execute("lock table generation in access exclusive mode")
        pair.new.run("select pg_promote()")
        with closing(PostgresDatabase(pair.url)) as database:
            note(database, "one")
            leave_outdated(database.servers)

    assert [] == notes(pair.old)
    assert ["one"] == notes(pair.new)


def test_another_server_is_used_once_it_is_accepted(pair: Pair) -> None:
    """A server of another system, as after `pg_upgrade` or a restore, changes nothing in a list, although its
    timeline is higher. It is refused, until an operator accepts it; from then on the one from before is (P1).
    """
    fresh = start_postgres(is_durable=False)
    fresh.run(f"create database {NAME}")
    try:
        for _ in range(2):
            fresh.stand_by()
            fresh.run("select pg_promote()")
        both = f"postgresql://postgres@/{NAME}?host={pair.old.folder},{fresh.folder}"
        with closing(PostgresDatabase(both)) as database:
            note(database, "one")
            leave_outdated(database.servers)
            note(database, "two")
        with (
            closing(PostgresDatabase(fresh.url(NAME))) as restored,
            closing(PostgresDatabase(pair.old.url(NAME))) as database,
        ):
            migrate(restored)
            begin(database)
            known = database.servers.newest
            seen = restored.servers.newest
            assert known is not None and seen is not None
            with closing(PostgresDatabase(fresh.url(NAME))) as unaccepted:
                unaccepted.servers.learn(known)
                with pytest.raises(Unavailable) as refused:
                    begin(unaccepted)
            accepted = restored.write(lambda tx: store.accept(tx, seen, known))
            database.servers.learn(accepted)
            leave_outdated(database.servers)
            with pytest.raises(Unavailable):
                note(database, "lost")
            with closing(PostgresDatabase(fresh.url(NAME))) as later:
                later.servers.learn(accepted)
                begin(later)

        assert Copy(seen.system, 1, seen.timeline, accepted.epoch) == accepted
        assert known.epoch < accepted.epoch
        assert f"has the system identifier {seen.system}, and {known.system}" in describe(refused.value)
        assert ["one", "two"] == notes(pair.old)
    finally:
        fresh.stop()


def test_a_shortage_of_descriptors_hides_no_connection_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that could not be looked at is ended at a later look."""

    def shortage(descriptor: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    servers = Servers("postgresql://x@127.0.0.1:1/x")
    older, newer = Copy("system", 0, 1, 5), Copy("system", 0, 2, 9)
    ours, theirs = socket.socketpair()
    servers.newest = older
    servers.open.append(Open("a:1", "process", older, ours.fileno(), os.fstat(ours.fileno()).st_ino))
    with ours, theirs, capture_logs():
        with monkeypatch.context() as patched:
            patched.setattr(os, "dup", shortage)
            leave_outdated(servers)
        servers.learn(newer)
        leave_outdated(servers)
        with pytest.raises(BrokenPipeError):
            ours.send(b"a write")


def test_a_copy_of_another_system_is_refused_although_its_epoch_is_higher() -> None:
    """A restored copy on another server has as high an epoch as it likes: only an operator can accept it."""
    newest = Copy("1", 0, 1, 5)
    other = Copy("2", 0, 2, 9)

    assert "the system identifier 2, and 1 is in use" == other.fault(newest)
    assert Copy("2", 1, 1, 0).fault(newest) is None
    assert newest.fault(Copy("", 0, 1, 5)) is None  # A server that does not tell.
