"""Styles: how the model is to sound, and the built-in ones in their files.

A style is an array [510, 1, 256]: a row for each number of symbols, the first 128 numbers of a row for the
timbre, the last 128 for rhythm and melody. Knows no text and no recording.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Style = npt.NDArray[np.float32]

STYLE_SHAPE = (510, 1, 256)
TIMBRE, PROSODY = slice(0, 128), slice(128, 256)
"""The two halves of a row: the one shapes the sound itself, the other durations, pitch and loudness."""

ORIGINAL_VOICES = MappingProxyType(
    {"zh": "zf_xiaoxiao", "en": "af_heart", "ja": "jf_alpha", "es": "ef_dora", "ar": "if_sara+hf_alpha"}
)
"""The preset, or the presets whose mean it is, that speaks where the caller names no voice, for each
language. Changing one changes what callers hear. No preset was trained on Arabic; an Italian and a Hindi
voice have its long vowels and doubled consonants, and their mean is the easiest to understand
(docs/decisions/0067)."""


def read_style(voices: Path, name: str) -> Style:
    """A built-in voice, from a folder of `NAME.bin`; of NAME+NAME, the mean."""
    read = [np.fromfile(voices / f"{each}.bin", dtype="<f4").reshape(STYLE_SHAPE) for each in name.split("+")]
    mean: Style = np.mean(read, axis=0, dtype=np.float32)
    return mean
