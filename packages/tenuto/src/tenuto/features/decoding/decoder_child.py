"""A child process that reads a caller's bytes: how it is started, and how its answer is read.

The child is a module that confines itself (`confinement`) before it decodes.
"""

import os
import select
import subprocess
import sys
import time
from functools import cache
from typing import BinaryIO

from tenuto.logs import get_logger

ANSWER_BYTES = 64 * 1024
_INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")

_log = get_logger("tenuto.media")


class DecoderFailed(Exception):
    """The child could not do its work, whatever the bytes are: it did not start, or the disk is full."""


class DecoderEnded(Exception):
    """The child ended without an answer: killed by its limits, by us, or by a fault that the bytes caused."""


class NotReadable(ValueError):
    """The file cannot be read; the message says why, and what can."""


def start_child(
    module: str, *arguments: str, source: int | BinaryIO, output: int
) -> "subprocess.Popen[bytes]":
    """Start a child that reads from `source` and writes to the open file `output`, its first argument.

    It gets nothing else of ours: no keys from the environment, no other file. Raises DecoderFailed.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    _log.info("decoder.started", module=module)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", module, str(output), *arguments],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(output,),
            env=inherited | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
    except OSError as error:
        raise DecoderFailed(f"the decoder could not be started: {error.strerror}") from error


def read_answer(child: "subprocess.Popen[bytes]", seconds: float, *, is_cut: bool = False) -> bytes:
    """All that the child writes; if it takes too long, nothing, and it is killed.

    So it is if it writes too much, unless the answer `is_cut`: then the rest is thrown away.
    """
    assert child.stdout is not None
    fd = child.stdout.fileno()
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    until = time.monotonic() + seconds
    answer = b""
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        more = os.read(fd, ANSWER_BYTES)
        if not more:
            return answer
        answer += more
        if len(answer) > ANSWER_BYTES:
            if not is_cut:
                break
            answer = answer[:ANSWER_BYTES]
    child.kill()
    return b""


@cache
def warn_unconfined(reasons: tuple[str, ...]) -> None:
    """Log, once, which protections the kernel refused to a child."""
    if reasons:
        _log.warning("decoder.not_confined", reasons=list(reasons))
