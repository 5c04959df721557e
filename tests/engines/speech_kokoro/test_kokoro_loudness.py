"""Every voice is equally loud in every language, and nothing clips; and the meter that says so is right."""

from typing import Any

import numpy as np
import pytest
from scripts.fit_loudness import TARGET_LUFS, measured
from scripts.loudness import loudness, true_peak

from engines.speech_kokoro.test_kokoro_engine import RecordedRun, engine
from tenuto.features.voices.builtin import built_in_voices
from tenuto_kokoro import audio
from tenuto_kokoro.styles import ORIGINAL_VOICES
from tenuto_kokoro.voices import GAINS, mean_gain

TOLERANCE_LU = 1.5
HIGHEST_DBTP = -1.0
TEXTS = {
    "zh": "我们明天早上八点在车站门口见面，别忘了带票。",
    "en": "The old bridge was closed for a week, so everybody took the ferry.",
    "ja": "駅の前に新しい本屋ができて、毎日たくさんの人が来ます。",
    "es": "El tren sale a las ocho, y mi hermana todavía no ha llegado.",
    "ar": "ذهبنا إلى السوق في الصباح واشترينا الخبز والفاكهة.",
}
"""None is among those that the gains were fitted on."""


@pytest.mark.parametrize(("level_db", "rate"), [(0.0, 48_000), (-20.0, 24_000), (-40.0, 44_100)])
def test_the_meter_reads_a_calibration_tone_as_its_standard_says(level_db: float, rate: int) -> None:
    """BS.1770-5: a sine of 997 Hz in one channel reads 3.01 LU below its level; silence is not counted."""
    tone = 10 ** (level_db / 20) * np.sin(2 * np.pi * 997 * np.arange(3 * rate) / rate)

    assert abs(loudness(tone, rate) - (level_db - 3.01)) < 0.02
    assert abs(loudness(np.concatenate([tone, np.zeros(rate * 2)]), rate) - (level_db - 3.01)) < 0.3
    assert float("-inf") == loudness(np.zeros(rate), rate) == true_peak(np.zeros(rate), rate)


def test_the_meter_finds_a_peak_between_two_samples() -> None:
    """A sine of a quarter of the rate, sampled beside its peaks: 3 dB higher than any sample."""
    tone = np.sin(np.pi / 2 * np.arange(24_000) + np.pi / 4)

    assert abs(np.abs(tone).max() - np.sqrt(0.5)) < 1e-9
    assert abs(true_peak(tone[: 24_000 // 2], 24_000)) < 0.5


def test_every_voice_has_a_gain_in_every_language() -> None:
    """A built-in voice that is new needs `scripts/fit_loudness.py`; one like a recording gets the mean."""
    voices = {
        str(voice.profile["style"])
        for voice in built_in_voices()
        if voice.kind != "emotion" and voice.profile
    }

    assert dict.fromkeys(ORIGINAL_VOICES, voices | {*ORIGINAL_VOICES.values()}) == {
        lang: {*gains} for lang, gains in GAINS.items()
    }
    assert {(lang, voice) for lang, voice, _ in measured(1)} == {
        (lang, voice) for lang, gains in GAINS.items() for voice in gains
    }
    assert min(GAINS["en"].values()) < mean_gain("en") < max(GAINS["en"].values())


@pytest.mark.real_engine
@pytest.mark.variant("model")
@pytest.mark.parametrize(
    ("lang", "style"),
    [
        *((lang, None) for lang in TEXTS),
        *(("en", "am_michael"), ("zh", "zm_yunyang"), ("es", "jf_gongitsune")),
    ],
)
def test_speech_is_as_loud_as_all_other_speech(lang: str, style: str | None) -> None:
    """Whichever voice speaks whichever language; and the bytes of the segments are those of the file."""
    voice: dict[str, Any] = {"voice": {"profile": {"style": style}}} if style else {}
    run = RecordedRun(lang=lang, text=TEXTS[lang], stream=True, interval_silence=0, **voice)
    content = engine().run(run).content[44:]
    samples = np.frombuffer(content, "<i2") / 32768

    assert abs(loudness(samples, audio.SAMPLE_RATE) - TARGET_LUFS) <= TOLERANCE_LU
    assert true_peak(samples, audio.SAMPLE_RATE) <= HIGHEST_DBTP
    assert content == b"".join(segment[44:] for segment in run.segments)
