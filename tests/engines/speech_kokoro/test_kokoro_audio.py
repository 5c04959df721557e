"""Samples made fit to stand beside each other, equally loud; and the meter that says so is right."""

import io
import wave

import numpy as np
import pytest
from scripts.fit_loudness import measured
from scripts.loudness import loudness, true_peak

from tenuto.features.voices.builtin import built_in_voices
from tenuto_kokoro import audio
from tenuto_kokoro.styles import ORIGINAL_VOICES
from tenuto_kokoro.voices import GAINS, mean_gain


def test_a_wav_file_is_canonical() -> None:
    """Other readers find mono 16-bit samples at 24 kHz behind a header of 44 bytes."""
    content = audio.wav(audio.silence(1000))
    with wave.open(io.BytesIO(content)) as opened:
        found = (opened.getnchannels(), opened.getsampwidth(), opened.getframerate(), opened.getnframes())

    assert (1, 2, 24_000, 24_000) == found
    assert 44 + 48_000 == len(content)


def test_peaks_that_would_clip_are_turned_down_and_nothing_else() -> None:
    at = np.arange(24_000)
    quiet = 0.3 * np.sin(at * 2 * np.pi * 150 / 24_000)
    burst = 1.5 * np.sin(at * 2 * np.pi * 6_000 / 24_000 + np.pi / 4) * (abs(at - 12_000) < 60)
    sound = (quiet + burst).astype(np.float32)
    made = audio.limited(sound)
    far = abs(at - 12_000) > audio.frames(25)

    assert np.abs(sound).max() > 1.2
    assert true_peak(made, 24_000) <= -1.0
    assert np.array_equal(sound[far], made[far])
    assert np.array_equal(quiet.astype(np.float32), audio.limited(quiet.astype(np.float32)))


def test_a_gain_makes_a_segment_louder() -> None:
    sound = (0.1 * np.sin(np.linspace(0, 3000, 24_000))).astype(np.float32)

    assert np.allclose(2.5 * audio.finished(sound), audio.finished(sound, 2.5), atol=1e-6)


def test_silence_at_the_edges_is_cut_and_the_cut_is_faded() -> None:
    rng = np.random.default_rng(1)
    sound = np.concatenate([np.zeros(24_000), rng.uniform(-0.5, 0.5, 24_000), np.full(24_000, 0.003)])
    made = audio.finished(sound.astype(np.float32))

    assert audio.frames(1000 + audio.LEAD_MS + audio.TAIL_MS) == made.size
    assert 0 == made[0] == made[-1]


@pytest.mark.parametrize(("level_db", "rate"), [(0.0, 48_000), (-20.0, 24_000), (-40.0, 44_100)])
def test_the_meter_reads_a_calibration_tone_as_its_standard_says(level_db: float, rate: int) -> None:
    """BS.1770-5: a sine of 997 Hz in one channel reads 3.01 LU below its level; silence is not counted."""
    tone = 10 ** (level_db / 20) * np.sin(2 * np.pi * 997 * np.arange(3 * rate) / rate)

    assert abs(loudness(tone, rate) - (level_db - 3.01)) < 0.02
    assert abs(loudness(np.concatenate([tone, np.zeros(rate * 2)]), rate) - (level_db - 3.01)) < 0.3
    assert float("-inf") == loudness(np.zeros(rate), rate) == true_peak(np.zeros(rate), rate)


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
