"""Helpers that read sound files as the service does: decoding in a child, its peak memory."""

import io
import os
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import soundfile

from servers.flacs import inspected
from tenuto.features.recognition.recording import Decoded, Decoding
from tenuto.features.recognition.sound_files import to_flac


def decode(content: bytes, output: int, duration_ms: int | None = None) -> Decoded:
    """What the child decodes."""
    if duration_ms is None:
        duration_ms = inspected(content).duration_ms
    with closing(Decoding(output, duration_ms)) as decoding:
        for at in range(0, len(content), 1 << 20):
            decoding.feed(content[at : at + (1 << 20)])
        return decoding.finish()


def as_pcm(
    content: bytes, duration_ms: int | None = None
) -> tuple[Decoded, np.ndarray[tuple[int], np.dtype[np.int16]]]:
    """What the child decodes, and the samples that it writes."""
    with tempfile.TemporaryFile() as file:
        decoded = decode(content, file.fileno(), duration_ms)
        file.seek(0)
        return decoded, np.frombuffer(file.read(), "<i2")


def converted(content: bytes) -> tuple[Any, int]:
    """Convert a sound file to FLAC; returns its samples and the number of frames that was reported."""
    with tempfile.TemporaryFile(buffering=0) as source, tempfile.TemporaryFile(buffering=0) as target:
        source.write(content)
        frames = to_flac(cast(BinaryIO, source), cast(BinaryIO, target))
        target.seek(0)
        samples, rate = soundfile.read(io.BytesIO(target.read()), dtype="int16")
    assert 16_000 == rate
    return samples, frames


class Peak:
    """The most memory that children which run this module took meanwhile, as far as looks in between show it.

    Not `ru_maxrss`: of a child, it counts what its parent had before the child became another program.
    """

    def __init__(self, module: bytes) -> None:
        self.bytes = 0
        self._module = module
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.005):
            for child in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
                for pid in child.read_text().split():
                    self._look(pid)

    def _look(self, pid: str) -> None:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        if self._module in command and "VmHWM:" in status:
            self.bytes = max(self.bytes, int(status.split("VmHWM:")[1].split()[0]) << 10)
