"""What an operator sees of a job whose paid call has an unknown outcome."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from servers.world import METERED, World
from tenuto.errors import OperatorError
from tenuto.features.evidence import examination
from tenuto.file.directory import DirectoryBlobs
from tenuto.job import recover
from tenuto.job.finish import RecordedResult
from tenuto.job.queue import Claim
from tenuto.job.states import OUTCOME_UNKNOWN, Decision
from tenuto.kind import operations as catalog

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


def test_the_evidence_says_that_a_job_is_past_its_deadline(world: World) -> None:
    """Before anybody tries to requeue it."""
    claim = waiting(world)
    world.now_ms += 15 * 24 * 3600 * 1000

    assert "its deadline has passed" == evidence(world, claim.job_id)["exits"]["requeue"]["refused"]


def waiting(world: World) -> Claim:
    """A metered job that waits for an operator."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.unknown(claim.attempt_id)
    return claim


def evidence(world: World, job_id: str) -> dict[str, Any]:
    evidence = world.read(lambda tx: examination.evidence(tx, job_id, now_ms=world.now_ms))
    plain: dict[str, Any] = to_builtins(evidence)
    return plain
