"""A line: first come, first served, and who is told to stop leaves it."""

import threading

import pytest

from tenuto.hosts.host import Cancellation, Cancelled
from tenuto.worker.line import Line
from worker.rig import eventually


def waiting(line: Line, count: int) -> bool:
    return eventually(lambda: len(line._waiting) == count)


def test_who_came_first_goes_first() -> None:
    """Eight jobs have an engine part by part in turn, none of them twice before another (R130)."""
    line, order = Line(), list[int]()
    threads = []

    def use(number: int) -> None:
        with line.turn(Cancellation(), lambda: None):
            order.append(number)

    with line.turn(Cancellation(), lambda: None):
        for number in range(8):
            threads.append(threading.Thread(target=use, args=(number,)))
            threads[-1].start()
            assert waiting(line, number + 2)
    for thread in threads:
        thread.join(10)

    assert list(range(8)) == order


def test_who_is_told_to_stop_leaves_the_line_at_once() -> None:
    """It need not wait for its turn, and does not hold up those behind it."""
    line, stop, ended = Line(), Cancellation(), threading.Event()

    def wait() -> None:
        with pytest.raises(Cancelled), line.turn(stop, lambda: None):
            raise AssertionError("it was not its turn")
        ended.set()

    with line.turn(Cancellation(), lambda: None):
        threading.Thread(target=wait).start()
        assert waiting(line, 2)
        stop.set()

        assert ended.wait(10)
        assert waiting(line, 1)


def test_a_stop_before_the_line_is_heard() -> None:
    """Nothing is begun for who has been told to stop already."""
    stop = Cancellation()
    stop.set()

    with pytest.raises(Cancelled), Line().turn(stop, lambda: None):
        raise AssertionError("it was told to stop")


def test_who_waits_says_so() -> None:
    """Waiting is not the engine's silence, for which its attempt would be given up."""
    line, told = Line(), threading.Event()

    def wait() -> None:
        with line.turn(Cancellation(), told.set):
            pass

    with line.turn(Cancellation(), lambda: None):
        thread = threading.Thread(target=wait)
        thread.start()

        assert told.wait(10)
    thread.join(10)
