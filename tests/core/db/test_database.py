"""What both databases promise to operations."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from servers.speed import HANG_S
from tenuto.db import postgres, writer
from tenuto.db.database import Asking, ConstraintFailed, Database, Transaction
from tenuto.db.database_opening import open_database
from tenuto.errors import OperatorError, Unavailable


@pytest.fixture
def notes(empty_database: Database) -> Database:
    """A database with one table."""
    empty_database.write(
        lambda tx: tx.run("create table note (id text primary key, size bigint, content bytea, body text)")
    )
    return empty_database


def add(tx: Transaction, name: str, size: int = 1) -> None:
    tx.do("insert into note (id, size) values (:id, :size)", id=name, size=size)


def add_all(tx: Transaction, **sizes: int) -> None:
    for name, size in sizes.items():
        add(tx, name, size)


def ids(database: Database) -> list[str]:
    return [row["id"] for row in database.read(lambda tx: tx.all("select id from note order by id"))]


def test_values_come_back_as_they_went(notes: Database) -> None:
    """Integers of 64 bits, text with every kind of character, bytes and null; a boolean is an integer."""
    values = {"id": "a%s ':x' \\ 文\U0001f3b5", "size": -(2**63), "content": b"\x00\xff", "body": None}
    notes.write(
        lambda tx: tx.run("insert into note values (:id, :size, :content, :body)", **values)  # type: ignore[arg-type]
    )
    notes.write(lambda tx: add(tx, "bool", True))

    assert values == dict(notes.read(lambda tx: tx.all("select * from note where id like 'a%'"))[0])
    assert notes.read(lambda tx: tx.all("select size from note where id = 'bool'"))[0]["size"] == 1


def test_one_text_serves_both(notes: Database) -> None:
    """Row locks, sums, repeated and null parameters mean the same on both."""
    notes.write(lambda tx: add_all(tx, a=1, b=2, c=4))

    def take(tx: Transaction) -> tuple[object, ...]:
        locked = tx.one(
            "select id from note where size > :n order by size limit 1 for update skip locked", n=1
        )
        total = tx.one("select sum(size) as total, count(*) as number from note")
        either = tx.all(
            "select id from note where cast(:id as text) is null or id = :id order by id limit :n",
            id=None,
            n=2,
        )
        assert locked is not None
        assert total is not None
        assert type(total["total"]) is int
        return locked["id"], total["total"], total["number"], [row["id"] for row in either]

    assert ("b", 7, 3, ["a", "b"]) == notes.write(take)


def test_run_counts_and_returning_answers(notes: Database) -> None:
    """`run` says how many rows changed; `one` reads what `returning` answers, and the change stays."""
    notes.write(lambda tx: add_all(tx, a=1, b=1, c=1))

    changed = notes.write(lambda tx: tx.run("update note set size = 5 where id < :id", id="c"))
    unchanged = notes.write(lambda tx: tx.run("update note set size = 5 where id = 'none'"))
    twice = notes.write(
        lambda tx: tx.run("insert into note (id) values (:id) on conflict do nothing", id="a")
    )
    row = notes.write(lambda tx: tx.one("update note set size = size + 1 where size = 5 returning id, size"))

    assert (2, 0, 0) == (changed, unchanged, twice)
    sizes = [row["size"] for row in notes.read(lambda tx: tx.all("select size from note order by id"))]
    assert row is not None
    assert (6, [6, 6, 1]) == (row["size"], sizes)


def test_what_was_asked_is_as_it_was_then(notes: Database) -> None:
    """An answer is looked at when it is needed: what the operation did in between changes it no more."""

    def work(tx: Transaction) -> tuple[object, ...]:
        before = tx.ask("select id, size from note where size > :size order by id", size=1)
        missing = tx.ask("select id from note where id = 'none'")
        changed = tx.ask("update note set size = size + 1 where size > :size", size=1)
        tx.do("delete from note where id = 'b'")
        left = tx.ask("select count(*) as number from note")
        first, counted = before.one(), left.one()
        assert first is not None
        assert counted is not None
        assert first["id"] == (before.one() or {})["id"], "it may be looked at twice"
        return dict(first), missing.one(), changed.changed(), counted["number"]

    notes.write(lambda tx: add_all(tx, a=1, b=2, c=3))

    assert ({"id": "b", "size": 2}, None, 2, 2) == notes.write(work)
    assert ["a", "c"] == ids(notes)


def test_what_was_asked_fails_with_its_operation(notes: Database) -> None:
    """An error of what was asked undoes the whole operation, also where nobody looked at the answer."""

    def work(tx: Transaction) -> None:
        tx.do("insert into note (id) values ('new')")
        tx.ask("insert into note (id) values ('there')")

    notes.write(lambda tx: add(tx, "there"))
    with pytest.raises(ConstraintFailed):
        notes.write(work)

    assert ["there"] == ids(notes)


def test_a_failure_rolls_back_its_group_and_then_only_itself(
    notes: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first failure makes its group run again; with savepoints, only the failure is rolled back, be it an
    exception of the operation or a statement that the database refuses.
    """
    for module in (postgres, writer):
        monkeypatch.setattr(module, "GROUP_S", 60.0)
        monkeypatch.setattr(module, "CAREFUL_S", 600.0)
    runs: Counter[str] = Counter()

    def write(name: str) -> "asyncio.Future[None]":
        def operation(tx: Transaction) -> None:
            runs[name] += 1
            add(tx, name)
            if name in ("1 b", "2 b"):
                raise LookupError(name)
            if name == "3 b":
                add(tx, name)

        return asyncio.ensure_future(notes.write_async(operation))

    async def together(turn: str) -> list[object]:
        has_begun, may_end = threading.Event(), threading.Event()

        def slow(tx: Transaction) -> None:
            runs[f"{turn} slow"] += 1
            add(tx, f"{turn} slow")
            has_begun.set()
            may_end.wait(10)

        first = asyncio.ensure_future(notes.write_async(slow))
        await asyncio.to_thread(has_begun.wait, 10)
        rest = [write(f"{turn} {name}") for name in "abc"]
        await asyncio.sleep(0)
        may_end.set()
        return list(await asyncio.gather(first, *rest, return_exceptions=True))

    results = [[type(result) for result in asyncio.run(together(turn))] for turn in "123"]

    nothing = type(None)
    errors = (LookupError, LookupError, ConstraintFailed)
    assert [[nothing, nothing, error, nothing] for error in errors] == results
    assert {f"{turn} {name}" for turn in "123" for name in ("slow", "a", "c")} == set(ids(notes))
    once = {"1 c": 1, "2 slow": 1, "2 a": 1, "2 b": 1, "2 c": 1}
    assert {"1 slow": 2, "1 a": 2, "1 b": 2, **once} == {
        name: count for name, count in runs.items() if name[0] != "3"
    }


def test_a_broken_constraint_is_named(notes: Database) -> None:
    """A second row with the same key raises ConstraintFailed, and the database goes on."""
    notes.write(lambda tx: add(tx, "a"))

    with pytest.raises(ConstraintFailed, match="note"):
        notes.write(lambda tx: add(tx, "a"))
    with pytest.raises(ConstraintFailed):
        notes.write(lambda tx: tx.run("insert into note (id) values ('a')"))

    notes.write(lambda tx: add(tx, "b"))
    assert ids(notes) == ["a", "b"]


def test_a_faulty_statement_is_a_bug(notes: Database) -> None:
    """An error that is ours is not disguised as the database being away, and harms nothing else."""
    for _ in range(2):
        with pytest.raises(Exception, match="nowhere") as raised:
            notes.read(lambda tx: tx.all("select * from nowhere"))
        assert not isinstance(raised.value, Unavailable)
        with pytest.raises(Exception, match="nowhere"):
            notes.write(lambda tx: tx.do("insert into nowhere values (1)"))

    notes.write(lambda tx: add(tx, "a"))
    assert ids(notes) == ["a"]


def test_many_clients_of_one_loop(notes: Database) -> None:
    """Writes and reads of many tasks come back to the right ones."""

    async def client(number: int) -> list[int]:
        seen = []
        for turn in range(5):
            await notes.write_async(lambda tx, turn=turn: add(tx, f"{number}-{turn}", turn))  # type: ignore[misc]
            row = await notes.read_async(
                lambda tx, turn=turn: tx.one("select size from note where id = :id", id=f"{number}-{turn}")  # type: ignore[misc]
            )
            assert row is not None
            seen.append(row["size"])
        return seen

    async def together() -> list[list[int]]:
        return await asyncio.gather(*(client(number) for number in range(32)))

    assert [list(range(5))] * 32 == asyncio.run(together())


def test_look_ups_of_many_come_back_to_the_right_ones(notes: Database) -> None:
    """Those that are sent together, those that find nothing, and those whose own code or statement fails;
    that is not disguised as the database being away.
    """
    notes.write(lambda tx: add_all(tx, **{f"n{number}": number for number in range(16)}))

    def ask(tx: Asking, number: int) -> Callable[[], int | None]:
        if number == 13:
            raise KeyError("asking")
        if number == 12:
            return tx.ask("select size from nowhere").changed
        first = tx.ask("select size from note where id = :id", id=f"n{number}")
        second = tx.ask("select size from note where id = :id and size > 0", id=f"n{number - 1}")

        def read() -> int | None:
            if number == 14:
                raise KeyError("reading")
            row, before = first.one(), second.one()
            return None if row is None else int(row["size"]) + (0 if before is None else int(before["size"]))

        return read

    async def client(number: int) -> list[object]:
        return await asyncio.gather(
            *(notes.look_up(partial(ask, number=number)) for _ in range(5)), return_exceptions=True
        )

    async def together() -> list[list[object]]:
        # On PostgreSQL the first ones run in threads, until there is a connection for those that follow.
        for _ in range(3):
            answers = await asyncio.gather(*(client(number) for number in range(18)))
            await asyncio.sleep(0.2)
        return answers

    answers = asyncio.run(together())

    assert [[max(0, 2 * number - 1)] * 5 for number in range(12)] == answers[:12]
    assert [True] * 5 == ["nowhere" in str(error) for error in answers[12]]
    assert not [error for error in answers[12] if isinstance(error, Unavailable)]
    assert ["'asking'"] * 5 == [str(error) for error in answers[13]]
    assert ["'reading'"] * 5 == [str(error) for error in answers[14]]
    assert [[29] * 5, [None] * 5, [None] * 5] == answers[15:]


def test_a_cancelled_caller_harms_nobody(notes: Database) -> None:
    """A task that is cancelled while its write waits leaves the others their answers."""

    async def together() -> object:
        gone = asyncio.ensure_future(notes.write_async(lambda tx: add(tx, "gone")))
        stays = asyncio.ensure_future(notes.write_async(lambda tx: add(tx, "stays")))
        await asyncio.sleep(0)
        gone.cancel()
        await stays
        return await asyncio.gather(gone, return_exceptions=True)

    asyncio.run(together())

    assert "stays" in ids(notes)


def test_a_snapshot_sees_one_moment(notes: Database) -> None:
    """Every statement sees what was committed when it began, while others go on writing."""
    notes.write(lambda tx: add(tx, "before"))

    def look(tx: Transaction) -> list[list[str]]:
        first = [row["id"] for row in tx.all("select id from note")]
        notes.write(lambda other: add(other, f"beside {notes.dialect}"))
        return [first, [row["id"] for row in tx.all("select id from note")]]

    seen = notes.snapshot(look)

    assert [["before"], ["before"]] == seen
    assert 2 == len(ids(notes))


def test_a_snapshot_changes_nothing(notes: Database) -> None:
    """A statement that writes is refused; an exception of the operation comes through."""
    with pytest.raises(Unavailable):
        notes.snapshot(lambda tx: tx.run("insert into note (id) values ('a')"))
    with pytest.raises(ZeroDivisionError):
        notes.snapshot(lambda tx: 1 // 0)

    assert [] == ids(notes)


def test_a_closed_database_is_unavailable(notes: Database) -> None:
    """After `close`, which may be called twice, reads and writes raise Unavailable at once."""
    notes.close()
    notes.close()

    with pytest.raises(Unavailable):
        notes.write(lambda tx: add(tx, "a"))
    with pytest.raises(Unavailable):
        ids(notes)
    with pytest.raises(Unavailable):
        notes.snapshot(lambda tx: tx.all("select id from note"))


def test_close_finishes_what_runs(notes: Database, empty_database_url: str) -> None:
    """A write that has begun when `close` is called is answered, and durable."""
    has_begun, may_end, answers = threading.Event(), threading.Event(), list[str]()

    def slow(tx: Transaction) -> str:
        add(tx, "slow")
        has_begun.set()
        may_end.wait(10)
        return "done"

    writing = threading.Thread(target=lambda: answers.append(notes.write(slow)))
    writing.start()
    has_begun.wait(10)
    closing = threading.Thread(target=notes.close)
    closing.start()
    may_end.set()
    writing.join(HANG_S)
    closing.join(HANG_S)
    reopened = open_database(empty_database_url)
    found = ids(reopened)
    reopened.close()

    assert (answers, found) == (["done"], ["slow"])


@pytest.mark.parametrize("url", ["", "mysql://x", "sqlite://", "sqlite:///", "postgresql://%zz", "/tmp/x.db"])
def test_a_wrong_url_is_refused(url: str) -> None:
    """The error says what a URL looks like, and repeats no password."""
    with pytest.raises(OperatorError, match="postgresql://"):
        open_database(url)


def test_a_relative_path_lies_in_the_folder(tmp_path: Path) -> None:
    """`sqlite:///tenuto.db` is a file of the data folder."""
    open_database("sqlite:///tenuto.db", folder=tmp_path / "new").close()

    assert (tmp_path / "new" / "tenuto.db").exists()
