"""The `tenuto` command at a terminal."""

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

from servers.service import TENUTO


def at_a_terminal(
    answer: bytes, *words: str, folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Its exit code and what was shown to a person who types the answer once they are asked yes or no."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [TENUTO, *words],
        cwd=folder,
        env=os.environ | dict(variables or {}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:
            break  # Linux: EIO once the last holder of the other end is gone.
        if not block:
            break
        shown += block
        if answer and (b"[y/N]" in shown or b"[Y/n]" in shown):
            os.write(ours, answer)
            answer = b""
    os.close(ours)
    return process.wait(60), shown.decode()
