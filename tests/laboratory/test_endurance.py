"""Growth is found in a series and noise is not."""

import random

import pytest
from lab.endurance.trend import trend

MINUTE_S = 60.0


def series(minutes: int, *, an_hour: float = 0.0, noise: float = 1.0, seed: int = 1) -> list[float]:
    """A process of 80 MiB, a value a minute."""
    dice = random.Random(seed)
    return [80 + an_hour * n / 60 + dice.gauss(0, noise) for n in range(minutes)]


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([series(60)], "flat"),
        ([[40.0] * 20], "flat"),
        ([series(60, an_hour=6)], "grows"),
        ([series(60, an_hour=-6)], "flat"),
        ([series(8, noise=3, seed=2)], "uncertain"),
        ([series(20, an_hour=5, noise=1, seed=n) for n in range(8)], "grows"),
        ([series(20, seed=n) for n in range(12)], "flat"),
        ([[80.0 + n] * 20 for n in range(4)], "flat"),
    ],
)
def test_growth_beyond_a_limit_is_told_from_noise(values: list[list[float]], verdict: str) -> None:
    """Of 2 MiB an hour; a piece that begins higher than the one before it has not grown."""
    assert verdict == trend(values, MINUTE_S).verdict(2.0)
