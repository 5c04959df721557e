"""A line: first come, first served, and who is told to stop leaves it."""

import threading

import pytest

from servers.rig import eventually
from servers.speed import HANG_S
from tenuto.host.host import Cancellation, Cancelled
from tenuto.worker.fair_lock import FairLock


def waiting(line: FairLock, count: int) -> bool:
    return eventually(lambda: len(line._waiting) == count)


def test_who_shares_waits_for_who_is_alone_and_the_other_way_round() -> None:
    """Sharers have it together; who wants it alone waits for them, and those behind wait for him."""
    line, order, threads = FairLock(), list[str](), []
    first = line.turn(Cancellation(), is_shared=True)
    with first, line.turn(Cancellation(), is_shared=True):

        def use(name: str, is_shared: bool) -> None:
            with line.turn(Cancellation(), is_shared=is_shared):
                order.append(name)

        for number, (name, is_shared) in enumerate([("alone", False), ("behind", True)]):
            threads.append(threading.Thread(target=use, args=(name, is_shared)))
            threads[-1].start()
            assert waiting(line, number + 3)
        assert [] == order
    for thread in threads:
        thread.join(HANG_S)

    assert ["alone", "behind"] == order


def test_accounts_go_in_turn() -> None:
    """Whoever has many jobs waiting does not go before another's first (A2)."""
    line, order, threads = FairLock(), list[str](), []

    def use(name: str) -> None:
        with line.turn(Cancellation(), account_id=name[0]):
            order.append(name)

    with line.turn(Cancellation(), account_id="a"):
        for number, name in enumerate(("a1", "a2", "a3", "b1", "b2", "c1")):
            threads.append(threading.Thread(target=use, args=(name,)))
            threads[-1].start()
            assert waiting(line, number + 2)
    for thread in threads:
        thread.join(HANG_S)

    assert ["b1", "c1", "a1", "b2", "a2", "a3"] == order


def test_who_is_told_to_stop_leaves_the_line_at_once() -> None:
    """It need not wait for its turn, and does not hold up those behind it."""
    line, stop, ended = FairLock(), Cancellation(), threading.Event()

    def wait() -> None:
        with pytest.raises(Cancelled), line.turn(stop):
            raise AssertionError("it was not its turn")
        ended.set()

    with line.turn(Cancellation()):
        threading.Thread(target=wait).start()
        assert waiting(line, 2)
        stop.set()

        assert ended.wait(HANG_S)
        assert waiting(line, 1)


def test_a_stop_before_the_line_is_heard() -> None:
    """Nothing is begun for who has been told to stop already."""
    stop = Cancellation()
    stop.set()

    with pytest.raises(Cancelled), FairLock().turn(stop):
        raise AssertionError("it was told to stop")
