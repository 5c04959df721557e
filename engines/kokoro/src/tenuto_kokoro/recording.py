"""Recordings of voices: admitted PCM16 WAV files to samples. Knows no speech."""

from __future__ import annotations

import struct

import numpy as np
import soxr

from .audio import Samples


def samples_of(content: bytes) -> tuple[Samples, int]:
    """The samples of a file, -1..1 with its channels averaged, and their rate.

    What was admitted is well-formed; of anything else nothing is heard.
    """
    channels, rate, at = 1, 0, 12
    while at + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, at)
        if name == b"fmt ":
            _, channels, rate = struct.unpack_from("<HHI", content, at + 8)
        if name == b"data":
            kept = min(size, len(content) - at - 8) // (2 * channels) * channels
            frames = np.frombuffer(content, "<i2", kept, at + 8).reshape(-1, channels)
            return (frames.mean(axis=1) / 32768).astype(np.float32), rate
        at += 8 + size + size % 2
    return np.zeros(0, np.float32), rate or 1


def resampled(content: bytes, rate: int) -> Samples:
    """The samples of a file at another rate."""
    samples, own_rate = samples_of(content)
    return np.asarray(soxr.resample(samples, own_rate, rate), np.float32)
