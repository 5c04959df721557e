"""What a process knows of the requests to OpenAI's routes: which are being accepted, which were answered."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from servers.world import World
from tenuto.api.call import Call
from tenuto.features.openai import requests as openai
from tenuto.features.openai.idempotency_keys import _Tries
from tenuto.features.openai.request_jobs import not_succeeded
from tenuto.features.openai.requests import OpenRequests

STEM = "openai" + "1" * 39


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
    monkeypatch.setattr(openai, "RETRY_S", -1.0)

    assert (False, True, False) == (
        soon,
        requests.was_answered("job_1"),
        requests.was_answered("job_2"),
    )


@pytest.mark.parametrize(
    ("seconds_ago", "is_joined"), [(0, True), (openai.RETRY_S - 2, True), (openai.RETRY_S + 2, False)]
)
def test_a_retry_joins_no_job_that_was_cancelled_long_ago(
    world: World, seconds_ago: float, is_joined: bool
) -> None:
    """Its request was answered, by whatever process, or left: the retry is that of a newer one (P2)."""
    caller, requests = world.caller(), OpenRequests()
    key = f"{STEM}{world.now_ms:013d}0123456789"
    job_id = world.submit(caller, key).job_id
    world.cancel(caller.account_id, job_id)
    world.now_ms += int(seconds_ago * 1000)
    shared = SimpleNamespace(part=lambda _: requests, clock=lambda: world.now_ms)
    call = cast(Call, SimpleNamespace(caller=caller, service=shared, began_s=0.0))

    assert "cancelled" == world.state(job_id)
    assert (key if is_joined else None) == world.read(_Tries(call, STEM, is_retry=True).find)


@pytest.mark.parametrize(("state", "is_gone"), [("cancelled", False), ("cancelled", True), ("queued", False)])
def test_a_final_refusal_is_an_answer_too(
    world: World, monkeypatch: pytest.MonkeyPatch, state: str, is_gone: bool
) -> None:
    """Once it was sent, no later retry can mean that job; one that is still running has no answer yet."""
    monkeypatch.setattr(openai, "RETRY_S", -1.0)
    caller, requests = world.caller(), OpenRequests()
    job_id = world.submit(caller, "one").job_id
    if state == "cancelled":
        world.cancel(caller.account_id, job_id)
    shared = SimpleNamespace(part=lambda _: requests)
    call = cast(Call, SimpleNamespace(service=shared, request_id="req_1", is_gone=lambda: is_gone))
    refusal = not_succeeded(call, [world.operation(caller.account_id, job_id)])

    assert refusal is not None
    assert (state == "cancelled" and not is_gone) == requests.was_answered(job_id)
