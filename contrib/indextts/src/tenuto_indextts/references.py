"""Recordings of voices as files, which is how the package takes them. Knows no model.

The package remembers what it made of a file by the file's name, and perhaps its date: another recording under
the same name would speak with the voice before it. So a file is named by what it holds, and is always as old.
It is a caller's voice: it is there while it is heard, and no longer.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import tempfile
import wave
from pathlib import Path

from tenuto_engine import EngineError

HEARD_S = 15
"""The model hears no more of a recording."""
PREFIX = "tenuto-indextts-"


class References:
    """A folder of recordings; `original` speaks where a job names no voice."""

    def __init__(self, original: Path) -> None:
        self._original = original
        try:
            _seconds(original.read_bytes())
        except (OSError, EOFError, wave.Error) as error:
            fault = f"options.reference: {original} is no WAV file that can be read: {error}"
            raise EngineError("engine_not_ready", fault) from error
        _remove_left()
        # A process that is killed leaves its folder; the next one knows it by the number.
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-")

    def path_of(self, content: bytes | None) -> tuple[Path, list[str]]:
        """The file that holds a recording, None standing for the original voice's; and warnings."""
        if content is None:
            return self._original, _warnings(self._original.read_bytes())
        path = Path(self._folder.name) / f"{hashlib.sha256(content).hexdigest()}.wav"
        path.write_bytes(content)
        os.utime(path, (0, 0))
        return path, _warnings(content)

    def forget(self) -> None:
        """Remove what callers' voices there are."""
        for path in Path(self._folder.name).iterdir():
            path.unlink()


def _remove_left() -> None:
    """The folders of processes that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        number = folder.name.removeprefix(PREFIX).split("-")[0]
        with contextlib.suppress(OSError, ValueError):
            if not _is_alive(int(number)):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _warnings(content: bytes) -> list[str]:
    seconds = _seconds(content)
    if seconds <= HEARD_S:
        return []
    return [f"The recording lasts {seconds:.1f} s; the model hears its first {HEARD_S} s."]


def _seconds(content: bytes) -> float:
    with wave.open(io.BytesIO(content)) as file:
        return float(file.getnframes() / file.getframerate())
