"""Where a long recording is cut into parts: at quiet places, with an overlap. Pure.

The same loudness gives the same parts, so that a second attempt at a recording finds those of the first.
"""

from collections.abc import Sequence

FRAME_S = 0.02
"""Loudness is given for every so many seconds."""

LONGEST_WHOLE_S = 600
"""A recording that is not longer stays whole; parts are about as long at most."""

SEARCH_S = 20.0
"""A cut is looked for so far to both sides of its even place."""

OVERLAP_S = (5.0, 10.0)
"""The end of a part and the beginning of the next lie so far apart, both at quiet places."""

_QUIET_S = 0.3


def plan(loudness: Sequence[float], duration_s: float) -> list[tuple[float, float]]:
    """Start and end of each part in seconds, from the mean square of every 20 ms.

    Between them they hold everything, each neighbour overlaps the next, and none is longer than
    `LONGEST_WHOLE_S` + 2 × `SEARCH_S` + `OVERLAP_S[1]`, 650 seconds.
    """
    count = max(1, -(-int(duration_s * 1000) // (LONGEST_WHOLE_S * 1000)))
    if duration_s <= LONGEST_WHOLE_S:
        count = 1
    least, most = OVERLAP_S[0] / 2, OVERLAP_S[1] / 2
    starts, ends = [0.0], []
    for number in range(1, count):
        even = duration_s * number / count
        cut = quietest(loudness, even - SEARCH_S, even + SEARCH_S)
        ends.append(quietest(loudness, cut + least, cut + most))
        starts.append(quietest(loudness, cut - most, cut - least))
    ends.append(duration_s)
    return list(zip(starts, ends, strict=True))


def quietest(loudness: Sequence[float], start_s: float, end_s: float) -> float:
    """The middle of the quietest 0.3 seconds whose middle lies there; of several, that nearest to the middle.

    A multiple of 20 ms, so that it falls between two samples of any rate that is a multiple of 50 Hz.
    """
    reach = round(_QUIET_S / FRAME_S / 2)
    first, last = -int(-start_s // FRAME_S), int(end_s // FRAME_S)
    assert first <= last
    middle = (first + last) / 2

    def rank(at: int) -> tuple[float, float]:
        around = loudness[max(0, at - reach) : at + reach]
        return sum(around) / max(1, len(around)), abs(at - middle)

    return round(min(range(first, last + 1), key=rank) * FRAME_S, 2)
