"""Our end of the child process that decodes a FLAC: bytes in, what was found of them out.

The child has seen a caller's bytes: its answer is read within bounds, and its end, however it comes, is an
answer too. Nothing here decodes.
"""

import contextlib
import fcntl
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tenuto.media.flac import MAX_CHANNELS, MAX_DURATION_S, FlacInvalid, FlacSummary

PIPE_BYTES = 1 << 20
"""So much the child may have before it, so that it decodes while we hash the next block."""
STALL_S = 300.0
"""The child takes some bytes within this time, and answers within it after the last; else it is killed."""
ANSWER_BYTES = 64 * 1024

_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which the standard library names on Linux alone
_INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class DecoderFailed(Exception):
    """The child could not do its work, whatever the bytes are: no room for its output, not started."""


class DecoderEnded(Exception):
    """The child ended without an answer: killed by its limits, by us, or by a fault that the bytes caused."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What was decoded of a FLAC."""

    summary: FlacSummary
    pcm_frames: int
    """Of the 16 kHz mono samples."""
    parts: tuple[tuple[int, int], ...]
    """First sample of each part and the one behind its last, among those."""
    unconfined: tuple[str, ...]
    """Which of its protections the kernel has refused to the child, and why."""


class Decoding:
    """One child at work. `output`, an open file, gets 16 kHz mono PCM16 of so many milliseconds at most.

    One thread feeds and finishes; `abandon` may come from any.
    """

    def __init__(self, output: int, duration_ms: int) -> None:
        theirs, self._input = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self._input, _SET_PIPE_SIZE, PIPE_BYTES)
        os.set_blocking(self._input, False)
        self._closing = threading.Lock()
        command = [sys.executable, "-m", "tenuto.media.flac_child", str(output), str(duration_ms)]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        try:
            self._child = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(output,),
                env=inherited | {"OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                start_new_session=True,
            )
        except OSError as error:
            self._close_input()
            raise DecoderFailed(f"the decoder could not be started: {error.strerror}") from error
        finally:
            os.close(theirs)

    @property
    def pid(self) -> int:
        return self._child.pid

    def feed(self, block: bytes) -> None:
        """Hand on the next bytes. A child that has ended takes none: `finish` says why."""
        left = memoryview(block)
        with contextlib.suppress(BrokenPipeError):
            while left and self._input >= 0:
                try:
                    left = left[os.write(self._input, left) :]
                except BlockingIOError:
                    self._wait_until_taken()

    def feed_all(self, blocks: Iterable[bytes]) -> None:
        """Hand on all of them."""
        for block in blocks:
            self.feed(block)

    def finish(self) -> Decoded:
        """What was found, after the last byte. Raises FlacInvalid, DecoderEnded, DecoderFailed."""
        self._close_input()
        answer = self._answer()
        self._child.wait()
        if not answer:
            raise DecoderEnded("it takes too much time or memory to decode")
        return _checked(answer)

    def abandon(self) -> None:
        """End it now; nobody wants its answer."""
        self._child.kill()

    def close(self) -> None:
        """Leave nothing behind, whether it has finished or not."""
        self._close_input()
        self._child.kill()
        self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()

    def _wait_until_taken(self) -> None:
        poll = select.poll()
        poll.register(self._input, select.POLLOUT)
        if not poll.poll(STALL_S * 1000):
            self._child.kill()

    def _close_input(self) -> None:
        with self._closing:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1

    def _answer(self) -> bytes:
        """All that the child says; nothing if it says too much or takes too long."""
        assert self._child.stdout is not None
        fd = self._child.stdout.fileno()
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        until = time.monotonic() + STALL_S
        answer = b""
        while poll.poll(max(0.0, until - time.monotonic()) * 1000):
            more = os.read(fd, ANSWER_BYTES)
            if not more:
                return answer
            answer += more
            if len(answer) > ANSWER_BYTES:
                break
        self._child.kill()
        return b""


def _checked(answer: bytes) -> Decoded:
    """The answer as it must be; the child may not be itself any more."""
    try:
        said: dict[str, Any] = json.loads(answer)
        if "refused" in said:
            raise FlacInvalid(str(said["refused"])[:300])
        if "failed" in said:
            raise DecoderFailed(str(said["failed"])[:300])
        summary = FlacSummary(int(said["sample_rate"]), int(said["channels"]), int(said["frames"]))
        spans = tuple((int(start), int(end)) for start, end in said["parts"])
        unconfined = tuple(str(one)[:300] for one in said["unconfined"])
        found = Decoded(summary, int(said["pcm_frames"]), spans, unconfined)
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, FlacInvalid):
            raise
        raise DecoderEnded("its decoder broke down") from error
    is_sound = 1 <= summary.sample_rate < 1 << 20 and 1 <= summary.channels <= MAX_CHANNELS
    if not is_sound or not 0 < summary.frames <= MAX_DURATION_S * summary.sample_rate:
        raise DecoderEnded("its decoder broke down")
    return found
