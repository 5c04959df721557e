"""A campaign: lives side by side, in a process each, until enough faults have hit or the time is up.

A life's faults have numbers of its own, so lives can be run in any order, beside each other, and in pieces on
several machines. Those that a record holds as clean are left out.
"""

import fcntl
import queue
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from lab.checkout import today
from lab.faults import runner
from lab.faults.life import Result
from lab.faults.plan import Shape
from lab.faults.record import Entry, Record
from lab.faults.runner import Asked, Runner
from lab.faults.seen import Book

from servers.postgres import start_postgres

LIFE = 100
"""Faults in one life: long enough for much to happen, short enough to reproduce."""

DRAWN = 3 * LIFE
"""How many faults are drawn for a life: some have no target. Life 2 has those from 600 on."""

MOST_FINDINGS = 3
"""So many lives with findings end a campaign: what comes after them tells nothing new."""

LOCK_LOOK_S = 5.0


@dataclass
class Campaign:
    """The lives to run: `targets` says how many faults shall hit on each shape, of clean lives."""

    targets: Mapping[Shape, int]
    seed: int
    record: Record
    folder: Path
    until: float
    """On the monotonic clock: no fault comes later."""
    commit: str = ""
    jobs: int = 1
    """Lives of each shape that run at the same time."""
    lock: Path | None = None
    """No life begins while somebody else holds this lock (`flock`): a measurement on the same machine."""
    only_life: int | None = None
    """This life of each shape, and no other."""
    broken: list[str] = field(default_factory=list)
    """Lives that did not finish."""

    def __post_init__(self) -> None:
        self._deciding = threading.Lock()
        self._ended: queue.Queue[Entry | None] = queue.Queue()
        self._hit = dict.fromkeys(self.targets, 0)
        self._findings = 0
        self._digests: dict[tuple[Shape, str], str] = {}
        self._numbers = {shape: self._left(shape) for shape in self.targets}
        self._runners: list[Runner] = []

    def run(self) -> Iterator[Entry]:
        """Each life when it has finished."""
        shapes = [shape for shape, target in self.targets.items() if target > 0 for _ in range(self.jobs)]
        try:
            self._runners = [Runner(shape) for shape in shapes]
            for each in self._runners:
                threading.Thread(target=self._run_lives, args=(each,), daemon=True).start()
            for _ in shapes:
                yield from iter(self._ended.get, None)
        finally:
            for each in self._runners:
                each.stop()

    def _run_lives(self, own: Runner) -> None:
        """All that one process runs."""
        try:
            while self._may_begin() and (asked := self._next(own.shape)) is not None:
                result, digests = own.live(asked)
                with self._deciding:
                    self._hit[own.shape] += result.faults - asked.wanted
                    result.findings += self._unlike(own.shape, digests)
                    self._findings += bool(result.findings)
                self._ended.put(
                    Entry(own.shape, self.seed, asked.first // DRAWN, self.commit, today(), result)
                )
        except (EOFError, OSError) as error:
            self.broken.append(str(error))
        finally:
            self._ended.put(None)

    def _next(self, shape: Shape) -> Asked | None:
        """The next life; what it is to have counts at once, so that no other has it, too."""
        with self._deciding:
            wanted = min(LIFE, self.targets[shape] - self._hit[shape])
            seconds = self.until - time.monotonic()
            if wanted <= 0 or seconds <= 0 or self._findings >= MOST_FINDINGS:
                return None
            if (life := next(self._numbers[shape], None)) is None:
                return None
            self._hit[shape] += wanted
        folder = self.folder / f"{shape}-{self.seed}-{life}-{time.time_ns() // 1_000_000}"
        return Asked(self.seed, life * DRAWN, DRAWN, wanted, seconds, str(folder))

    def _left(self, shape: Shape) -> Iterator[int]:
        """The numbers of the lives that are not recorded as clean, or the one that is wanted."""
        if self.only_life is not None:
            return iter([self.only_life])
        done = self.record.clean(shape, self.seed)
        return (life for life in count() if life not in done)

    def _unlike(self, shape: Shape, digests: Mapping[str, str]) -> list[str]:
        """P6: the same work has the same bytes in every life of a shape, in whichever process it is."""
        return [
            f"P6: {group} has other bytes than in another process"
            for group, sha256 in digests.items()
            if self._digests.setdefault((shape, group), sha256) != sha256
        ]

    def _may_begin(self) -> bool:
        """Whether a life may begin, once nobody measures; False if the time is up before that."""
        while self.lock is not None and time.monotonic() < self.until:
            with suppress(BlockingIOError), self.lock.open("a") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            time.sleep(LOCK_LOOK_S)
        return time.monotonic() < self.until


def replay(shape: Shape, seed: int, number: int, folder: Path) -> Result:
    """One fault alone, on a fresh service under the same load."""
    server = None if shape == "sqlite" else start_postgres()
    name = f"{shape}-{seed}-only-{number}-{time.monotonic_ns()}"
    try:
        asked = Asked(seed, number, 1, 1, 600.0, str(folder / name))
        return runner.run(shape, asked, server, Book(runner.media(shape)))
    finally:
        if server is not None:
            server.stop()
