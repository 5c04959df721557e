"""A decision of the operator about a job of which the database keeps a result."""

import pytest

from servers.world import METERED, World
from tenuto.db.database import Transaction
from tenuto.features.kept_results import results as kept_results
from tenuto.features.kept_results.results import KeptResult
from tenuto.job import finish, recover
from tenuto.job.states import Decision

BY = Decision("alice", "asked the upstream: ticket 7")


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
