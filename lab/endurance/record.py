"""The record of endurance: one line of JSON for each piece, with the medians of its minutes."""

import fcntl
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.endurance.samples import BLOCK_S, CONNECTIONS, DESCRIPTORS, MEMORY, PRIVATE, PROCESSOR, THREADS
from lab.endurance.trend import Trend, Verdict, trend

RECORD = Path(__file__).with_name("pieces.jsonl")
LIMITS: Mapping[str, float] = {MEMORY: 2.0, PRIVATE: 4.0, DESCRIPTORS: 1.0, THREADS: 1.0, CONNECTIONS: 1.0}
"""What a series may grow by in an hour, by what was measured."""
SETTLED_AFTER = 60
"""Blocks after the warm-up in which caches still fill, and the worker makes its first hourly audit; later
audits reuse its memory. A piece that is long enough is judged by the blocks after these."""
LEAST_SETTLED = 30
"""Blocks that are enough."""
PROCESSOR_SHARE = 0.1
"""The same of the processor time that an act takes, as a share of its median."""


@dataclass(frozen=True)
class Piece:
    """One piece: what ran, for how long, and what was measured after its warm-up."""

    database: str
    commit: str
    date: str
    cores: int
    loads: tuple[float, float, float]
    """The least, the median and the greatest load average of the machine."""
    minutes: float
    """All of it; the series have a value for each minute after the warm-up."""
    acts: int
    jobs: int
    """That were accepted in it."""
    jobs_before: int
    """Of earlier pieces of this service, on the same records."""
    database_mib: tuple[float, float]
    """The size of the database before and after it."""
    messages: int
    """Of webhooks that were delivered."""
    latencies_ms: Mapping[str, Sequence[float]]
    """By act: how many, and the percentiles 50, 95 and 99."""
    series: Mapping[str, Sequence[float]]
    faults: Sequence[str]
    service: int = 1
    """Services with different numbers may have run at the same time."""

    def dump(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class Growth:
    """A series over some pieces: its level and its trend, per hour."""

    name: str
    level: float
    whole: Trend
    """From the warm-up on."""
    trend: Trend
    """Of what is judged: the settled part, if there is one, otherwise all of it."""
    limit: float

    @property
    def verdict(self) -> Verdict:
        return self.trend.verdict(self.limit)


def growth(pieces: Sequence[Piece]) -> list[Growth]:
    """Every series that has enough points, of pieces on one database."""
    found = []
    for name in sorted({name for piece in pieces for name in piece.series}):
        values = [piece.series[name] for piece in pieces if name in piece.series]
        level = statistics.median(value for each in values for value in each)
        try:
            whole, judged = trend(values, BLOCK_S), trend(_judged(name, values), BLOCK_S)
            found.append(Growth(name, level, whole, judged, limit(name, level)))
        except ValueError:
            continue
    return found


def _judged(name: str, values: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    """The settled parts, if there are any. Processor time has nothing that fills up, and much noise."""
    if name.endswith(PROCESSOR):
        return values
    long = [each[SETTLED_AFTER:] for each in values if len(each) >= SETTLED_AFTER + LEAST_SETTLED]
    return long or values


def limit(name: str, level: float) -> float:
    """What the series may grow by in an hour."""
    measured = name.partition(": ")[2]
    return PROCESSOR_SHARE * level if measured == PROCESSOR else LIMITS[measured]


def read(file: Path = RECORD) -> list[Piece]:
    """All pieces."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [Piece(**json.loads(line)) for line in lines]


def add(piece: Piece, file: Path = RECORD) -> None:
    """At the end; another program may write at the same time."""
    with file.open("a", encoding="utf-8") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        out.write(piece.dump() + "\n")


def hours(pieces: Iterable[Piece]) -> float:
    """How long they ran together."""
    return sum(piece.minutes for piece in pieces) / 60
