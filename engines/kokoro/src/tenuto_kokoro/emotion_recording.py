"""The emotion of a recording: how its prosody differs from what is usual. Knows no model and no list of
emotions.

Who speaks is not known, so neither is his usual pitch: it is judged by the usual pitches of men and women.
Loudness cannot be judged at all, for nobody knows how far the microphone was.
"""

from __future__ import annotations

import numpy as np

from . import prosody
from .prosody import Numbers
from .recording import resampled

RATE = 16_000
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
    found = prosody.measured(resampled(content, RATE).astype(np.float64), RATE)
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
