"""Room in an account's queue, remembered between counts."""

import pytest

from tenuto.api import rooms
from tenuto.api.rooms import FRESH_S, Rooms


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_assumed_before_a_count() -> None:
    """The first submission of an account counts."""
    assert not Rooms(Clock()).take("account_a", "speech")


def test_counted_room_is_taken_job_by_job_and_then_counted_again() -> None:
    """No more jobs pass than were counted; another account's or lane's room is its own."""
    known = Rooms(Clock())
    known.counted("account_a", "speech", 2)
    known.counted("account_b", "speech", 0)

    assert [True, True, False] == [known.take("account_a", "speech") for _ in range(3)]
    assert not known.take("account_b", "speech")
    assert not known.take("account_a", "image")


def test_a_count_is_believed_for_a_second() -> None:
    """What other processes accept meanwhile is seen after that."""
    clock = Clock()
    known = Rooms(clock)
    known.counted("account_a", "speech", 10)
    clock.now += FRESH_S

    assert not known.take("account_a", "speech")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of accounts takes a bounded memory; forgetting costs a count."""
    monkeypatch.setattr(rooms, "MAX_KNOWN", 2)
    known = Rooms(Clock())
    for name in ("a", "b", "c"):
        known.counted(name, "speech", 5)

    assert [False, False, True] == [known.take(name, "speech") for name in ("a", "b", "c")]


def test_much_room_is_counted_seldom() -> None:
    """A long queue takes long to count: a quarter of what is left is known for half a minute, so that four
    processes together stay within the limit (P14)."""
    clock = Clock()
    known = Rooms(clock)
    known.counted("account_a", "speech", 20_000)
    clock.now += 29

    assert [True] * 5_000 == [known.take("account_a", "speech") for _ in range(5_000)]
    assert not known.take("account_a", "speech")
    known.counted("account_a", "speech", 15_000)
    clock.now += 30
    assert not known.take("account_a", "speech")
