"""The record of the soak: one line of JSON for each life that finished, committed with the code.

A life is named by its shape, its seed and its number, and those that are recorded as clean are not run again,
in any checkout: 20,000 faults are reached in pieces. A life with a finding stays, with what became of it in
`resolution`, which a person writes; it is run once more by a later campaign. Knows no processes.
"""

import fcntl
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from lab.faults.life import Result
from lab.faults.plan import Shape

RECORD = Path(__file__).with_name("soak.jsonl")
COUNTERS = ("hit", "places", "answers", "ends")
FINDING_CHARACTERS = 600
"""Of each finding, in the record; the life's folder has the whole."""
CHECKOUT = f"{RECORD.parents[2]}/"
"""Removed from findings: it differs from machine to machine."""
GRAVE = ("audit:", "P1:", "P2:", "P3:", "P4:", "P5:", "P6:", "P10:")
"""How a finding begins that is of a caller's work, money or bytes."""
SUMMED = -1
"""The number of an entry that sums several lives."""


@dataclass(frozen=True)
class Entry:
    """A finished life: what it tried, on which commit, and what came of it."""

    shape: Shape
    seed: int
    life: int
    commit: str
    date: str
    """Of its end, UTC."""
    result: Result
    resolution: str = ""
    """What became of its findings."""
    lives: int = 1
    seeds: tuple[int, ...] = ()
    """Of an entry that sums several lives of earlier campaigns, of which no more is known."""

    @property
    def is_clean(self) -> bool:
        return not self.result.findings

    @property
    def lost_something(self) -> bool:
        """Whether a finding is of lost jobs, double charges or wrong bytes; others are of other defects."""
        return any(finding.startswith(GRAVE) for finding in self.result.findings)

    @property
    def named_seeds(self) -> str:
        return ", ".join(map(str, self.seeds or (self.seed,)))

    def dump(self) -> str:
        """One line."""
        result = self.result
        fields: dict[str, Any] = {
            "shape": self.shape,
            "seed": self.seed,
            "life": self.life,
            "commit": self.commit,
            "date": self.date,
            **{name: dict(sorted(getattr(result, name).items())) for name in COUNTERS},
            "missed": result.missed.total(),
            "by_kill": result.by_kill,
            "starts": result.starts,
            "seconds": {name: round(value, 1) for name, value in result.seconds.items()},
            "took_s": round(result.took_s, 1),
            "rest_s": round(result.rest_s, 1),
            "findings": list(map(_short, result.findings)),
        }
        if self.resolution:
            fields["resolution"] = self.resolution
        if self.seeds:
            fields |= {"lives": self.lives, "seeds": list(self.seeds)}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _short(finding: str) -> str:
    """Shorten a finding in its middle, because a traceback ends with the error."""
    finding = finding.replace(CHECKOUT, "")
    half = FINDING_CHARACTERS // 2
    return finding if len(finding) <= FINDING_CHARACTERS else f"{finding[:half]} … {finding[-half:]}"


@dataclass
class Record:
    """The file, and what it holds."""

    file: Path = RECORD
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.file.exists():
            self.entries = [_entry(json.loads(line)) for line in self.file.read_text("utf-8").splitlines()]

    def add(self, entry: Entry) -> None:
        """At the end, durable before this returns; another campaign may write at the same time."""
        self.entries.append(entry)
        with self.file.open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(entry.dump() + "\n")

    def clean(self, shape: Shape, seed: int) -> set[int]:
        """The numbers of the lives that need not be run again."""
        return {
            entry.life
            for entry in self.entries
            if entry.is_clean and (entry.shape, entry.seed) == (shape, seed) and entry.life != SUMMED
        }

    def faults(self, shape: Shape | None = None) -> int:
        """How many have hit in clean lives, of a shape or of all."""
        return sum(
            entry.result.faults for entry in self.entries if entry.is_clean and shape in (None, entry.shape)
        )


def total(entries: Iterable[Entry]) -> Result:
    """All lives as one."""
    summed = Result(0)
    for result in (entry.result for entry in entries):
        for name in (*COUNTERS, "missed"):
            getattr(summed, name).update(getattr(result, name))
        summed.by_kill += result.by_kill
        summed.took_s += result.took_s
        summed.starts += result.starts
        summed.findings += result.findings
        summed.rest_s = max(summed.rest_s, result.rest_s)
    return summed


def _entry(fields: Mapping[str, Any]) -> Entry:
    result = Result(fields["life"])
    for name in COUNTERS:
        getattr(result, name).update(fields[name])
    result.missed["all"] = fields["missed"]
    result.seconds.update(fields["seconds"])
    result.by_kill, result.starts = fields["by_kill"], fields["starts"]
    result.took_s, result.rest_s = fields["took_s"], fields["rest_s"]
    result.findings = list(fields["findings"])
    return Entry(
        cast(Shape, fields["shape"]),
        fields["seed"],
        fields["life"],
        fields["commit"],
        fields["date"],
        result,
        resolution=fields.get("resolution", ""),
        lives=fields.get("lives", 1),
        seeds=tuple(fields.get("seeds", ())),
    )
