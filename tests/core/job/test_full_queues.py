"""What a process remembers of full queues."""

import pytest

from tenuto.job import queue
from tenuto.job.queue import FULL_S, FullQueues, QueueFull


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_full_queue_is_full_for_a_moment() -> None:
    """A flood of refusals does not count a long queue each time (P14)."""
    clock = Clock()
    known = FullQueues(clock)
    known.note_full("account_a", "speech")
    before = known.was_full("account_a", "speech")
    clock.now += FULL_S

    assert before
    assert not known.was_full("account_a", "speech")


def test_another_queue_is_not_full() -> None:
    """Neither another account's nor the same account's in another lane."""
    known = FullQueues(Clock())
    known.note_full("account_a", "speech")

    assert not known.was_full("account_b", "speech")
    assert not known.was_full("account_a", "image")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of accounts takes a bounded memory; forgetting costs a count."""
    monkeypatch.setattr(queue, "MAX_KNOWN", 2)
    known = FullQueues(Clock())
    for name in ("a", "b", "c"):
        known.note_full(name, "speech")

    assert [False, False, True] == [known.was_full(name, "speech") for name in ("a", "b", "c")]


def test_a_refusal_that_passes_is_remembered() -> None:
    """Whose queue and which lane it was, the refusal itself says."""
    known = FullQueues(Clock())
    with pytest.raises(QueueFull), known.noting():
        raise QueueFull("account_a", "speech", 3)

    assert known.was_full("account_a", "speech")
