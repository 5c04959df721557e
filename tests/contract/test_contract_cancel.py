"""POST /v1/jobs/{id}/cancel: queued, running, hanging and final jobs."""

from servers.callers import HELD, METERED, Caller, Operator
from servers.service import FINAL


def test_a_queued_job_is_cancelled_at_once(caller: Caller) -> None:
    """A job that waits is cancelled in the answer itself and never runs (R34, R217)."""
    running = caller.block_lane()
    operation = caller.cancel(caller.submit())
    caller.cancel(running)

    assert ("cancelled", True, 0, [], None) == tuple(
        operation[name] for name in ("state", "cancel_requested", "attempt", "artifacts", "error")
    )
    assert isinstance(operation["finished_at"], int)
    assert operation == caller.read(operation["id"])


def test_a_running_job_is_asked_to_end(caller: Caller) -> None:
    """The answer shows the request; the engine stops, the job is cancelled, no file is left (R34)."""
    job_id = caller.block_lane()
    asked, again = caller.cancel(job_id), caller.cancel(job_id)
    ended = caller.wait(job_id)

    assert asked["cancel_requested"] and again["cancel_requested"]
    assert ended == caller.cancel(job_id)
    assert asked["state"] in ("running", "cancelled")
    assert ("cancelled", 1, [], None) == tuple(
        ended[name] for name in ("state", "attempt", "artifacts", "error")
    )


def test_a_deaf_engine_is_killed(paid: Operator) -> None:
    """An engine that does not hear the cancel loses its process; the next job runs as ever (P8, R217)."""
    caller = paid.caller(credit="1")
    job_id = caller.submit("[fake:hang_gil] x")
    caller.wait(job_id, HELD)
    caller.cancel(job_id)
    ended = caller.wait(job_id)

    assert "cancelled" == ended["state"]
    assert (1_000_000, 0) == paid.money(caller)
    assert "succeeded" == caller.wait(caller.submit("x"))["state"]


def test_a_metered_call_that_was_made_is_not_cancelled(paid: Operator) -> None:
    """Once the upstream is called a cancel is only noted: the result stands and is charged (R37)."""
    caller = paid.caller(credit="1")
    job_id = caller.submit("[fake:sleep=0.7] x", model=METERED)
    caller.wait(job_id, HELD)
    until_fence = "select count(*) as passed from attempt where job_id = :id and fenced_at is not null"
    while paid.row(until_fence, id=job_id)["passed"] == 0:
        assert caller.read(job_id)["state"] not in FINAL
    asked = caller.cancel(job_id)
    ended = caller.wait(job_id)

    assert asked["cancel_requested"]
    assert ("succeeded", "0.080000") == (ended["state"], ended["billing"]["charged"])
