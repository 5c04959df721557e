"""The table: what was measured, beside its limit and how the limit came about; as text and as Markdown."""

import datetime
import os
import platform
import sqlite3
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench import ROOT

_HOW = (
    "Written by `.venv/bin/python -m lab.bench --write` (`make bench` prints the same table; `--many` "
    "measures many machines and a database that has grown); `--only NAME` runs one part. Real processes of "
    "`tenuto serve` with the fake engines, eight accounts with a key each and a price on every job, one in "
    "ten requests a replay. References are measured in the same run, between the rounds of what they are "
    "compared with; values are medians unless they say otherwise."
)
_COLUMNS = ("measure", "value", "limit", "how the limit came about", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `passed` is None where there is a figure but no limit."""

    measure: str
    value: str
    limit: str = ""
    reason: str = ""
    passed: bool | None = None

    def cells(self) -> tuple[str, ...]:
        verdict = {True: "pass", False: "MISS", None: ""}[self.passed]
        return self.measure, self.value, self.limit, self.reason, verdict


def below(measure: str, value: float, limit: float, unit: str, reason: str, *, digits: int = 2) -> Row:
    """A row whose value may be at most its limit."""
    return Row(
        measure,
        f"{value:.{digits}f} {unit}",
        f"≤ {limit:.{digits}f} {unit}",
        reason,
        value <= limit,
    )


def above(measure: str, value: float, limit: float, unit: str, reason: str, *, digits: int = 0) -> Row:
    """A row whose value must be at least its limit."""
    return Row(
        measure,
        f"{value:.{digits}f} {unit}",
        f"≥ {limit:.{digits}f} {unit}",
        reason,
        value >= limit,
    )


def quantile(values: Sequence[float], part: float) -> float:
    """The value that `part` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def p50_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000


def as_text(rows: Sequence[Row]) -> str:
    """Columns of equal width."""
    lines = [_COLUMNS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def as_markdown(rows: Sequence[Row]) -> str:
    lines = [_COLUMNS, ("---",) * len(_COLUMNS), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def machine() -> list[str]:
    """Where and of what the figures are."""
    return [
        f"Machine: {_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.release()}; client, "
        "service and database share it",
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        f"Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC; commit {_commit()}; "
        f"load average at the start {os.getloadavg()[0]:.1f}",
    ]


def write(path: Path, rows: Sequence[Row], notes: Sequence[str], about: Sequence[str]) -> None:
    """The page for the documentation."""
    path.write_text(
        "\n".join(
            [
                "# Benchmarks",
                "",
                _HOW,
                "",
                *(f"- {line}" for line in about),
                "",
                as_markdown(rows),
                "",
                *(f"- {note}" for note in notes),
                "",
            ]
        ),
        "utf-8",
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), "?")


def _commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "packages", "engines", "contrib", "lab/bench")
    return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
