"""The operation as its caller sees it, lists, and how long to wait before the next look."""

import itertools
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from servers.world import METERED, SPEECH, World, any_key, request_of
from tenuto.account.caller import Caller
from tenuto.api import retry_after
from tenuto.errors import NotFound
from tenuto.job import read
from tenuto.job.read import Job
from tenuto.job.states import FINAL, SENTENCES


def test_the_fields_of_an_operation(world: World) -> None:
    """Every field is there from the start, in seconds and CNY; what is not yet known is null."""
    caller = world.caller()
    body = {"model": SPEECH, "parameters": {"text": "你好。"}, "metadata": {"a": "b"}}
    job_id = world.send(request_of(caller, "key", body)).job_id

    assert {
        "id": job_id,
        "object": "job",
        "kind": "speech",
        "model": SPEECH,
        "state": "queued",
        "created_at": world.now_ms // 1000,
        "started_at": None,
        "finished_at": None,
        "attempt": 0,
        "queue_position": 0,
        "progress": None,
        "input_artifact_ids": [],
        "artifacts": [],
        "result": None,
        "error": None,
        "billing": {"held": "0.050000", "charged": "0.000000", "currency": "CNY"},
        "metadata": {"a": "b"},
        "cancel_requested": False,
        "title": "你好。",
        "erased_at": None,
    } == plain(world.operation(caller.account_id, job_id))
    assert body == json.loads(world.read(lambda tx: read.request_body(tx, caller, job_id)))


def test_an_operation_follows_its_job(world: World) -> None:
    """Progress while it runs, the artifact and the charge when it has succeeded."""
    claim = world.running()
    world.beat(claim.attempt_id, {"stage": "speaking", "completed": 1, "total": 2, "unit": "segments"})
    world.cancel(claim.account_id, claim.job_id)
    running = plain(world.operation(claim.account_id, claim.job_id))
    world.now_ms += 5000
    result = world.result()
    world.record(claim.attempt_id, result)
    world.succeed(claim.attempt_id)
    ended = plain(world.operation(claim.account_id, claim.job_id))

    assert ("running", True, 1, None) == tuple(
        running[name] for name in ("state", "cancel_requested", "attempt", "queue_position")
    )
    assert "speaking" == running["progress"]["stage"]
    assert {"held": "0.000000", "charged": "0.050000", "currency": "CNY"} == ended["billing"]
    assert [(result.blob.sha256, result.blob.size_bytes, "audio/wav")] == [
        (artifact["sha256"], artifact["size_bytes"], artifact["media_type"])
        for artifact in ended["artifacts"]
    ]
    assert {"segments": 1} == ended["result"] == ended["artifacts"][0]["metadata"]
    assert (world.now_ms // 1000, 5) == (ended["finished_at"], ended["finished_at"] - ended["started_at"])


def test_why_a_job_failed(world: World) -> None:
    """Code and message; a job in recovery shows none, for it has not failed, and its hold."""
    failed = world.running()
    world.fail(failed.attempt_id, "nothing_to_speak")
    waiting = world.running(METERED)
    world.fence(waiting.attempt_id)
    world.unknown(waiting.attempt_id)
    shown = world.operation(waiting.account_id, waiting.job_id)

    assert read.JobError("nothing_to_speak", SENTENCES["nothing_to_speak"]) == (
        world.operation(failed.account_id, failed.job_id).error
    )
    assert (None, "0.050000", "0.000000") == (shown.error, shown.billing.held, shown.billing.charged)


def test_a_job_that_is_queued_again_shows_no_old_progress(world: World) -> None:
    """Its next attempt begins anew; when it first started stays."""
    claim = world.running()
    world.beat(claim.attempt_id, {"stage": "speaking"})
    started = world.now_ms // 1000
    world.now_ms += 60_000
    world.rescue(claim.attempt_id)
    operation = world.operation(claim.account_id, claim.job_id)

    assert ("queued", None, started, 0) == (
        operation.state,
        operation.progress,
        operation.started_at,
        operation.queue_position,
    )


def test_other_accounts_ids_do_not_exist(world: World) -> None:
    """A foreign id answers exactly like one that was never given (P12)."""
    claim = world.running()
    other = world.caller()
    messages = set()
    looks: tuple[Callable[..., object], ...] = (read.for_caller, read.request_body, read.events)
    for job_id in (claim.job_id, "job_0"):
        for look in looks:
            with pytest.raises(NotFound) as caught:
                world.read(partial(look, caller=other, job_id=job_id))
            messages.add(str(caught.value))
        with pytest.raises(NotFound):
            world.cancel(other.account_id, job_id)

    assert 1 == len(messages)
    assert [] == listed(world, other.account_id)
    assert [claim.job_id] == [job.id for job in listed(world, claim.account_id)]


def test_the_position_in_the_queue(world: World) -> None:
    """How many of the lane were accepted earlier and still wait; unknown beyond a hundred."""
    first, second = world.caller(1_000_000_000), world.caller(1_000_000_000)
    jobs = [world.submit((first, second)[n % 2], f"key {n}").job_id for n in range(102)]
    accounts = (first.account_id, second.account_id)

    def seen(number: int) -> Job:
        return world.operation(accounts[number % 2], jobs[number])

    assert [0, 1, 5, 99, None] == [seen(n).queue_position for n in (0, 1, 5, 99, 100)]
    world.claim()
    assert (None, 0, 99) == (seen(0).queue_position, seen(1).queue_position, seen(100).queue_position)


def test_retry_after(world: World) -> None:
    """1 while running or among the next four, else min(10, jobs ahead); nothing when polling stops."""
    caller = world.caller()
    operation = world.operation(caller.account_id, world.submit(caller, "key").job_id)

    def seconds(state: str, position: int | None) -> int | None:
        seen = msgspec.structs.replace(operation, state=state, queue_position=position)
        return retry_after.of_job(seen)

    positions = (0, 3, 4, 9, 10, 11, None)
    assert [1, 1, 4, 9, 10, 10, 10] == [seconds("queued", position) for position in positions]
    assert 1 == seconds("running", None)
    assert [None] * 4 == [seconds(state, None) for state in (*FINAL, "recovery_required")]


def test_a_list_is_newest_first_and_can_be_paged(world: World) -> None:
    """Every job comes once, also when new ones are accepted between two pages."""
    caller = world.caller()
    jobs = [world.submit(caller, f"key {number}").job_id for number in range(7)]
    pages, after = [], None
    while True:
        found, after = page(world, caller.account_id, after=after, limit=3)
        pages.append([job.id for job in found])
        if after is None:
            break
        world.submit(caller, f"later {after}")

    assert [jobs[6:3:-1], jobs[3:0:-1], jobs[:1]] == pages


@pytest.mark.parametrize("limit", [1, 3])
def test_every_filter_gives_what_fits_page_by_page(world: World, limit: int) -> None:
    """State, kind, model and a key's restriction, alone and together; none twice, none left out."""
    caller, other = world.caller(10**9), world.caller(10**9)
    for number in range(12):
        who, used = (caller, other)[number % 4 == 3], (SPEECH, METERED)[number % 2]
        job_id = world.submit(who, f"key {number}", model=used).job_id
        if number % 3 == 0:
            world.cancel(who.account_id, job_id)
    everything = listed(world, caller.account_id)
    restrictions = (None, frozenset({SPEECH}), frozenset({METERED, "none"}), frozenset({SPEECH, METERED}))
    for state, kind, model, key_models in itertools.product(
        (None, "queued", "cancelled", "succeeded"), (None, "speech", "image"), (None, METERED), restrictions
    ):
        if model is not None and key_models is not None and model not in key_models:
            continue
        found: list[Job] = []
        cursor: str | None = None
        pages = 0
        key = Caller("key", caller.account_id, None, key_models)
        while cursor is not None or pages == 0:
            narrow = {"state": state, "kind": kind, "model": model, "after": cursor, "limit": limit}
            operations, cursor = world.read(lambda tx, k=key, n=narrow: read.list_jobs(tx, k, **n))  # type: ignore[misc]
            found += operations
            pages += 1

        assert [
            job
            for job in everything
            if (state is None or job.state == state)
            and (kind is None or job.kind == kind)
            and (model is None or job.model == model)
            and (key_models is None or job.model in key_models)
        ] == found


def test_events_tell_a_jobs_life(world: World) -> None:
    """In order, each with its attempt, without a gap."""
    claim = world.running()
    world.rescue(claim.attempt_id)
    events = world.read(lambda tx: read.events(tx, any_key(claim.account_id), claim.job_id))

    assert [
        (0, "queued", None),
        (1, "running", claim.attempt_id),
        (2, "worker_lost", claim.attempt_id),
    ] == [(event.sequence, event.type, event.attempt_id) for event in events]


def plain(operation: Job) -> dict[str, Any]:
    """An operation as its JSON says it."""
    found: dict[str, Any] = json.loads(msgspec.json.encode(operation))
    return found


def page(world: World, account_id: str, **given: Any) -> tuple[list[Job], str | None]:
    narrow = {"state": None, "kind": None, "model": None, "after": None, "limit": 20} | given
    return world.read(lambda tx: read.list_jobs(tx, any_key(account_id), **narrow))


def listed(world: World, account_id: str) -> list[Job]:
    return page(world, account_id)[0]


def test_a_damaged_row_breaks_no_list(world: World) -> None:
    """What of it cannot be read is left out, as JSON too; its other fields, and the other jobs, are shown."""
    caller = world.caller()
    sound, bad = (world.submit(caller, key).job_id for key in ("sound", "bad"))
    before = world.job(bad)["metadata"]
    for column, text in (("metadata", '{"a": 1'), ("input_artifact_ids", "[artifact")):
        world.run(f"update job set {column} = :text where id = :id", text=text, id=bad)
    listed, _ = world.read(
        lambda tx: read.list_jobs(tx, caller, state=None, kind=None, model=None, after=None, limit=10)
    )
    shown = msgspec.json.decode(msgspec.json.encode(listed))
    world.run(
        "update job set metadata = :text, input_artifact_ids = '[]' where id = :id", text=before, id=bad
    )

    assert [(bad, {}, []), (sound, {}, [])] == [
        (job["id"], job["metadata"], job["input_artifact_ids"]) for job in shown
    ]
