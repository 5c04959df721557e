"""Styles: how the model is to sound, chosen by the voice that a run asks for.

A style is an array [510, 1, 256]: a row for each number of symbols, the first 128 numbers of a row for the
timbre, the last 128 for rhythm and melody. Knows no text, and nothing of who may use which voice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

Style = npt.NDArray[np.float32]

STYLE_SHAPE = (510, 1, 256)
TIMBRE, PROSODY = slice(0, 128), slice(128, 256)
"""The two halves of a row: the one shapes the sound itself, the other durations, pitch and loudness."""

ORIGINAL_VOICES = MappingProxyType(
    {"zh": "zf_xiaoxiao", "en": "af_heart", "ja": "jf_alpha", "es": "ef_dora", "ar": "em_alex"}
)
"""The preset that speaks where the caller names no voice, for each language. Changing one changes what
callers hear."""


class Styles:
    """The model's own voices, read from a folder of `NAME.bin` when they are first used."""

    def __init__(self, voices: Path) -> None:
        self._voices = voices
        self._presets: dict[str, Style] = {}

    def style_of(self, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]) -> Style:
        """The style of a run: the original voice of its language, or the voice that it names."""
        voice = parameters.get("voice")
        if voice is None:
            return self.preset(ORIGINAL_VOICES[parameters["lang"]])
        return self.preset(voice["profile"]["style"])

    def preset(self, name: str) -> Style:
        """The style of a built-in voice; the caller must not write to it."""
        if name not in self._presets:
            style = np.fromfile(self._voices / f"{name}.bin", dtype="<f4").reshape(STYLE_SHAPE)
            self._presets[name] = style.astype(np.float32)
        return self._presets[name]
