"""Samples as they leave the model made fit to stand beside each other, and WAV bytes. Knows no text and no
model."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr

Samples = npt.NDArray[np.float32]

SAMPLE_RATE = 24_000
PEAK_LIMIT = 10 ** (-1.3 / 20)
"""What no sample, and nothing between two samples, is higher than: what a player or an encoder makes of the
sound stays under -1 dBFS."""
FINER = 4
"""How much finer than the samples the peaks are looked for."""
PEAK_BLOCK, PEAK_REACH = SAMPLE_RATE // 1000, 10
"""A peak is turned down in blocks of a millisecond, and so are so many before and after it, gradually: slower
than a voice swings, so that its shape is kept."""
QUIET = 0.004
"""Samples under it (-48 dB) count as silence at the edges."""
LEAD_MS, TAIL_MS = 40, 90
"""How much of the model's own silence stays before and after the sound, so that no consonant is cut."""
FADE_MS = 5


def finished(samples: Samples, gain: float = 1.0) -> Samples:
    """Cut the model's silence at both ends down to a little, fade the cut edges, make the rest louder by the
    gain, and keep its peaks under the limit.

    The model leaves up to half a second of silence at each end; the pause between segments is the caller's to
    choose.
    """
    samples = np.array(_trimmed(samples), dtype=np.float32)
    fade = min(frames(FADE_MS), samples.size // 2)
    if fade:
        ramp = np.linspace(0, 1, fade, dtype=np.float32)
        samples[:fade] *= ramp
        samples[-fade:] *= ramp[::-1]
    return limited(samples * np.float32(gain))


def limited(samples: Samples) -> Samples:
    """The samples with their peaks turned down to the limit; those that have no such peak as they are."""
    blocks = -(-samples.size // PEAK_BLOCK)
    between = np.zeros(blocks * PEAK_BLOCK * FINER, np.float32)
    found = np.abs(soxr.resample(samples, SAMPLE_RATE, FINER * SAMPLE_RATE))[: between.size]
    between[: found.size] = found
    peaks = between.reshape(blocks, PEAK_BLOCK * FINER).max(axis=1)
    if peaks.max(initial=0) <= PEAK_LIMIT:
        return samples
    wanted = np.pad(PEAK_LIMIT / np.maximum(peaks, PEAK_LIMIT), 2 * PEAK_REACH, constant_values=1)
    least = np.lib.stride_tricks.sliding_window_view(wanted, 2 * PEAK_REACH + 1).min(axis=1)
    # Nothing at its ends: where a peak is, every block that counts has been turned down for it.
    weights = np.hanning(2 * PEAK_REACH + 1)
    smooth = np.convolve(least, weights / weights.sum(), "valid")
    middles = (np.arange(blocks) + 0.5) * PEAK_BLOCK
    return (samples * np.interp(np.arange(samples.size), middles, smooth)).astype(np.float32)


def pcm(samples: Samples) -> bytes:
    """Samples in -1..1 as little-endian 16-bit integers."""
    return np.round(samples * 32767).astype("<i2").tobytes()


def silence(duration_ms: int) -> bytes:
    """16-bit silence."""
    return bytes(2 * frames(duration_ms))


def wav(content: bytes) -> bytes:
    """A mono 16-bit WAV file with the canonical header of 44 bytes."""
    rate, width = SAMPLE_RATE, 2
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * width, width, 8 * width)
    chunk = struct.pack("<4sI", b"data", len(content))
    return struct.pack("<4sI4s", b"RIFF", 36 + len(content), b"WAVE") + form + chunk + content


def frames(duration_ms: int) -> int:
    """The number of samples in this time."""
    return SAMPLE_RATE * duration_ms // 1000


def duration_ms(content: bytes) -> int:
    """How long 16-bit samples last."""
    return round(len(content) / 2 * 1000 / SAMPLE_RATE)


def _trimmed(samples: Samples) -> Samples:
    loud: npt.NDArray[Any] = np.flatnonzero(np.abs(samples) > QUIET)
    if not loud.size:
        return samples[:0]
    start = max(0, int(loud[0]) - frames(LEAD_MS))
    return samples[start : int(loud[-1]) + 1 + frames(TAIL_MS)]
