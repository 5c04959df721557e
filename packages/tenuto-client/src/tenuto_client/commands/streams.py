"""Writes to stdout even if it is closed, full, a broken pipe, or in an encoding that lacks characters."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

BROKEN_PIPE = 141
"""The exit code after a broken pipe: 128 + SIGPIPE, as in a shell."""


def prepare() -> None:
    """Make streams escape characters that their encoding lacks; replace closed ones by /dev/null."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            null = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open until the process exits
            setattr(sys, name, null)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(content: str | bytes) -> None:
    """Write to stdout and flush. Raises BrokenPipeError, or an OSError that names stdout."""
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
    """Stop Python from reporting a broken pipe again at exit; returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE
