"""What an operator does by name with a job whose paid call has an unknown outcome."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from servers.world import METERED, PRICE_MICROS, World, any_key, at_once
from tenuto.db.database import Transaction
from tenuto.errors import IdempotencyConflict, OperatorError, Stale
from tenuto.features.evidence import examination
from tenuto.features.kept_results import results as kept_results
from tenuto.features.kept_results.results import KeptResult
from tenuto.file.directory import DirectoryBlobs
from tenuto.job import finish, queue, read, recover
from tenuto.job.finish import RecordedResult
from tenuto.job.queue import Claim
from tenuto.job.states import OUTCOME_UNKNOWN, Decision
from tenuto.kind import operations as catalog

CREDIT = 100 * PRICE_MICROS
NOW = "2027-01-15T08:00:00.000+00:00"
BY = Decision("alice", "asked the upstream: ticket 7")


def test_the_operator_sees_all_the_evidence(world: World) -> None:
    """The job with its body's digest, its attempts with host and times, its events, its money (P10)."""
    world.register("worker_a", machine="host a")
    claim = waiting(world)
    shown = evidence(world, claim.job_id)
    [attempt] = shown["attempts"]
    job = world.row("select * from idempotency where job_id = :id", id=claim.job_id)

    assert [claim.job_id] == [job.id for job in world.read(recover.waiting)]
    assert ("recovery_required", OUTCOME_UNKNOWN, "no answer") == (
        shown["job"]["state"],
        shown["job"]["reason"],
        attempt["evidence"],
    )
    assert (job["body_sha256"], job["idempotency_key"]) == (
        shown["job"]["body_sha256"],
        shown["job"]["idempotency_key"],
    )
    assert {"id": "worker_a", "machine": "host a", "pid": 1} == attempt["worker"]
    assert {NOW} == {attempt[name] for name in ("started_at", "called_at", "heard_at", "ended_at")}
    assert ("ended", "unknown", None) == (attempt["state"], attempt["outcome"], attempt["result"])
    assert ["queued", "running", "recovery_required"] == [event["type"] for event in shown["events"]]
    assert ["hold"] == [entry["type"] for entry in shown["money"]["entries"]]
    assert ("0.050000", "0.050000", "job") == tuple(
        shown["money"][name] for name in ("price", "hold", "unit")
    )
    json.dumps(shown)


def test_what_is_known_of_a_worker_outlives_its_row(world: World) -> None:
    """A worker that has gone is forgotten; where the call was made from, and until when, is not (P10)."""
    world.register("worker_a", machine="host a")
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.now_ms += 5_000
    world.write(lambda tx: catalog.see_worker(tx, "worker_a", now_ms=world.now_ms))
    world.beat(claim.attempt_id)
    world.now_ms += 600_000
    world.rescue(claim.attempt_id)
    world.write(lambda tx: catalog.forget_worker(tx, "worker_a"))
    [attempt] = evidence(world, claim.job_id)["attempts"]

    assert ("host a", None) == (attempt["worker"]["machine"], attempt["worker_seen_at"])
    assert "2027-01-15T08:00:05.000+00:00" == attempt["heard_at"]


def test_the_evidence_says_what_each_exit_would_do_to_the_money(world: World) -> None:
    """Complete charges, requeue keeps the hold and may be paid for twice, void releases (P3, P10)."""
    claim = waiting(world)
    exits = evidence(world, claim.job_id)["exits"]

    assert {
        "complete": {"refused": None, "needs_file": True, "charges": "0.050000", "releases": "0.000000"},
        "requeue": {"refused": None, "keeps_held": "0.050000", "may_be_paid_twice": True},
        "void": {"refused": None, "charges": "0.000000", "releases": "0.050000"},
    } == exits
    world.write(
        lambda tx: recover.void(tx, world.ids, claim.job_id, cancel=False, by=BY, now_ms=world.now_ms)
    )

    assert {"the job is failed"} == {
        each["refused"] for each in evidence(world, claim.job_id)["exits"].values()
    }


@pytest.mark.parametrize("decision", ["complete", "requeue", "void"])
def test_a_decision_removes_what_the_database_kept_of_a_result(world: World, decision: str) -> None:
    """It is a caller's content, and nobody will store it any more."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    made = KeptResult(b"sound" * 100_000, "audio/wav", {"sample_rate": 24_000}, 10)
    world.write(lambda tx: kept_results.keep(tx, claim.attempt_id, made, now_ms=world.now_ms))
    found = world.read(lambda tx: kept_results.find(tx, claim.attempt_id))
    now_ms = world.now_ms
    world.write(
        lambda tx: finish.hand_over(
            tx, claim.attempt_id, code="unforeseen", message="x", evidence="x", now_ms=now_ms
        )
    )

    def decide(tx: Transaction) -> None:
        if decision == "complete":
            recover.complete(tx, world.ids, claim.job_id, world.result(), by=BY, now_ms=now_ms)
        elif decision == "requeue":
            recover.requeue(tx, world.ids, claim.job_id, by=BY, now_ms=now_ms)
        else:
            recover.void(tx, world.ids, claim.job_id, cancel=False, by=BY, now_ms=now_ms)

    world.write(decide)

    if decision == "void":
        why = "the service could not run the job; nothing is charged"
        assert why == world.job(claim.job_id)["error_message"]
    assert made == found
    assert [] == world.read(lambda tx: tx.all("select job_id from kept_result"))


@pytest.mark.parametrize("state", ["intact", "damaged", "missing"])
def test_a_recorded_result_is_read_again(world: World, tmp_path: Path, state: str) -> None:
    """The evidence says whether its bytes are what was recorded; a damaged one is not completed with (P6)."""
    blobs = DirectoryBlobs(tmp_path / "blobs")
    claim = waiting(world)
    record = blobs.write(world.ids.new("blob"), b"sound")
    world.record(claim.attempt_id, RecordedResult(record, "audio/wav", {}, 1000))
    path = tmp_path / "blobs" / record.blob_id[-2:] / record.blob_id
    if state == "damaged":
        path.write_bytes(b"sound"[::-1])
    elif state == "missing":
        path.unlink()
    shown = examination.examine(world.database, blobs, claim.job_id, now_ms=world.now_ms)
    result = shown.attempts[0].result

    assert result is not None
    assert (state, record.sha256) == (result.bytes, result.sha256)
    assert not shown.exits.complete.needs_file
    if state == "intact":
        recover.check_recorded(world.database, blobs, claim.job_id)
        return
    with pytest.raises(OperatorError, match=f"{state}.*--file"):
        recover.check_recorded(world.database, blobs, claim.job_id)


@pytest.mark.parametrize(
    ("how", "entry", "event", "detail"),
    [
        ("complete", "settle", "succeeded", "completed by the operator"),
        ("requeue", "adjust", "requeued", "requeued by the operator"),
        ("void", "void", "failed", "voided by the operator"),
    ],
)
def test_a_decision_stands_in_the_ledger_and_in_the_events(
    world: World, how: str, entry: str, event: str, detail: str
) -> None:
    """Each exit is written with who decided and why; the caller sees no name (P8, P10)."""
    claim = waiting(world)
    decide(world, how, claim.job_id)
    last = world.all("select * from event where job_id = :id order by sequence", id=claim.job_id)[-1]
    ledger = world.all("select type, note from entry where job_id = :id order by id", id=claim.job_id)
    seen = world.read(lambda tx: read.events(tx, any_key(claim.account_id), claim.job_id))

    assert (event, "alice", "asked the upstream: ticket 7", detail) == (
        last["type"],
        last["operator"],
        last["note"],
        last["detail"],
    )
    line = detail.replace("the operator", "alice: asked the upstream: ticket 7")
    assert {"type": entry, "note": line} == ledger[-1]
    assert "alice" not in repr(seen)
    assert [] == world.findings()


@pytest.mark.parametrize("how", ["complete", "requeue", "void"])
def test_a_decision_that_is_repeated_decides_once(world: World, how: str) -> None:
    """After a lost answer it finds its own ledger line, also where the job waits once more (P3, P10).

    The same id for another decision is a conflict.
    """
    claim = waiting(world)
    by = Decision("alice", "ticket 7", world.ids.new("entry"))
    decide(world, how, claim.job_id, by=by)
    if how == "requeue":
        again = world.claim()
        assert again is not None
        world.fence(again.attempt_id)
        world.unknown(again.attempt_id)
    before = world.everything()
    decide(world, how, claim.job_id, by=by)

    assert before == world.everything()
    assert 1 == len(world.all("select 1 from entry where id = :id", id=by.entry_id))
    with pytest.raises(IdempotencyConflict):
        decide(world, "void" if how != "void" else "requeue", claim.job_id, by=by)
    assert [] == world.findings()


def test_of_operators_who_decide_at_once_one_does(world: World) -> None:
    """The others are told that the job does not wait any more; one resolution, one decision (P3, P8)."""
    claim = waiting(world)
    ways = ("complete", "requeue", "void", "void")
    answers = at_once(len(ways), lambda number: decide(world, ways[number], claim.job_id))
    refused = [answer for answer in answers if isinstance(answer, OperatorError)]
    signed = world.all("select 1 from event where operator is not null")

    assert [None] == [answer for answer in answers if answer not in refused]
    assert {True} == {"does not wait for recovery" in answer.message for answer in refused}
    assert 1 == len(signed)
    assert [] == world.findings()


def test_a_job_past_its_deadline_is_not_requeued(world: World) -> None:
    """It would fail at once; the refusal says what there is instead, and nothing changes."""
    claim = waiting(world)
    world.now_ms += 15 * 24 * 3600 * 1000
    before = world.everything()

    with pytest.raises(OperatorError, match=r"deadline.*complete or void it"):
        decide(world, "requeue", claim.job_id)
    assert before == world.everything()


def test_the_evidence_says_that_a_job_is_past_its_deadline(world: World) -> None:
    """Before anybody tries to requeue it."""
    claim = waiting(world)
    world.now_ms += 15 * 24 * 3600 * 1000

    assert "its deadline has passed" == evidence(world, claim.job_id)["exits"]["requeue"]["refused"]


@pytest.mark.parametrize("operator", ["", "  ", "a\0b", "x" * 1001])
def test_a_decision_has_a_name(operator: str) -> None:
    """Nobody decides without one."""
    with pytest.raises(OperatorError):
        Decision(operator)


def test_completing_with_a_file(world: World) -> None:
    """The call had succeeded: the bytes that the operator brings are the result, and are charged."""
    claim = waiting(world)
    result = world.result()
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, result, by=BY, now_ms=world.now_ms))

    assert "succeeded" == world.state(claim.job_id)
    assert (CREDIT - PRICE_MICROS, 0) == world.balance(claim.account_id)


def test_completing_with_the_recorded_result(world: World) -> None:
    """A result that could not be verified then is used now."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.record(claim.attempt_id)
    world.write(
        lambda tx: finish.result_unusable(tx, claim.attempt_id, message="no disk", now_ms=world.now_ms)
    )
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, None, by=BY, now_ms=world.now_ms))

    assert "succeeded" == world.state(claim.job_id)


def test_completing_without_a_result_is_refused(world: World) -> None:
    """The error says what to bring; nothing changes."""
    claim = waiting(world)
    before = world.everything()

    with pytest.raises(OperatorError, match="--file"):
        world.write(
            lambda tx: recover.complete(tx, world.ids, claim.job_id, None, by=BY, now_ms=world.now_ms)
        )
    assert before == world.everything()


def test_requeueing(world: World) -> None:
    """It runs again under its old hold, as a new attempt; the old one's result comes too late."""
    claim = waiting(world)
    world.write(lambda tx: recover.requeue(tx, world.ids, claim.job_id, by=BY, now_ms=world.now_ms))

    assert "queued" == world.state(claim.job_id)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    again = world.claim()
    assert again is not None
    assert (claim.job_id, 2) == (again.job_id, again.number)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    world.finish(again.attempt_id)
    assert ["hold", "adjust", "settle"] == world.entries(claim.job_id)


@pytest.mark.parametrize(("cancel", "state"), [(False, "failed"), (True, "cancelled")])
def test_voiding(world: World, cancel: bool, state: str) -> None:
    """Given up: the hold is released, nothing is charged, and a late result changes nothing."""
    claim = waiting(world)
    world.write(
        lambda tx: recover.void(tx, world.ids, claim.job_id, cancel=cancel, by=BY, now_ms=world.now_ms)
    )
    before = world.everything()

    assert state == world.state(claim.job_id)
    assert (CREDIT, 0) == world.balance(claim.account_id)
    with pytest.raises(Stale):
        world.record(claim.attempt_id)
    assert before == world.everything()


def test_a_damaged_job_that_names_no_attempt_can_be_voided(broken_world: World) -> None:
    """There is nothing to complete, and the operator is told so; the hold comes back all the same (P3)."""
    world = broken_world
    claim = waiting(world)
    world.run("update job set attempt_id = null where id = :id", id=claim.job_id)
    before = world.everything()
    with pytest.raises(OperatorError, match="names no attempt; void it"):
        decide(world, "complete", claim.job_id)

    assert before == world.everything()
    decide(world, "void", claim.job_id)
    assert ("failed", ["hold", "void"]) == (world.state(claim.job_id), world.entries(claim.job_id))
    assert (CREDIT, 0) == world.balance(claim.account_id)


@pytest.mark.parametrize("how", ["requeue", "void"])
def test_the_operators_word_ends_an_attempt_whose_result_had_come(world: World, how: str) -> None:
    """A late result that was recorded and not settled is not left behind as an open attempt."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    decide(world, how, claim.job_id)
    if how == "requeue":
        assert world.claim() is not None

    assert [] == world.findings()
    assert "ended" == world.attempt(claim.attempt_id)["state"]
    with pytest.raises(Stale):
        world.succeed(claim.attempt_id)


@pytest.mark.parametrize("brought", [True, False])
def test_completing_after_a_late_result(world: World, brought: bool) -> None:
    """The result that had come is used, or the one that the operator brings instead."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    result = world.result() if brought else None
    late = world.attempt(claim.attempt_id)["blob_id"]
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, result, by=BY, now_ms=world.now_ms))

    used = world.row("select blob_id from artifact")["blob_id"]
    assert "succeeded" == world.state(claim.job_id)
    assert (late if result is None else result.blob.blob_id) == used


def test_a_late_result_that_is_damaged_goes_on_waiting(world: World) -> None:
    """It is looked at once, not again and again; the operator still decides."""
    claim = waiting(world)
    world.record(claim.attempt_id)
    world.write(
        lambda tx: finish.result_unusable(tx, claim.attempt_id, message="damaged", now_ms=world.now_ms)
    )

    assert "recovery_required" == world.state(claim.job_id)
    assert [] == world.read(queue.open_attempts)
    decide(world, "void", claim.job_id)


@pytest.mark.parametrize("how", ["complete", "requeue", "void"])
@pytest.mark.parametrize("state", ["queued", "running", "succeeded", "failed", "unknown id"])
def test_only_a_job_that_waits_is_decided_on(world: World, how: str, state: str) -> None:
    """Any other is refused and unchanged; a decision is made once."""
    claim = world.running()
    if state == "succeeded":
        world.finish(claim.attempt_id)
    elif state == "failed":
        world.fail(claim.attempt_id)
    elif state == "queued":
        world.rescue(claim.attempt_id)
    before = world.everything()

    with pytest.raises(OperatorError):
        decide(world, how, "job_0" if state == "unknown id" else claim.job_id)
    assert before == world.everything()


def waiting(world: World) -> Claim:
    """A metered job that waits for an operator."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    return claim


def decide(world: World, how: str, job_id: str, *, by: Decision = BY) -> None:
    result = world.result()
    if how == "complete":
        world.write(lambda tx: recover.complete(tx, world.ids, job_id, result, by=by, now_ms=world.now_ms))
    elif how == "requeue":
        world.write(lambda tx: recover.requeue(tx, world.ids, job_id, by=by, now_ms=world.now_ms))
    else:
        world.write(lambda tx: recover.void(tx, world.ids, job_id, cancel=False, by=by, now_ms=world.now_ms))


def evidence(world: World, job_id: str) -> dict[str, Any]:
    evidence = world.read(lambda tx: examination.evidence(tx, job_id, now_ms=world.now_ms))
    plain: dict[str, Any] = to_builtins(evidence)
    return plain
