"""What becomes of an attempt, over every cause and every way that it may stand: the policy as rules."""

from collections.abc import Iterator
from itertools import product
from typing import get_args

from tenuto.job import fate, states
from tenuto.job.fate import Cause, Fate, What
from tenuto.job.states import CANCELLED, FAILED, QUEUED, RECOVERY_REQUIRED

LEFT_TO_OTHERS = Fate("", "")


def fates(what: What, **stands: bool) -> Iterator[Fate]:
    """All that this cause can lead to for an attempt that stands so."""
    for is_shared, is_paid, is_kept, is_cancelled in product((False, True), repeat=4):
        flags = {"is_paid": is_paid, "is_cancelled": is_cancelled}
        if stands.items() <= flags.items() and is_paid >= is_kept:
            for hosts_lost, unforeseen_errors, workers_lost in product(range(4), range(4), range(8)):
                decided = fate.of(
                    Cause(what, is_shared=is_shared, pause_ms=7),
                    is_kept=is_kept,
                    hosts_lost=hosts_lost,
                    unforeseen_errors=unforeseen_errors,
                    workers_lost=workers_lost,
                    **flags,
                )
                yield decided or LEFT_TO_OTHERS


def after(what: What, **stands: bool) -> set[str]:
    return {each.state for each in fates(what, **stands)}


def test_only_the_engines_own_fault_ends_what_was_paid_for() -> None:
    """Nothing else repeats, fails or cancels it: an operator decides, or others store its result (P10)."""
    for what in set(get_args(What)) - {"engine_at_fault"}:
        assert after(what, is_paid=True) <= {RECOVERY_REQUIRED, ""}, what
    assert {FAILED} == after("engine_at_fault")


def test_what_was_cancelled_is_not_queued_again() -> None:
    """Whatever ended its attempt."""
    for what in get_args(What):
        assert QUEUED not in after(what, is_cancelled=True), what


def test_a_lost_worker_never_fails_a_job() -> None:
    """Nor does giving it back; only lost hosts, one after the other, do."""
    free = {"is_paid": False, "is_cancelled": False}

    assert {QUEUED} == after("worker_lost", **free) == after("given_back", **free)
    assert {QUEUED, FAILED} == after("host_lost", **free)
    assert {QUEUED, RECOVERY_REQUIRED} == after("unforeseen", **free)
    assert {CANCELLED} == after("stopped_for_the_caller", **free)
    assert {RECOVERY_REQUIRED} == after("outcome_unknown", **free)


def test_each_event_has_a_counter_of_its_own() -> None:
    """What an event says of a lost attempt is what is counted, and nothing else is."""
    counters = {
        (each.event, name)
        for what in get_args(What)
        for each in fates(what)
        for name in ("hosts_lost", "losses_shared", "unforeseen_errors", "workers_lost")
        if getattr(each, name)
    }

    assert counters == {
        ("host_lost", "hosts_lost"),
        ("host_lost", "losses_shared"),
        ("unforeseen", "unforeseen_errors"),
        ("worker_lost", "workers_lost"),
    }


def test_every_fate_is_a_transition_with_its_event() -> None:
    """The event says the state that the job is in, and only a job that is queued again has losses counted."""
    for what in get_args(What):
        for each in set(fates(what)) - {LEFT_TO_OTHERS}:
            counted = (each.hosts_lost, each.workers_lost, each.losses_shared, each.unforeseen_errors)
            assert each.state in states.END_ATTEMPT.after
            assert states.EVENTS[each.event] == each.state
            assert sum(counted) <= (each.state == QUEUED)
            assert (each.error_code is None) == (each.state in (QUEUED, CANCELLED))
