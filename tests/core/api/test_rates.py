"""How often a key may ask, and what happens to one that goes on after it was refused."""

import pytest

from tenuto.api import limits
from tenuto.api.limits import PAUSE_S, PROMPT_REFUSALS, PROMPT_REFUSALS_PER_SECOND, Buckets, Rates
from tenuto.errors import RateLimited


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(limited: Rates, key_id: str, count: int) -> list[float]:
    """The pauses of those of so many requests that are refused."""
    pauses = []
    for _ in range(count):
        try:
            limited.take(key_id)
        except RateLimited as error:
            pauses.append(error.pause_s)
    return pauses


def test_a_burst_and_then_the_rate() -> None:
    """Twice the rate at once, then as many as seconds bring; each key for itself (R212)."""
    clock = Clock()
    limited = Rates(10, clock)
    first = 30 - len(refused(limited, "key_a", 30))
    other = 30 - len(refused(limited, "key_b", 30))
    clock.now += 0.5
    later = 30 - len(refused(limited, "key_a", 30))

    assert (20, 20, 5) == (first, other, later)


def test_no_rate_is_no_limit() -> None:
    """0 lets everything through."""
    assert [] == refused(Rates(0, Clock()), "key_a", 10_000)


def test_the_refusal_says_the_limit_and_its_name() -> None:
    """What operators count it by, and what callers may do."""
    limited = Rates(1, Clock())
    with pytest.raises(RateLimited, match="more than 1 requests a second") as caught:
        for _ in range(3):
            limited.take("key_a")

    assert ("requests_per_second", 1) == (caught.value.limit, caught.value.retry_after_s)


def test_a_key_that_goes_on_is_answered_late() -> None:
    """Some refusals are prompt, for whoever waits then; the others of a flood come after a pause (P14)."""
    clock = Clock()
    limited = Rates(1, clock)
    refused(limited, "key_a", 2)
    pauses = refused(limited, "key_a", 100)
    clock.now += 0.5
    later = refused(limited, "key_a", 100)

    assert [0.0] * PROMPT_REFUSALS == pauses[:PROMPT_REFUSALS]
    assert are_spread(pauses[PROMPT_REFUSALS:], count=100 - PROMPT_REFUSALS)
    assert PROMPT_REFUSALS_PER_SECOND // 2 == later.count(0.0)


def test_strangers_are_answered_late_when_they_are_many() -> None:
    """All without a valid key count together; a limit of none is none for them, too (P14)."""
    clock = Clock()
    limited = Rates(10, clock)
    pauses = [limited.strangers_pause_s() for _ in range(30)]
    clock.now += 1

    assert [0.0] * 20 == pauses[:20]
    assert are_spread(pauses[20:], count=10)
    assert 0.0 == limited.strangers_pause_s()
    assert {0.0} == {Rates(0, clock).strangers_pause_s() for _ in range(100)}


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are at rest are forgotten first, then the oldest."""
    monkeypatch.setattr(limits, "MAX_KEYS", 10)
    clock = Clock()
    buckets = Buckets(2, 1.0, clock)
    buckets.take("key_rest")
    clock.now += 5
    for number in range(10):
        buckets.take(f"key_{number}")
        buckets.take(f"key_{number}")
    asleep = [name for name in buckets._levels if name == "key_rest"]
    for number in range(10, 21):
        clock.now += 0.01
        buckets.take(f"key_{number}")

    assert [] == asleep
    assert len(buckets._levels) <= 11
    assert "key_20" in buckets._levels


def are_spread(pauses: list[float], *, count: int) -> bool:
    """So many, all within the bounds, no two alike: those who wait do not come back as one wave."""
    least, most = PAUSE_S
    return len(set(pauses)) == count and all(least <= pause <= most for pause in pauses)
