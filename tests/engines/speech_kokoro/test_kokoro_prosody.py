"""Pitch, loudness and pace measured on samples whose answers are known; the speed for a wished length."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto_kokoro.pace import FASTEST, speed_of
from tenuto_kokoro.prosody import Numbers, measured

RATE = 16_000


def tone(pitch_hz: Numbers, level: Numbers | float = 0.3) -> Numbers:
    """A voice-like sound of ten overtones that follows a pitch, given for each sample."""
    phase = 2 * np.pi * np.cumsum(pitch_hz) / RATE
    sound: Numbers = sum((np.sin(k * phase) / k for k in range(1, 11)), np.zeros_like(phase))
    return level * sound / 2


@pytest.mark.parametrize("pitch_hz", [75.0, 110.0, 220.0, 440.0])
def test_a_steady_pitch_is_found_to_a_tenth_of_a_semitone(pitch_hz: float) -> None:
    found = measured(tone(np.full(RATE, pitch_hz)), RATE)

    assert found is not None
    assert abs(found.pitch - 12 * np.log2(pitch_hz / 100)) < 0.1
    assert found.spread < 0.1


def test_syllables_are_counted_by_their_peaks() -> None:
    """Eight swellings in two seconds are four a second; a pause between does not slow them."""
    swelling = np.sin(np.pi * 4 * np.arange(2 * RATE) / RATE) ** 2 + 0.02
    sound = tone(np.full(2 * RATE, 120.0), 0.4 * swelling)
    found = measured(sound, RATE)
    paused = measured(np.concatenate([sound[:RATE], np.zeros(RATE), sound[RATE:]]), RATE)

    assert found is not None
    assert paused is not None
    assert abs(found.pace - 4) < 0.6
    assert abs(paused.pace - found.pace) < 0.6


@pytest.mark.parametrize("kind", ["nothing", "silence", "noise"])
def test_what_has_no_voice_has_no_prosody(kind: str) -> None:
    noise = 0.1 * np.random.default_rng(1).standard_normal(RATE)
    samples = {"nothing": np.zeros(10), "silence": np.zeros(RATE), "noise": noise}[kind]

    assert measured(samples, RATE) is None


@given(
    st.lists(st.floats(1, 12, width=32), min_size=30, max_size=200), st.floats(0.5, 2), st.floats(0.7, 1.0)
)
def test_the_speed_gives_the_wished_length(durations: list[float], factor: float, speed: float) -> None:
    """Counted as the model counts, the length is right to 6 %, unless every symbol has its least (R75)."""
    found = np.array([20, *durations, 8], np.float32)

    def frames(at: float) -> float:
        return float(np.maximum(1, np.rint(found[1:-1] / at)).sum())

    chosen = speed_of(found, speed, factor)
    wished = factor * frames(speed)

    assert chosen <= FASTEST
    assert abs(frames(chosen) / wished - 1) < 0.06 or wished < 1.1 * len(durations) or len(set(durations)) < 9


def test_without_a_factor_the_speed_is_untouched() -> None:
    assert 0.77 == speed_of(np.array([9, 1.4, 2.6, 9], np.float32), 0.77, 1.0)
