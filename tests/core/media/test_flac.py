"""FLAC admission: what lies, is cut off or explodes is refused with a reason, all else is counted."""

import pytest

from servers.flacs import ADMITTED, REFUSED, inspected
from tenuto.media.flac import FlacInvalid, FlacSummary

RATE = 16_000


@pytest.mark.parametrize("what", REFUSED)
def test_a_flac_that_is_not_what_it_says_is_refused(what: str) -> None:
    """The head is held against the frames, nothing may be missing or too much (R155, R156, P22)."""
    make, reason = REFUSED[what]

    with pytest.raises(FlacInvalid, match=reason):
        inspected(make())


@pytest.mark.parametrize("what", ADMITTED)
def test_a_sound_flac_is_counted_to_the_sample(what: str) -> None:
    """Any rate and up to eight channels; 7,200.000 seconds pass (R155, R156)."""
    make, (frames, rate, channels) = ADMITTED[what]

    assert FlacSummary(rate, channels, frames) == inspected(make())


def test_a_duration_is_rounded_up_to_the_millisecond() -> None:
    """What is charged for is never less than what was decoded (R134)."""
    assert [1, 1, 2] == [FlacSummary(RATE, 1, frames).duration_ms for frames in (1, 16, 17)]
    assert 7_200_000 == FlacSummary(44_100, 2, 44_100 * 7200).duration_ms
