"""A process that runs lives of one shape, one after the other, with a database server of its own.

As a program, `python -m lab.faults.runner SHAPE`, it reads what to run from its standard input, a line of
JSON
for each life, and answers each with a line: the life's result and the digests of what its clients downloaded.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from lab.faults import plan
from lab.faults.life import Result, live
from lab.faults.plan import Shape
from lab.faults.seen import Book
from lab.faults.works import LARGE_MINUTES, LONG_MINUTES, Media
from lab.shared import ROOT

from servers.postgres import start_postgres

GONE_S = 60.0


@dataclass(frozen=True)
class Asked:
    """A life: its faults are numbered from `first` on; `wanted` of them shall hit, within `seconds`."""

    seed: int
    first: int
    drawn: int
    wanted: int
    seconds: float
    folder: str


class Runner:
    """Such a process, as whoever asks it sees it."""

    def __init__(self, shape: Shape) -> None:
        self.shape: Shape = shape
        words = [sys.executable, "-m", "lab.faults.runner", shape]
        self._process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def live(self, asked: Asked) -> tuple[Result, Mapping[str, str]]:
        """A life and the digests of its downloads, by group. EOFError if the process broke off."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(asked)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise EOFError(f"{self.shape}: the process that ran {asked} has ended")
        answer = json.loads(line)
        return _result(answer["result"]), answer["digests"]

    def stop(self) -> None:
        """It ends with its servers; a life that is still on is broken off."""
        self._process.terminate()
        try:
            self._process.wait(GONE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


def run(shape: Shape, asked: Asked, server: Any, book: Book) -> Result:
    """One life, here."""
    numbers = range(asked.first, asked.first + asked.drawn)
    return live(
        Path(asked.folder),
        server,
        [plan.draw(asked.seed, number, shape) for number in numbers],
        wanted=asked.wanted,
        shape=shape,
        seed=f"{asked.seed}/{asked.first}",
        book=book,
        until=time.monotonic() + asked.seconds,
    )


def media(shape: Shape) -> Media:
    """What clients upload: where bytes go up in parts, the long recording is larger than one."""
    return Media.make(LARGE_MINUTES if shape == "s3" else LONG_MINUTES)


def main() -> None:
    """Run lives until nobody asks for more."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shape = cast(Shape, sys.argv[1])
    # Only answers go where they are read.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = None if shape == "sqlite" else start_postgres()
    book = Book(media(shape))
    try:
        for line in sys.stdin:
            result = _whole(shape, Asked(**json.loads(line)), server, book)
            answers.write(json.dumps({"result": result.dump(), "digests": book.digests()}) + "\n")
            answers.flush()
    finally:
        if server is not None:
            server.stop()


def _whole(shape: Shape, asked: Asked, server: Any, book: Book) -> Result:
    """A life; an error of the campaign's own is a finding, so that the report says what it was."""
    try:
        return run(shape, asked, server, book)
    except Exception:
        return Result(asked.first, findings=[f"the life broke off: {traceback.format_exc()}"])


def _result(fields: dict[str, Any]) -> Result:
    result = Result(fields["first"])
    for name, value in fields.items():
        setattr(result, name, Counter(value) if isinstance(getattr(result, name), Counter) else value)
    return result


if __name__ == "__main__":
    main()
