"""Pauses of the shared voice: what is shortened, what stays bit for bit."""

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenuto.features.decoding.wav import Wav, pcm16_wav, read_pcm16_wav
from tenuto.features.speech.pauses import shorten_pauses

RATE = 24_000
LONG = RATE * 450 // 1000
KEPT = RATE * 350 // 1000


def wav(samples: list[int], channels: int = 1, rate: int = RATE) -> Wav:
    return read_pcm16_wav(pcm16_wav(array("h", samples).tobytes(), rate, channels))


def after(found: Wav) -> list[int]:
    """The samples after the pass."""
    shortened = shorten_pauses(found)
    frames = found.frames if shortened is None else read_pcm16_wav(shortened.content).frames
    return array("h", bytes(frames)).tolist()


def test_a_long_pause_loses_its_middle() -> None:
    """Of 450 ms 350 are left, 175 from each end of the run; how much is gone is told (R102, R109)."""
    run = [n % 100 for n in range(LONG)]
    found = wav([5000, *run, -5000])
    shortened = shorten_pauses(found)
    assert shortened is not None

    assert [5000, *run[: KEPT // 2], *run[-(KEPT - KEPT // 2) :], -5000] == after(found)
    assert (LONG - KEPT, 100) == (shortened.removed_frames, shortened.removed_ms)


@pytest.mark.parametrize(
    "samples",
    [
        [],
        [0] * 5 * LONG,
        [130, -130] * 5 * LONG,
        [5000, *[0] * (LONG - 1), 5000],
        [*[0] * 5 * LONG, 5000, 5000],
        [5000, *[0] * 5 * LONG],
        [5000, *[131, *[0] * (LONG - 2)] * 3, 5000],
    ],
    ids=["empty", "silence", "all quiet", "shorter", "leading", "trailing", "broken by a click"],
)
def test_everything_else_is_left_alone(samples: list[int]) -> None:
    """Silence at the ends, pauses below 450 ms, files without a loud frame (R103, R104)."""
    assert shorten_pauses(wav(samples)) is None


@pytest.mark.parametrize(
    ("sample", "quiet"), [(130, True), (-130, True), (131, False), (-131, False), (-32_768, False)]
)
def test_quiet_is_below_48_decibels(sample: int, quiet: bool) -> None:
    """130.5 of 32,768 is the border, on both sides of zero (R102)."""
    found = wav([5000, *[0] * (LONG // 2), sample, *[0] * (LONG // 2), 5000])

    assert quiet == (shorten_pauses(found) is not None)


def test_a_frame_is_quiet_when_all_its_channels_are() -> None:
    """A pause on one side alone is none (R102)."""
    one = [5000, 5000, *[0, 3000] * LONG, 5000, 5000]
    both = [5000, 0, *[0, 130] * LONG, 0, 5000]

    assert shorten_pauses(wav(one, 2)) is None
    assert [5000, 0, *[0, 130] * KEPT, 0, 5000] == after(wav(both, 2))


@pytest.mark.parametrize("rate", [8_000, 8_010, 11_025, 22_050, 44_100, 192_000])
def test_lengths_follow_the_rate(rate: int) -> None:
    """The shortest run that counts is 450 ms rounded up; 350 ms rounded are left."""
    long, kept = -(-rate * 450 // 1000), (rate * 350 * 2 + 1000) // 2000

    assert shorten_pauses(wav([9999, *[0] * (long - 1), 9999], rate=rate)) is None
    assert kept + 2 == len(after(wav([9999, *[0] * long, 9999], rate=rate)))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([0, 100, 131, 9000]), st.integers(1, 3 * LONG)), max_size=8))
def test_a_second_pass_changes_nothing(runs: list[tuple[int, int]]) -> None:
    """What is left is short enough; loud samples are all there, in their order (R104)."""
    samples = [level for level, length in runs for _ in range(length)]
    once = after(wav(samples))

    assert once == after(wav(once))
    assert [x for x in samples if abs(x) > 130] == [x for x in once if abs(x) > 130]
    assert len(samples) - len(once) == removed(wav(samples))


def removed(found: Wav) -> int:
    shortened = shorten_pauses(found)
    return 0 if shortened is None else shortened.removed_frames
