"""Converts the model's samples to 16-bit PCM, and makes WAV files."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tenuto_engine import EngineError

SAMPLE_RATE = 22_050
LONGEST_SEGMENT_S = 180
"""The longest audio if the model does not find the end; a segment's text takes about 30 seconds."""


def pcm(samples: Any) -> bytes:
    """One channel of numbers from -32,767 to 32,767 as little-endian 16-bit integers."""
    numbers = np.asarray(samples, dtype=np.float64).reshape(-1)
    if not numbers.size:
        raise EngineError("engine_failed", "The model gave a segment without samples.")
    if not np.isfinite(numbers).all():
        raise EngineError("engine_failed", "The model gave samples that are no numbers.", transient=True)
    if numbers.size > LONGEST_SEGMENT_S * SAMPLE_RATE:
        raise EngineError("engine_failed", "The model did not find the end of a segment.", transient=True)
    return np.round(np.clip(numbers, -32767, 32767)).astype("<i2").tobytes()


def silence(duration_ms: int) -> bytes:
    """16-bit silence."""
    return bytes(2 * (SAMPLE_RATE * duration_ms // 1000))


def wav(content: bytes) -> bytes:
    """A mono 16-bit WAV file with the canonical header of 44 bytes."""
    rate, width = SAMPLE_RATE, 2
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * width, width, 8 * width)
    chunk = struct.pack("<4sI", b"data", len(content))
    return struct.pack("<4sI4s", b"RIFF", 36 + len(content), b"WAVE") + form + chunk + content


def duration_ms(content: bytes) -> int:
    """The duration of 16-bit samples in milliseconds."""
    return round(len(content) / 2 * 1000 / SAMPLE_RATE)
