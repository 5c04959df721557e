"""Places to wait for a job: counted, bounded, told of every change, and given back."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from servers.threads import lacking
from servers.world import World
from tenuto.api.long_polling import MAX_WAITERS, MAX_WAITERS_OF_ACCOUNT, POLL_S, TOPIC, LongPoll, LongPolls
from tenuto.db.database import Database
from tenuto.job import read


@pytest.fixture
def waits(database: Database) -> Iterator[LongPolls]:
    """Places on the world's database."""
    made = LongPolls(database)
    yield made
    made.stop()


def enter(waits: LongPolls, world: World, account_id: str, job_id: str) -> LongPoll | None:
    return waits.enter(account_id, job_id, world.read(lambda tx: read.sequence(tx, job_id)))


async def told_within(waiter: LongPoll | None, seconds: float) -> bool:
    assert waiter is not None
    try:
        await asyncio.wait_for(waiter.changed.wait(), seconds)
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("woken", [True, False])
def test_a_change_is_told_to_whoever_waits_for_it(world: World, waits: LongPolls, woken: bool) -> None:
    """With a wake-up soon, without one at the next look; those who wait for another job go on waiting."""
    claim = world.running()
    other = world.submit(world.caller(), "other").job_id

    async def go() -> tuple[bool, bool, bool]:
        here = enter(waits, world, claim.account_id, claim.job_id)
        there = enter(waits, world, "account_b", other)
        early = await told_within(here, 0.2)
        await asyncio.to_thread(world.finish, claim.attempt_id)
        if woken:
            world.database.wake(TOPIC)
        return early, await told_within(here, POLL_S * 3), await told_within(there, 0.2)

    assert (False, True, False) == asyncio.run(go())


def test_places_are_counted_by_account_and_together(world: World, waits: LongPolls) -> None:
    """One account has a hundred, all together four hundred; a place that is left can be taken again."""

    async def go() -> None:
        first = [waits.enter("account_0", "job_x", -1) for _ in range(MAX_WAITERS_OF_ACCOUNT)]
        assert waits.enter("account_0", "job_x", -1) is None
        others = [
            waits.enter(f"account_{1 + n // 50}", "job_x", -1)
            for n in range(MAX_WAITERS - MAX_WAITERS_OF_ACCOUNT)
        ]
        assert waits.enter("account_z", "job_x", -1) is None
        assert None not in others
        assert first[0] is not None
        waits.leave(first[0])
        assert waits.enter("account_0", "job_x", -1) is not None

    asyncio.run(go())


def test_stopping_answers_everybody_and_takes_nobody(world: World, waits: LongPolls) -> None:
    """Whoever waits when the service stops is answered at once."""
    claim = world.running()

    async def go() -> tuple[bool, bool]:
        waiter = enter(waits, world, claim.account_id, claim.job_id)
        ask: Callable[[], None] = waits.stop
        await asyncio.to_thread(ask)
        told = await told_within(waiter, 5)
        return told, enter(waits, world, claim.account_id, claim.job_id) is None

    assert (True, True) == asyncio.run(go())


def test_waiting_works_after_a_passing_lack_of_threads(
    world: World, waits: LongPolls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a thread the answer comes at once, and nobody is counted; the next one waits."""
    refused = lacking(monkeypatch, "long-polls")
    claim = world.running()

    async def go() -> tuple[LongPoll | None, bool]:
        first = enter(waits, world, claim.account_id, claim.job_id)
        taken = [waits.enter("account_0", "job_x", -1) for _ in range(MAX_WAITERS_OF_ACCOUNT)]
        assert None not in taken
        waiter = enter(waits, world, claim.account_id, claim.job_id)
        await asyncio.to_thread(world.finish, claim.attempt_id)
        return first, await told_within(waiter, POLL_S * 3)

    assert (None, True) == asyncio.run(go())
    assert ["long-polls"] == refused
