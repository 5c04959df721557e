"""Engines that fail in every way: the job reports it, the hold is released, and the service continues."""

from typing import get_args

import pytest

from servers.callers import METERED, Operator
from tenuto.job.states import SENTENCES, ReleaseReason

pytestmark = pytest.mark.variant("database", only="postgresql")

FAILURES = [
    ("raise", "engine_failed", 1),
    ("garbage", "engine_failed", 1),
    ("transient", "engine_failed", 3),
    ("crash", "engine_crashed", 3),
]


@pytest.mark.parametrize(("directive", "code", "attempts"), FAILURES)
def test_an_engine_that_fails_fails_its_job(paid: Operator, directive: str, code: str, attempts: int) -> None:
    """The job fails with its code after the attempts it is worth, and costs nothing (R34, R36, R217)."""
    caller = paid.caller(credit="0.05")
    operation = caller.wait(caller.submit(f"[fake:{directive}] x"))

    assert ("failed", code, attempts, []) == (
        operation["state"],
        operation["error"]["code"],
        operation["attempt"],
        operation["artifacts"],
    )
    assert {"held": "0.000000", "charged": "0.000000", "currency": "CNY"} == operation["billing"]
    assert (50_000, 0) == paid.money(caller)
    assert "succeeded" == caller.wait(caller.submit("And on it goes."))["state"]


def test_a_metered_fault_is_not_tried_again(paid: Operator) -> None:
    """A metered engine that says that it failed fails the job at once: no second paid call (R36, R37)."""
    caller = paid.caller(credit="0.10")
    operation = caller.wait(caller.submit("[fake:transient] x", model=METERED))

    assert ("failed", 1) == (operation["state"], operation["attempt"])
    assert (100_000, 0) == paid.money(caller)


@pytest.mark.parametrize("directive", ["exit", "garbage"])
def test_a_metered_crash_waits_for_the_operator(paid: Operator, directive: str) -> None:
    """A metered engine that dies, or gives an invalid result, may have been charged: recovery_required,
    nothing runs again (R35–R37)."""
    caller = paid.caller(credit="0.10")
    operation = caller.wait(caller.submit(f"[fake:{directive}] x", model=METERED))

    assert ("recovery_required", 1, "0.100000") == (
        operation["state"],
        operation["attempt"],
        operation["billing"]["held"],
    )
    paid.service.command("admin", "recover", "void", operation["id"])


INSIDE = ("canary", "Traceback", "Error", "/", "\\", "python", "exit code", "signal", "SIG")


@pytest.mark.parametrize("directive", ["raise", "bad_segment"])
def test_callers_read_nothing_of_the_inside(paid: Operator, directive: str) -> None:
    """An engine's exception, with a path in it, is evidence for the operator; a caller reads one of a closed
    set of sentences, in the job's error and in its events, without the text (R34, R205)."""
    caller = paid.caller(credit="0.05")
    job_id = caller.submit(f"[fake:{directive}] canary", stream=True)
    operation = caller.wait(job_id)
    events = caller.get(f"/v1/jobs/{job_id}/events").json()["data"]
    evidence = paid.service.command("admin", "evidence", job_id).stdout
    shown = operation["error"]["message"]

    assert [sentence for sentence in SENTENCES.values() if shown.startswith(sentence)]
    assert not [word for word in INSIDE if word in shown]
    details = {event["detail"] for event in events} - {None}
    assert details <= {*SENTENCES, *get_args(ReleaseReason)}
    assert "evidence" in evidence
    if directive == "raise":
        assert "ValueError: the fake engine was told to raise, in /" in evidence
