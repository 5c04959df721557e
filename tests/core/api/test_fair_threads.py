"""Threads that accounts take turns in: shares, order, and what becomes of work that nobody wants any more."""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from servers.threads import LACKING, lacking
from tenuto.api.limits import FairThreads


class Work:
    """What runs in the threads: it notes that it began and waits until it may end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.changed = threading.Condition()
        self.may_end = Counter[str]()

    def __call__(self, account_id: str) -> str:
        with self.changed:
            self.begun.append(account_id)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: self.may_end[account_id] > 0, 20)
            self.may_end[account_id] -= 1
        return account_id

    def end(self, account_id: str, count: int = 1) -> None:
        with self.changed:
            self.may_end[account_id] += count
            self.changed.notify_all()

    async def begins(self, count: int) -> list[str]:
        """Who has begun, once so many have."""

        def wait() -> list[str]:
            with self.changed:
                assert self.changed.wait_for(lambda: len(self.begun) >= count, 20)
                return list(self.begun)

        return await asyncio.to_thread(wait)


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    for account_id in "abc":
        made.end(account_id, 100)


def test_an_account_has_a_share_of_the_threads(work: Work) -> None:
    """Twenty reads of one account take two of four threads; another account's first read begins at once."""

    async def go() -> tuple[list[str], list[str]]:
        threads = FairThreads(4, 2, "test")
        of_a = [threads.run("a", lambda: work("a")) for _ in range(20)]
        await work.begins(2)
        of_b = threads.run("b", lambda: work("b"))
        begun = await work.begins(3)
        work.end("b")
        await of_b
        work.end("a", 20)
        return begun, await asyncio.gather(*of_a)

    begun, ended = asyncio.run(go())

    assert ["a", "a", "b"] == begun
    assert ["a"] * 20 == ended


def test_accounts_that_wait_take_turns(work: Work) -> None:
    """With one thread: a's first, then one of each, whatever came before; each account's own in order."""

    async def go() -> list[str]:
        threads = FairThreads(1, 1, "test")
        for account_id in "abc":
            work.end(account_id, 10)
        waiting = [threads.run(account_id, partial(work, account_id)) for account_id in "aaaabbc"]
        await asyncio.gather(*waiting)
        return work.begun

    assert list("aabcaba") == asyncio.run(go())


def test_an_account_whose_work_took_long_lets_the_others_go_first() -> None:
    """A recording took half a minute to decode: who comes next does not wait for the second one (P14)."""
    now, begun = [0.0], []

    def take(account_id: str, seconds: float) -> None:
        begun.append(account_id)
        now[0] += seconds

    async def go() -> None:
        threads = FairThreads(1, 1, "test", lambda: now[0])
        asked = [("a", 30.0), ("a", 30.0), ("b", 0.1), ("c", 0.1), ("b", 0.1)]
        await asyncio.gather(*(threads.run(who, partial(take, who, seconds)) for who, seconds in asked))

    asyncio.run(go())

    assert list("abcba") == begun


def test_what_is_not_wanted_any_more_is_not_begun(work: Work) -> None:
    """A read whose client has left takes no turn; an error reaches who asked."""

    async def go() -> list[str]:
        threads = FairThreads(1, 1, "test")
        first = threads.run("a", lambda: work("a"))
        await work.begins(1)
        left = threads.run("a", lambda: work("a"))
        failing = threads.run("b", lambda: 1 // 0)
        left.cancel()
        work.end("a")
        with pytest.raises(ZeroDivisionError):
            await failing
        await first
        return work.begun

    assert ["a"] == asyncio.run(go())


def test_reads_go_on_after_a_passing_lack_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read that got no thread fails, one that waited for its turn too; no place is lost."""
    lacking(monkeypatch, "test", 2)

    async def go() -> list[str | BaseException]:
        threads = FairThreads(1, 1, "test")
        failing = [threads.run("a", lambda: "read") for _ in range(2)]
        failed = await asyncio.wait_for(asyncio.gather(*failing, return_exceptions=True), 20)
        return [*failed, *[await asyncio.wait_for(threads.run("a", lambda: "read"), 20) for _ in range(2)]]

    assert [LACKING, LACKING, "read", "read"] == [str(each) for each in asyncio.run(go())]
