"""The emotion of a recording: how its prosody differs from what is usual. Knows no model and no list of
emotions.

Who speaks is not known, so neither is his usual pitch: it is judged by the usual pitches of men and women.
Loudness cannot be judged at all, for nobody knows how far the microphone was.
"""

from __future__ import annotations

import struct

import numpy as np

from . import prosody
from .prosody import Numbers

REGISTERS = (1.7, 12.4)
"""The usual pitch of men and of women (110 and 205 Hz) in semitones above 100 Hz."""
REGISTER_SPREAD = 3.0
"""How far people of one register are from its middle, in semitones."""
USUAL_SPREAD = 3.2
"""The standard deviation of the pitch of somebody who reads calmly, in semitones."""
USUAL_PACE = 3.7
"""Syllables a second, counted as `prosody` counts them."""


def shift_of(content: bytes) -> Numbers:
    """Pitch, spread, loudness and length of a PCM16 WAV file against the usual; zeros where nobody speaks."""
    samples, rate = _samples(content)
    found = prosody.measured(samples, rate)
    if found is None:
        return np.zeros(4)
    spread = np.log2(max(found.spread, 0.5) / USUAL_SPREAD)
    length = -np.log2(max(found.pace, 1.0) / USUAL_PACE)
    return np.array([_raised(found.pitch), spread, 0.0, length])


def _raised(pitch: float) -> float:
    """By how many semitones the voice is higher than usual: by each register, as likely as it is the voice's.

    Between the registers that is nothing: a high man's voice and a low woman's are the same there.
    """
    distances = pitch - np.array(REGISTERS)
    likely = np.exp(-0.5 * (distances / REGISTER_SPREAD) ** 2) + 1e-9
    return float((likely * distances).sum() / likely.sum())


def _samples(content: bytes) -> tuple[Numbers, int]:
    """The samples of an admitted WAV file, channels averaged, and their rate."""
    channels, rate, at = 1, 0, 12
    while at + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, at)
        if name == b"fmt ":
            _, channels, rate = struct.unpack_from("<HHI", content, at + 8)
        if name == b"data":
            kept = min(size, len(content) - at - 8) // (2 * channels) * channels
            samples = np.frombuffer(content, "<i2", kept, at + 8).reshape(-1, channels)
            return samples.mean(axis=1) / 32768, rate
        at += 8 + size + size % 2
    return np.zeros(0), rate or 1
