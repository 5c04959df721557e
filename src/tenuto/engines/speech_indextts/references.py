"""Recordings of voices as files, which is how the package takes them. Knows no model.

The package remembers what it made of a file by the file's name alone: another recording under the same name
would speak with the voice before it. So a file is named by what it holds.
"""

from __future__ import annotations

import hashlib
import io
import wave
from pathlib import Path

from tenuto_host import EngineError

HEARD_S = 15
"""The model hears no more of a recording."""
KEPT = 32
"""So many recordings stay; they are a few hundred kilobytes each."""


class References:
    """A folder of recordings; `original` speaks where a job names no voice."""

    def __init__(self, folder: Path, original: Path) -> None:
        self._folder = folder
        self._original = original
        try:
            _seconds(original.read_bytes())
        except (OSError, EOFError, wave.Error) as error:
            fault = f"options.reference: {original} is no WAV file that can be read: {error}"
            raise EngineError("engine_not_ready", fault) from error

    def path_of(self, content: bytes | None) -> tuple[Path, list[str]]:
        """The file that holds a recording, None standing for the original voice's; and warnings."""
        if content is None:
            return self._original, _warnings(self._original.read_bytes())
        path = self._folder / f"{hashlib.sha256(content).hexdigest()}.wav"
        if path.exists():
            path.touch()
        else:
            self._make_room()
            path.write_bytes(content)
        return path, _warnings(content)

    def _make_room(self) -> None:
        files = sorted(self._folder.iterdir(), key=lambda file: file.stat().st_mtime_ns)
        for file in files[: max(0, len(files) - KEPT + 1)]:
            file.unlink()


def _warnings(content: bytes) -> list[str]:
    seconds = _seconds(content)
    if seconds <= HEARD_S:
        return []
    return [f"The recording lasts {seconds:.1f} s; the model hears its first {HEARD_S} s."]


def _seconds(content: bytes) -> float:
    with wave.open(io.BytesIO(content)) as file:
        return float(file.getnframes() / file.getframerate())
