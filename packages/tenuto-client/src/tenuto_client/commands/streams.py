"""stdout as it may be: closed, full, left by its reader, of a poor encoding. It knows not what is told."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

LEFT = 141
"""How a command ends whose reader has gone: as a shell tells of SIGPIPE."""


def prepare() -> None:
    """A letter that an encoding lacks is written as its number; a closed stream takes all and keeps none."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nothing = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - while the process lives
            setattr(sys, name, nothing)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(content: str | bytes) -> None:
    """Write to stdout, at once. Raises BrokenPipeError, or an OSError that names stdout."""
    try:
        if isinstance(content, str):
            sys.stdout.write(content)
        else:
            sys.stdout.buffer.write(content)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, "stdout") from error


def leave() -> int:
    """What to do when the reader has gone, for Python would complain once more at its end; the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return LEFT
