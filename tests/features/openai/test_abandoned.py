"""A job of one of OpenAI's routes whose client has left, with several API processes."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from servers.world import World
from tenuto.account.caller import Caller
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.features.openai import request_jobs
from tenuto.features.openai.request_jobs import Submitted, waiting
from tenuto.features.openai.requests import OpenRequests


class Processes:
    """API processes beside one database, of which nothing is here but their requests."""

    def __init__(self, world: World, caller: Caller, count: int) -> None:
        shared = {"database": world.database, "ids": world.ids, "clock": lambda: world.now_ms}
        self._requests = [OpenRequests() for _ in range(count)]
        self._services = [SimpleNamespace(part=lambda _, one=one: one, **shared) for one in self._requests]
        self._caller = caller

    async def leave(self, number: int, submitted: Submitted, until: asyncio.Event | None = None) -> None:
        """A client waits at a process until it leaves."""
        call = cast(Call, SimpleNamespace(service=self._services[number], caller=self._caller))
        with pytest.raises(ClientGone):
            async with waiting(call, submitted):
                if until is not None:
                    await until.wait()
                raise ClientGone

    async def settle(self) -> None:
        """Whatever is to be cancelled has been."""
        await asyncio.gather(*[task for each in self._requests for task in each.tasks])


@pytest.fixture
def soon(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which a job that was left is cancelled at once."""
    monkeypatch.setattr(request_jobs, "ABANDON_S", 0.02)
    return world


def state_after(world: World, order: Sequence[int], *, stays: int | None) -> str:
    """The state of a job whose client came to these processes in turn, and waits at `stays` or nowhere."""
    caller = world.caller()
    job_id = world.submit(caller, "one").job_id
    processes = Processes(world, caller, 3)

    async def run() -> None:
        first, again = Submitted((job_id,), False, False), Submitted((job_id,), True, False)
        until, tasks = asyncio.Event(), []
        if stays is not None:
            tasks.append(asyncio.ensure_future(processes.leave(stays, again, until)))
            await asyncio.sleep(0.05)
        for number, process in enumerate(order):
            await processes.leave(process, again if number else first)
        await processes.settle()
        seen.append(world.state(job_id))
        until.set()
        await asyncio.gather(*tasks)
        await processes.settle()
        seen.append(world.state(job_id))

    seen: list[Any] = []
    asyncio.run(run())
    assert "cancelled" == seen[1], "its last client has left"
    return str(seen[0])


@pytest.mark.parametrize(
    ("order", "stays", "state"),
    [
        ([0], None, "cancelled"),
        ([0, 1], None, "cancelled"),
        ([0, 1, 0], None, "cancelled"),
        ([0], 0, "queued"),
        ([0], 1, "queued"),
        ([0, 2, 0], 0, "queued"),
    ],
)
def test_a_job_is_cancelled_when_its_last_client_has_left(
    soon: World, order: list[int], stays: int | None, state: str
) -> None:
    """Not by the process that accepted it while a declared retry waits at another (P1)."""
    assert state == state_after(soon, order, stays=stays)
