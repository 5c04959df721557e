"""Stores recordings of voices as files, which the package requires.

The package caches a file's analysis by file name, and perhaps date: another recording under
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
"""The model uses only this much of a recording."""
PREFIX = "tenuto-indextts-"


class References:
    """A folder of recordings; `original` is used if a job names no voice."""

    def __init__(self, original: Path) -> None:
        self._original = original
        try:
            _seconds(original.read_bytes())
        except (OSError, EOFError, wave.Error) as error:
            fault = f"options.reference: {original} is not a readable WAV file: {error}"
            raise EngineError("engine_not_ready", fault) from error
        _remove_left()
        # A killed process leaves its folder, which the next one recognises by the process id.
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-")

    def path_of(self, content: bytes | None) -> tuple[Path, list[str]]:
        """The file of a recording, or of the original voice for None; and warnings."""
        if content is None:
            return self._original, _warnings(self._original.read_bytes())
        path = Path(self._folder.name) / f"{hashlib.sha256(content).hexdigest()}.wav"
        path.write_bytes(content)
        os.utime(path, (0, 0))
        return path, _warnings(content)

    def forget(self) -> None:
        """Remove all recordings of callers' voices."""
        for path in Path(self._folder.name).iterdir():
            path.unlink()


def _remove_left() -> None:
    """Remove the folders of processes that no longer exist."""
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
