"""The style of a run, chosen by the voice it asks for. Knows no text, and not who may use which voice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from .likeness import Likeness
from .styles import ORIGINAL_VOICES, Style, read_style

SILENT_WARNING = "The voice's recording is silent: the original voice speaks."


GAINS: Mapping[str, Mapping[str, float]] = json.loads(
    Path(__file__).with_name("gains.json").read_text("utf-8")
)
"""By language and built-in voice: how much louder than the model's own its speech is made, so that all are
equally loud. Written by `scripts/fit_loudness.py`."""


def mean_gain(lang: str) -> float:
    """For a voice like a recording, which lies among the built-in ones."""
    mean: float = prod(GAINS[lang].values()) ** (1 / len(GAINS[lang]))
    return mean


class Voices:
    """The built-in voices, read when they are first used, and those that recordings ask for."""

    def __init__(self, voices: Path, encoder: Path) -> None:
        self._voices = voices
        self._presets: dict[str, Style] = {}
        self._likeness = Likeness(encoder, voices)

    def style_of(
        self, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]
    ) -> tuple[Style, float, list[str]]:
        """The style of a run, its gain, and warnings: the original voice of its language, or the voice that
        it names, which is a built-in one or one like a recording."""
        lang = parameters["lang"]
        voice = parameters.get("voice")
        name = ORIGINAL_VOICES[lang] if voice is None else voice["profile"].get("style")
        if name is not None:
            return self._preset(name), GAINS[lang].get(name) or mean_gain(lang), []
        found = self._likeness.style_of(inputs["voice"])
        if found is not None:
            return found, mean_gain(lang), []
        original = ORIGINAL_VOICES[lang]
        return self._preset(original), GAINS[lang][original], [SILENT_WARNING]

    def _preset(self, name: str) -> Style:
        if name not in self._presets:
            self._presets[name] = read_style(self._voices, name)
        return self._presets[name]
