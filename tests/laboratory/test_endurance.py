"""Growth is found in a series and noise is not; the record and its page agree."""

import random
from typing import Any

import pytest
from lab.endurance import record
from lab.endurance.record import Piece
from lab.endurance.samples import MEMORY, PROCESSOR, THREADS
from lab.endurance.trend import trend

MINUTE_S = 60.0


def series(minutes: int, *, an_hour: float = 0.0, noise: float = 1.0, seed: int = 1) -> list[float]:
    """A process of 80 MiB, a value a minute."""
    dice = random.Random(seed)
    return [80 + an_hour * n / 60 + dice.gauss(0, noise) for n in range(minutes)]


def piece(**series_of: Any) -> Piece:
    """One on SQLite."""
    return Piece(
        database="sqlite",
        commit="abc",
        date="2026-11-26",
        cores=2,
        loads=(0.5, 1.0, 2.0),
        minutes=30,
        acts=1000,
        jobs=900,
        jobs_before=0,
        database_mib=(1.0, 2.5),
        messages=450,
        latencies_ms={"speech": [500, 40.0, 60.0, 90.0]},
        series=series_of.pop("series"),
        faults=series_of.pop("faults", []),
    )


def test_a_slope_is_found_whatever_outliers_say() -> None:
    """Two spikes of a hundred times the noise do not move the median of all slopes."""
    values = series(60, an_hour=6)
    values[10], values[50] = 200, 10
    found = trend([values], MINUTE_S)

    assert found.slope == pytest.approx(6, abs=1)
    assert found.low < 6 < found.high


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


def test_too_few_points_have_no_trend() -> None:
    """Four minutes say nothing, however many pieces have them."""
    with pytest.raises(ValueError, match="too few points"):
        trend([[1.0, 2.0, 3.0, 4.0]] * 9, MINUTE_S)


def test_each_series_has_its_own_limit() -> None:
    """A thread an hour is too many; processor time is judged as a share of its level."""
    growing = piece(
        series={
            f"serve: {MEMORY}": series(30, noise=0.1),
            f"worker: {THREADS}": [30.0 + n / 10 for n in range(30)],
            f"all: {PROCESSOR}": [40.0 + n / 100 for n in range(30)],
        }
    )
    verdicts = {each.name: each.verdict for each in record.growth([growing, growing, growing])}

    assert verdicts == {
        f"serve: {MEMORY}": "flat",
        f"worker: {THREADS}": "grows",
        f"all: {PROCESSOR}": "flat",
    }


def test_a_long_piece_is_judged_by_what_comes_after_its_first_audit() -> None:
    """A step in its first hour is growth that ends; a slope afterwards is one that does not."""
    steady, growing = [5.0] * 50 + [13.0] * 60, [5.0] * 60 + [5 + n / 10 for n in range(50)]
    found = record.growth([piece(series={f"serve: {MEMORY}": steady, f"worker: {MEMORY}": growing})])

    assert ["flat", "grows"] == [each.verdict for each in found]
    assert found[0].whole.slope > found[0].limit
