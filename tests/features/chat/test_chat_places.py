"""Places at a chat model: the order of waiting, the bound, and leaving at every moment."""

import asyncio
from contextlib import suppress

import pytest

from tenuto.errors import RateLimited
from tenuto.features.chat.chats import ChatSlots


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_who_waited_longest_is_next_and_no_place_is_lost() -> None:
    """One place, three that want it: in order; a fourth is refused while two wait (P14, R212)."""

    async def scenario() -> list[str]:
        places, order = ChatSlots(1, 2), list[str]()
        go_on = asyncio.Event()

        async def chat(name: str) -> None:
            async with places.taken("ann"):
                order.append(name)
                await go_on.wait()

        tasks = [asyncio.create_task(chat(name)) for name in ("first", "second", "third")]
        await settle()
        with pytest.raises(RateLimited):
            await chat("fourth")
        go_on.set()
        await asyncio.gather(*tasks)
        await chat("fifth")
        return order

    assert ["first", "second", "third", "fifth"] == asyncio.run(scenario())


@pytest.mark.parametrize("is_given", [False, True])
def test_leaving_while_waiting_leaves_no_gap(is_given: bool) -> None:
    async def scenario() -> bool:
        places = ChatSlots(1, 0)

        async def chat(ready: asyncio.Event) -> None:
            async with places.taken("ann"):
                await ready.wait()

        holding, never = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(chat(holding))
        await settle()
        leaver = asyncio.create_task(chat(never))
        await settle()
        if is_given:
            holding.set()
            # The holder's end gives the place to the leaver, who has not run again by then.
            await holder
        leaver.cancel()
        with suppress(asyncio.CancelledError):
            await leaver
        holding.set()
        await holder
        holding.clear()
        later = asyncio.create_task(chat(holding))
        await settle()
        holding.set()
        await asyncio.wait_for(later, 1)
        return True

    assert asyncio.run(scenario())


def test_accounts_take_turns() -> None:
    """A free place goes to the account whose turn it is, however many of another's wait (P14)."""

    async def scenario() -> list[str]:
        places, order = ChatSlots(1, 0), list[str]()

        async def chat(account: str) -> None:
            async with places.taken(account):
                order.append(account)
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(chat(account)) for account in "aaaabcb"]
        await asyncio.gather(*tasks)
        return order

    assert [*"aabcaba"] == asyncio.run(scenario())


def test_nobody_keeps_another_account_out() -> None:
    """The last one of the busiest account makes room; if all have as many, the next is refused (P14)."""

    async def scenario() -> tuple[list[str], list[str]]:
        places, order, refused = ChatSlots(1, 4), list[str](), list[str]()
        go_on = asyncio.Event()

        async def chat(name: str) -> None:
            try:
                async with places.taken(name[0]):
                    order.append(name)
                    await go_on.wait()
            except RateLimited:
                refused.append(name)

        names = ["a0", "a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3", "c1", "d1", "e1"]
        tasks = []
        for name in names:
            tasks.append(asyncio.create_task(chat(name)))
            await settle()
        go_on.set()
        await asyncio.gather(*tasks)
        return order, refused

    order, refused = asyncio.run(scenario())

    assert ["a0", "a1", "b1", "c1", "d1"] == order
    assert ["a5", "a4", "a3", "b3", "a2", "b2", "e1"] == refused
