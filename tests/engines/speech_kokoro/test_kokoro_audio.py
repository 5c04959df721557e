"""Samples made fit to stand beside each other."""

import io
import wave

import numpy as np

from tenuto_kokoro import audio


def test_a_wav_file_is_canonical() -> None:
    """Other readers find mono 16-bit samples at 24 kHz behind a header of 44 bytes."""
    content = audio.wav(audio.silence(1000))
    with wave.open(io.BytesIO(content)) as opened:
        found = (opened.getnchannels(), opened.getsampwidth(), opened.getframerate(), opened.getnframes())

    assert (1, 2, 24_000, 24_000) == found
    assert 44 + 48_000 == len(content)


def test_a_segment_that_would_clip_is_scaled_as_a_whole() -> None:
    """The peak stays under the limit and the shape is kept."""
    loud = np.sin(np.linspace(0, 300, 24_000)).astype(np.float32) * 1.7
    made = audio.finished(loud)

    assert abs(float(np.abs(made).max()) - audio.PEAK_LIMIT) < 1e-3


def test_silence_at_the_edges_is_cut_and_the_cut_is_faded() -> None:
    """A little of the silence stays; the first and the last sample are zero, so no joint clicks."""
    rng = np.random.default_rng(1)
    sound = np.concatenate([np.zeros(24_000), rng.uniform(-0.5, 0.5, 24_000), np.full(24_000, 0.003)])
    made = audio.finished(sound.astype(np.float32))

    assert audio.frames(1000 + audio.LEAD_MS + audio.TAIL_MS) == made.size
    assert 0 == made[0] == made[-1]


def test_silence_alone_is_nothing() -> None:
    """A segment without a sound has no samples."""
    assert 0 == audio.finished(np.zeros(1000, np.float32)).size
