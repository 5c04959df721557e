"""A campaign: lives one after the other until enough faults have hit; each finished life is recorded.

A campaign that was ended goes on where it stopped: the file of its seed says which lives are done.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from faults import plan
from faults.life import Result, live
from faults.plan import Shape
from faults.seen import Book
from faults.works import LARGE_MINUTES, LONG_MINUTES, Media
from servers.postgres import PostgresServer, start_postgres

LIFE = 100
"""Faults in one life: long enough for much to happen, short enough to reproduce."""

DRAWN = 3
"""How many faults are drawn for each wanted one: some have no target."""


@dataclass
class Campaign:
    """One shape's lives, what is done of them, and where that is written down."""

    shape: Shape
    seed: int
    count: int
    folder: Path
    lives: list[Result] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.record = self.folder / f"{self.shape}-{self.seed}.jsonl"
        if self.record.exists():
            lines = self.record.read_text("utf-8").splitlines()
            self.lives = [_result(json.loads(line)) for line in lines]

    @property
    def words(self) -> list[str]:
        """The options that ask for this shape alone."""
        return ["--store", "s3"] if self.shape == "s3" else ["--database", self.shape]

    @property
    def faults(self) -> int:
        return sum(life.faults for life in self.lives)

    def run(self, until: float) -> Iterator[Result]:
        """The lives that are left, each when it has ended; none is begun after `until` (monotonic)."""
        server = None if self.shape == "sqlite" else start_postgres()
        book = Book(_media(self.shape))
        try:
            while self.faults < self.count and time.monotonic() < until:
                result = self._live(server, book, until)
                self.lives.append(result)
                with self.record.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result.dump()) + "\n")
                yield result
                if result.findings:
                    return
        finally:
            if server is not None:
                server.stop()

    def _live(self, server: PostgresServer | None, book: Book, until: float) -> Result:
        first = self.lives[-1].next_number if self.lives else 0
        wanted = min(LIFE, self.count - self.faults)
        numbers = range(first, first + DRAWN * wanted)
        return live(
            self.folder / f"{self.shape}-{self.seed}-{first}",
            server,
            [plan.draw(self.seed, number, self.shape) for number in numbers],
            wanted=wanted,
            shape=self.shape,
            seed=f"{self.seed}/{first}",
            book=book,
            until=until,
        )


def recorded(folder: Path) -> list[Campaign]:
    """Every campaign that is written down there, by its shape and seed."""
    named = [file.stem.split("-") for file in sorted(folder.glob("*-*.jsonl"), reverse=True)]
    return [Campaign(cast(Shape, shape), int(seed), 0, folder) for shape, seed in named]


def replay(shape: Shape, seed: int, number: int, folder: Path) -> Result:
    """One fault alone, on a fresh service under the same load."""
    server = None if shape == "sqlite" else start_postgres()
    try:
        return live(
            folder / f"{shape}-{seed}-only-{number}-{time.monotonic_ns()}",
            server,
            [plan.draw(seed, number, shape)],
            wanted=1,
            shape=shape,
            seed=f"{seed}/{number}",
            book=Book(_media(shape)),
            until=time.monotonic() + 600,
        )
    finally:
        if server is not None:
            server.stop()


def _media(shape: Shape) -> Media:
    """Where bytes go up in parts, the long recording is larger than one."""
    return Media.make(LARGE_MINUTES if shape == "s3" else LONG_MINUTES)


def total(lives: list[Result]) -> Result:
    """All lives as one."""
    summed = Result(lives[0].first if lives else 0)
    for life in lives:
        summed.hit += life.hit
        summed.places += life.places
        summed.answers += life.answers
        summed.ends += life.ends
        summed.missed += life.missed
        for kind, seconds in life.seconds.items():
            summed.seconds[kind] += seconds
        summed.by_kill += life.by_kill
        summed.took_s += life.took_s
        summed.starts += life.starts
        summed.findings += life.findings
        summed.rest_s = max(summed.rest_s, life.rest_s)
    return summed


def _result(line: dict[str, Any]) -> Result:
    result = Result(line["first"])
    for name, value in line.items():
        setattr(result, name, Counter(value) if isinstance(getattr(result, name), Counter) else value)
    return result
