"""A row that cannot be read, or a price that cannot be charged, costs its own job something and no other."""

import json
import time
from typing import Any

import pytest

from servers.rig import Rig
from servers.world import EVERY_MODEL, LANE, METERED, PRICE_MICROS, SPEECH, World
from tenuto.db.database import Transaction
from tenuto.errors import OperatorError
from tenuto.job import finish, queue, recover
from tenuto.job.queue import UNREADABLE_AT_ONCE, Claim
from tenuto.job.states import Decision
from tenuto.worker import attempt
from tenuto.worker.engines import Engines

BY = Decision("Ada", None)

DAMAGES = {
    "no JSON": ("parameters", '{"text": "你好。"'),
    "another JSON": ("parameters", "[]"),
    "inputs that are not JSON": ("input_artifact_ids", "[artifact"),
    "an unknown kind": ("kind", "spaech"),
}


def run(rig: Rig, engines: Engines, claim: Claim) -> Claim | None:
    """The attempt as a slot's thread makes it, with the claim of the slot's next job in its last commit."""

    def claim_next(tx: Transaction, now_ms: int) -> Claim | None:
        return queue.claim(
            tx,
            rig.context.ids,
            worker_id="worker_us",
            lane=LANE,
            slots=1,
            models=EVERY_MODEL,
            now_ms=now_ms,
        )

    engines.begin(claim.model)
    return attempt.run(rig.context, engines, rig.heartbeat, claim, claim_next)


def damage(world: World, job_id: str, column: str, text: str | int) -> Any:
    """Change one column of a job's row behind everybody's back; gives what was there."""
    before = world.job(job_id)[column]
    world.run(f"update job set {column} = :text where id = :id", text=text, id=job_id)
    return before


def attempts(world: World, job_id: str) -> list[dict[str, Any]]:
    return world.all("select * from attempt where job_id = :id order by number", id=job_id)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_row_that_cannot_be_read_costs_no_other_job_anything(
    world: World, rig: Rig, engines: Engines, how: str
) -> None:
    """The job before it succeeds, the one behind it is claimed, and it waits for its operator, its hold kept;
    `recover list` names it and says why, its attempt has the rest (P3, P8).
    """
    first = rig.running("worker_us")
    bad = world.submit(world.caller(), "bad").job_id
    behind = world.submit(world.caller(), "behind").job_id
    column, text = DAMAGES[how]
    before = damage(world, bad, column, text)
    following = run(rig, engines, first)
    listed = {job.id: job.error_message for job in world.read(recover.waiting)}

    assert ("succeeded", "recovery_required") == (world.state(first.job_id), world.state(bad))
    assert following is not None
    assert behind == following.job_id
    assert [bad] == [*listed]
    assert "cannot be read" in (listed[bad] or "")
    assert attempts(world, bad)[0]["evidence"]
    assert ["hold"] == world.entries(bad)
    assert ["queued", "running", "recovery_required"] == world.events(bad)

    damage(world, bad, column, before)
    world.write(lambda tx: recover.requeue(tx, world.ids, bad, by=BY, now_ms=world.now_ms))
    assert behind != bad == running_next(world, rig, engines, following).job_id


def running_next(world: World, rig: Rig, engines: Engines, claim: Claim) -> Claim:
    """What is claimed when this one has succeeded."""
    following = run(rig, engines, claim)
    assert following is not None
    world.finish(following.attempt_id)
    return following


def test_bytes_that_are_not_text_are_found_before_a_job_is_run(world: World) -> None:
    """One flipped bit in SQLite's file, without checksums: the job is not run with another letter."""
    if world.database.dialect != "sqlite":
        pytest.skip("PostgreSQL takes no such text; a page of it that is damaged is refused by its checksum")
    bad = world.submit(world.caller(), "bad").job_id
    world.run(
        """update job set parameters = cast(replace(cast(parameters as blob), x'e4bda0', x'e4bdff') as text)
           where id = :id""",
        id=bad,
    )
    behind = world.submit(world.caller(), "behind").job_id
    claimed = world.claim()

    assert claimed is not None
    assert (behind, "recovery_required") == (claimed.job_id, world.state(bad))
    assert [True] == [bool(each["evidence"]) for each in attempts(world, bad)]
    world.finish(claimed.attempt_id)
    world.write(lambda tx: recover.void(tx, world.ids, bad, cancel=False, by=BY, now_ms=world.now_ms))


def test_many_rows_that_cannot_be_read_are_handed_over_some_at_a_time(world: World) -> None:
    """A claim is bounded; the sound job behind them is reached by the next one."""
    world.slots(1)
    caller = world.caller()
    for number in range(UNREADABLE_AT_ONCE + 1):
        damage(world, world.submit(caller, f"bad {number}").job_id, "parameters", "{")
    behind = world.submit(caller, "behind").job_id

    assert world.claim() is None
    claimed = world.claim()
    assert claimed is not None
    assert behind == claimed.job_id
    assert UNREADABLE_AT_ONCE + 1 == len(world.read(recover.waiting))
    world.finish(claimed.attempt_id)


@pytest.mark.parametrize("model", [SPEECH, METERED])
def test_a_claim_that_the_database_refuses_undoes_no_success(
    world: World, rig: Rig, engines: Engines, model: str
) -> None:
    """Whatever the claim of the next job meets, the last one's commit is made (P3)."""
    claim = rig.running("worker_us", model)

    def refused(tx: Transaction, now_ms: int) -> Claim | None:
        tx.one("select * from a_table_that_is_not_there")
        return None

    engines.begin(claim.model)
    assert attempt.run(rig.context, engines, rig.heartbeat, claim, refused) is None
    assert "succeeded" == world.state(claim.job_id)
    assert ["hold", "settle"] == world.entries(claim.job_id)


def test_an_error_that_nobody_foresaw_goes_to_the_operator_the_third_time(
    world: World, rig: Rig, engines: Engines
) -> None:
    """The job comes back twice, after a pause each, and then waits with what was met; it never fails."""
    claim: Claim | None = rig.running("worker_us")
    assert claim is not None
    job_id = claim.job_id
    parameters = json.loads(world.job(job_id)["parameters"])
    del parameters["stream"]
    damage(world, job_id, "parameters", json.dumps(parameters))
    world.release(claim.attempt_id)
    states = []
    while (claim := world.claim("worker_us")) is not None:
        run(rig, engines, claim)
        states.append(world.state(job_id))
        assert world.claim("worker_us") is None, "it pauses"
        world.now_ms += 60_000

    assert ["queued", "queued", "recovery_required"] == states
    assert "KeyError: 'stream'" in attempts(world, job_id)[-1]["evidence"]
    assert ["hold"] == world.entries(job_id)
    world.write(lambda tx: recover.void(tx, world.ids, job_id, cancel=False, by=BY, now_ms=world.now_ms))


@pytest.mark.parametrize("model", [SPEECH, METERED])
def test_a_price_that_cannot_be_charged_is_its_operators(
    world: World, rig: Rig, engines: Engines, model: str
) -> None:
    """The result is kept, the hold too, nothing runs again; the lane goes on (P3, P5, P10)."""
    claim = rig.running("worker_us", model)
    behind = world.submit(world.caller(), "behind").job_id
    for column in ("price_micros", "hold_micros"):
        damage(world, claim.job_id, column, 2 * PRICE_MICROS)
    run(rig, engines, claim)
    [made] = attempts(world, claim.job_id)

    assert "recovery_required" == world.state(claim.job_id)
    assert ["hold"] == world.entries(claim.job_id)
    assert made["blob_id"] is not None
    assert "a charge never exceeds its hold" in made["evidence"]
    following = world.claim()
    assert following is not None
    assert behind == following.job_id
    world.finish(following.attempt_id)
    for column in ("price_micros", "hold_micros"):
        damage(world, claim.job_id, column, PRICE_MICROS)
    world.write(lambda tx: recover.complete(tx, world.ids, claim.job_id, None, by=BY, now_ms=world.now_ms))
    assert ["hold", "settle"] == world.entries(claim.job_id)


def test_upkeep_goes_on_behind_a_result_that_cannot_be_settled(world: World, rig: Rig) -> None:
    """A price by the minute, a result without a duration, a dead worker: its other attempt is rescued in the
    same round; this one waits for its operator and is not looked at again (P9).
    """
    world.slots(2)
    rig.neighbour()
    bad, other = rig.running("worker_b", METERED), rig.running("worker_b")
    world.fence(bad.attempt_id)
    stored = rig.context.blobs.write(world.ids.new("blob"), b"sound")
    world.record(bad.attempt_id, world.result(duration_ms=None, blob=stored))
    damage(world, bad.job_id, "price_unit", "audio_minute")
    rig.upkeep().do_due(1000.0)

    assert ("recovery_required", "queued") == (world.state(bad.job_id), world.state(other.job_id))
    assert [True] == [bool(each["blob_id"]) for each in attempts(world, bad.job_id)]
    assert [] == world.all("select id from attempt where state <> 'ended'")
    with pytest.raises(OperatorError, match="void it"):
        world.write(lambda tx: recover.complete(tx, world.ids, bad.job_id, None, by=BY, now_ms=world.now_ms))
    damage(world, bad.job_id, "price_unit", "job")
    world.write(lambda tx: recover.void(tx, world.ids, bad.job_id, cancel=False, by=BY, now_ms=world.now_ms))


def test_upkeep_goes_on_behind_a_rescue_that_nobody_can_make(world: World, rig: Rig) -> None:
    """One attempt's ledger is damaged: it is its operator's, the other of this worker is rescued (P9)."""
    world.slots(2)
    rig.neighbour()
    bad, other = rig.running("worker_b"), rig.running("worker_b")
    account = world.job(bad.job_id)["account_id"]
    world.cancel(account, bad.job_id)
    world.run("update account set held_micros = 0 where id = :id", id=account)
    rig.upkeep().do_due(1000.0)
    states = (world.state(bad.job_id), world.state(other.job_id))
    world.run("update account set held_micros = :held where id = :id", held=PRICE_MICROS, id=account)

    assert ("recovery_required", "queued") == states
    assert "AssertionError" in attempts(world, bad.job_id)[0]["evidence"]
    world.write(lambda tx: recover.void(tx, world.ids, bad.job_id, cancel=True, by=BY, now_ms=world.now_ms))


def test_many_such_jobs_keep_no_other_waiting(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of one account than upkeep expires at once: it continues behind them (P3)."""
    monkeypatch.setattr(finish, "EXPIRY_BATCH", 2)
    caller = world.caller()
    bad = [world.submit(caller, f"bad {number}").job_id for number in range(3)]
    other = world.submit(world.caller(), "key").job_id
    world.run("update account set held_micros = 0 where id = :id", id=caller.account_id)
    world.run("update job set deadline_at = :at", at=world.now_ms)
    upkeep, start = rig.upkeep(), time.monotonic()
    for minute in range(14):
        upkeep.do_due(start + minute * 61)
        world.now_ms += 61_000
    states = [world.state(job_id) for job_id in (*bad, other)]
    world.run(
        "update account set held_micros = :held where id = :id", held=3 * PRICE_MICROS, id=caller.account_id
    )
    for minute in range(14, 18):
        upkeep.do_due(start + minute * 61)
        world.now_ms += 61_000

    assert ["queued"] * 3 + ["failed"] == states
    assert ["failed"] * 3 == [world.state(job_id) for job_id in bad]
