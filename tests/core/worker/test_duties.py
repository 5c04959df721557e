"""The runner of duties: what one duty may not do to another, and what each waits for."""

import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from servers.rig import Rig
from servers.speed import HANG_S
from tenuto.errors import Unavailable
from tenuto.worker.duties import Duty, Turn, Upkeep


def failing(error: Exception) -> Callable[[Turn], None]:
    def fail(turn: Turn) -> None:
        raise error

    return fail


def test_a_duty_that_fails_keeps_no_other_from_being_done(rig: Rig) -> None:
    """Neither one in a thread of its own; each is named in the log."""
    done: list[str] = []
    upkeep = Upkeep(
        rig.context,
        [
            Duty("broken", failing(ValueError("a bug"))),
            Duty("away", failing(Unavailable())),
            Duty("apart", failing(ValueError("another")), thread="apart"),
            Duty("sound", lambda turn: done.append("sound")),
        ],
    )
    with capture_logs() as logs:
        was_there = upkeep.do_due(0.0)
        upkeep.threads["apart"].join(HANG_S)
    named = {(line["duty"], line["event"]) for line in logs}

    assert (["sound"], False) == (done, was_there)
    assert {("broken", "upkeep.failed"), ("away", "upkeep.not_possible"), ("apart", "upkeep.failed")} == named


def test_the_round_after_an_outage_knows_of_it(rig: Rig) -> None:
    """What a duty has seen before it proves nothing."""
    known: list[bool] = []

    def once_away(turn: Turn) -> None:
        known.append(turn.after_outage)
        if len(known) == 1:
            raise Unavailable

    upkeep = Upkeep(rig.context, [Duty("once_away", once_away)])
    answers = [upkeep.do_due(now) for now in (0.0, 0.5, 1.0)]

    assert [False, True, True] == answers
    assert [False, True, False] == known


def test_a_duty_is_done_when_it_is_due_and_needed(rig: Rig) -> None:
    """Every minute, unless there is nothing to do."""
    done: list[float] = []
    needs = iter([True, False, True])
    duty = Duty("seldom", lambda turn: done.append(turn.now), 60.0, is_needed=lambda turn: next(needs))
    upkeep = Upkeep(rig.context, [duty])
    for now in range(0, 180, 30):
        upkeep.do_due(float(now))

    assert [0.0, 120.0] == done


def test_of_duties_that_share_a_thread_one_runs_at_a_time(rig: Rig) -> None:
    """The other waits for its next time."""
    may_end = threading.Event()
    began: list[str] = []

    def work(turn: Turn) -> None:
        began.append("long")
        may_end.wait(HANG_S)

    duties = [Duty("long", work, 60.0, thread="one"), Duty("short", work, 60.0, thread="one")]
    upkeep = Upkeep(rig.context, duties)
    for now in (0.0, 60.0):
        upkeep.do_due(now)
    is_running = upkeep.threads["one"].is_running()
    may_end.set()
    upkeep.threads["one"].join(HANG_S)

    assert (["long"], True) == (began, is_running)


@pytest.mark.parametrize(("clock", "expected"), [("any", 4), ("steady", 2), ("trusted", 0)])
def test_a_duty_waits_for_the_clock_that_it_needs(rig: Rig, clock: str, expected: int) -> None:
    """At its start a worker has seen no jump; it trusts its clock after ten minutes without one."""
    done: list[float] = []
    upkeep = Upkeep(rig.context, [Duty("late", lambda turn: done.append(turn.now), clock=clock)])  # type: ignore[arg-type]
    start = upkeep._clock_trust._since
    for now in (0.0, 1.0, 2.0, 3.0):
        rig.world.now_ms += 1000 if now != 2.0 else 3_600_000
        upkeep.do_due(start + now)

    assert expected == len(done)
