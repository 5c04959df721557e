"""What a process knows of the requests to OpenAI's routes: which are being accepted, which were answered."""

import asyncio

import pytest

from tenuto.api import service
from tenuto.api.service import OpenRequests


def test_a_retry_is_accepted_after_what_came_before_it() -> None:
    """A request whose link broke may still be on its way into the database when its retry arrives (P2)."""
    order: list[str] = []

    async def accept(requests: OpenRequests, name: str, what: str, done: asyncio.Event) -> None:
        async with requests.accepting(what, after_others=name.startswith("retry")):
            order.append(name)
            await done.wait()

    async def run() -> None:
        requests, first, rest = OpenRequests(), asyncio.Event(), asyncio.Event()
        rest.set()
        tasks = [asyncio.ensure_future(accept(requests, "first", "a", first))]
        await asyncio.sleep(0)
        asked = (("retry", "a"), ("retry again", "a"), ("the same", "a"), ("retry of another", "b"))
        tasks += [asyncio.ensure_future(accept(requests, name, what, rest)) for name, what in asked]
        await asyncio.wait(tasks[3:])
        order.append("|")
        first.set()
        await asyncio.wait(tasks)

    asyncio.run(run())

    assert ["first", "the same", "retry of another", "|", "retry", "retry again"] == order


def test_what_was_answered_can_be_meant_by_a_retry_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was sent need not have arrived; later a retry means something else."""
    requests = OpenRequests()
    requests.note_answered(["job_1"])
    soon = requests.was_answered("job_1")
    monkeypatch.setattr(service, "RETRY_S", -1.0)

    assert (False, True, False) == (
        soon,
        requests.was_answered("job_1"),
        requests.was_answered("job_2"),
    )
