"""Whether a measured series grows: the Theil–Sen slope and its confidence interval.

The slope is the median of the slopes of all pairs of points, which a few outliers do not move. Its interval
is Sen's (1968): the ranks M ± 1.96 σ among the sorted slopes, σ² being the variance of Kendall's S, which is
n (n − 1) (2 n + 5) / 18 for n points. Of several pieces, pairs within a piece are compared, and variances are
added, as in the seasonal Kendall test (Hirsch, Slack and Smith, 1982).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

CONFIDENCE_Z = 1.96
"""Of the normal distribution, for 95 %."""
LEAST_POINTS = 5
"""In fewer, nothing can be significant."""

Verdict = Literal["flat", "uncertain", "grows"]


@dataclass(frozen=True)
class Trend:
    """The slope of a series, per hour, and the ends of its 95 % confidence interval."""

    slope: float
    low: float
    high: float

    def verdict(self, limit: float) -> Verdict:
        """`flat`: it grows by less than the limit. `grows`: by more. Otherwise there are too few points."""
        if self.high <= limit:
            return "flat"
        return "grows" if self.low > limit else "uncertain"


def trend(pieces: Sequence[Sequence[float]], step_s: float) -> Trend:
    """Of series with a point every `step_s` seconds. ValueError if no piece has five points."""
    slopes: list[float] = []
    variance = 0.0
    for points in pieces:
        count = len(points)
        if count < LEAST_POINTS:
            continue
        pairs = combinations(enumerate(points), 2)
        slopes += [(later - early) / (j - i) * 3600 / step_s for (i, early), (j, later) in pairs]
        variance += count * (count - 1) * (2 * count + 5) / 18
    if not slopes:
        raise ValueError("too few points for a trend")
    slopes.sort()
    reach = CONFIDENCE_Z * variance**0.5
    low, high = round((len(slopes) - reach) / 2), round((len(slopes) + reach) / 2)
    return Trend(statistics.median(slopes), slopes[max(0, low)], slopes[min(len(slopes) - 1, high)])
