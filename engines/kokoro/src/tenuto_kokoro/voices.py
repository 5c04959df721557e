"""The style of a run, chosen by the voice it asks for. Knows no text, and not who may use which voice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .likeness import Likeness
from .styles import ORIGINAL_VOICES, Style, read_style

SILENT_WARNING = "The voice's recording is silent: the original voice speaks."


class Voices:
    """The built-in voices, read when they are first used, and those that recordings ask for."""

    def __init__(self, voices: Path, encoder: Path) -> None:
        self._voices = voices
        self._presets: dict[str, Style] = {}
        self._likeness = Likeness(encoder, voices)

    def style_of(self, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]) -> tuple[Style, list[str]]:
        """The style of a run, and warnings: the original voice of its language, or the voice that it names,
        which is a built-in one or one like a recording."""
        original = ORIGINAL_VOICES[parameters["lang"]]
        voice = parameters.get("voice")
        if voice is None:
            return self._preset(original), []
        if "style" in voice["profile"]:
            return self._preset(voice["profile"]["style"]), []
        found = self._likeness.style_of(inputs["voice"])
        return (self._preset(original), [SILENT_WARNING]) if found is None else (found, [])

    def _preset(self, name: str) -> Style:
        if name not in self._presets:
            self._presets[name] = read_style(self._voices, name)
        return self._presets[name]
