"""How long the speech is: the search for a speed, and the real model's lengths at every pace."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.speech_kokoro.test_kokoro_engine import engine, spoken
from tenuto.features.models.cache import default_cache
from tenuto_engine import Result
from tenuto_kokoro import prosody
from tenuto_kokoro.pace import FASTEST, speed_of
from tenuto_kokoro.styles import read_style

SENTENCES = {
    "zh": "他把手机忘在出租车上了。",
    "en": "The bridge had to be repaired.",
    "ja": "歴史を勉強しています。",
    "es": "Todos entregaron el trabajo a tiempo.",
    "ar": "المدرسة بالقرب من بيتنا.",
}


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


@cache
def at_pace(lang: str, factor: float) -> Result:
    return spoken(SENTENCES[lang], lang=lang, duration_factor=factor)


@pytest.mark.real_engine
@pytest.mark.variant("model")
@pytest.mark.parametrize(
    ("lang", "factor", "tolerance"),
    [*((lang, 0.5, 0.08) for lang in SENTENCES), ("ar", 2.0, 0.1)],
)
def test_the_length_is_scaled_and_the_pitch_stays(lang: str, factor: float, tolerance: float) -> None:
    """In every language, to 10 % (R75); played at another rate, the pitch would move by an octave (R76).

    Half the length leaves the melody too few frames to be quite the same, and at twice the length the voice
    of Arabic, which is the mean of two, is 9 % lower.
    """
    usual, scaled = (at_pace(lang, at) for at in (1.0, factor))

    assert abs((scaled.duration_ms or 0) / (usual.duration_ms or 1) / factor - 1) < 0.1
    assert abs(median_pitch(scaled) / median_pitch(usual) - 1) < tolerance


def median_pitch(result: Result) -> float:
    samples = np.frombuffer(result.content[44:], "<i2") / 32768
    return prosody.median_hz(samples, 24_000)


@pytest.mark.real_engine
@pytest.mark.variant("model")
def test_the_model_part_gives_the_durations_of_the_whole_model() -> None:
    """The part that is cut out of the file computes what the whole model speaks."""
    synthesis = engine()._synthesis
    style = read_style(default_cache() / "kokoro-voices", "af_heart")
    phonemes = "hˈɛlO, hˌW ɑɹ ju?"
    durations = synthesis.durations(phonemes, style)
    spoken_frames = len(synthesis.speak(phonemes, style, 1.0)) / 600

    assert spoken_frames == np.maximum(1, np.rint(durations)).sum()
