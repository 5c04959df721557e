"""lab/records/endurance.md, written from the record of the pieces; and a piece as lines for a terminal."""

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from lab.endurance import record
from lab.endurance.load import CALLERS, CROWD, PAUSE_S
from lab.endurance.piece import MOST_WARM_UP_S, WARM_UP
from lab.endurance.record import Piece
from lab.endurance.samples import BLOCK_S, EVERY_S
from lab.endurance.trend import Trend

DOCUMENT = Path(__file__).parents[2] / "lab" / "records" / "endurance.md"
PAGE = Path(__file__).with_name("page.md")
WANTED_HOURS = 24
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_ID = re.compile(r"(?<=[a-z]_)[0-9a-z]{26}")


def write(pieces: Sequence[Piece]) -> None:
    """The whole page."""
    DOCUMENT.write_text(page(pieces), encoding="utf-8")


def page(pieces: Sequence[Piece]) -> str:
    """Its text."""
    parts = {
        "hours": _hours(pieces),
        "growth": _growth(pieces),
        "pieces": _pieces(pieces),
        "latencies": _latencies(pieces),
        "faults": _faults(pieces),
    }
    return PAGE.read_text("utf-8").format(
        **{name: "".join(part) for name, part in parts.items()},
        callers=CALLERS,
        crowd=CROWD,
        pause_s=PAUSE_S,
        every_s=f"{EVERY_S:.0f}",
        warm_up=f"{WARM_UP:.0%}",
        warm_up_minutes=f"{MOST_WARM_UP_S / 60:.0f}",
        settled=f"{MOST_WARM_UP_S / 60 + record.SETTLED_AFTER * BLOCK_S / 60:.0f}",
        limits=", ".join(f"{name} {value:g}" for name, value in record.LIMITS.items()),
        processor=f"{record.PROCESSOR_SHARE:.0%}",
    )


def lines(piece: Piece) -> Iterator[str]:
    """A piece, for whoever ran it."""
    yield f"{NAMES[piece.database]}: {piece.minutes:g} minutes, {piece.acts:,} acts, {piece.jobs:,} jobs"
    for each in record.growth([piece]):
        yield f"  {each.name}: {each.level:g}, {_slope(each.trend)} an hour, "
        yield f"    limit {each.limit:.3g}: {each.verdict}"
    for act, (count, *percentiles) in piece.latencies_ms.items():
        yield f"  {act}: {count:.0f}, ms {' '.join(f'{each:.0f}' for each in percentiles)}"
    yield from (f"  FOUND {fault}" for fault in piece.faults)


def _of(pieces: Sequence[Piece]) -> Iterator[tuple[str, list[Piece]]]:
    for database, name in NAMES.items():
        if mine := [piece for piece in pieces if piece.database == database]:
            yield name, mine


def _hours(pieces: Sequence[Piece]) -> Iterable[str]:
    for database, name in NAMES.items():
        mine = [piece for piece in pieces if piece.database == database]
        done = f"{record.hours(mine):.1f} of {WANTED_HOURS} hours, in {len(mine)} pieces"
        yield f"- {name}: {done}, {sum(piece.jobs for piece in mine):,} jobs.\n"


def _growth(pieces: Sequence[Piece]) -> Iterable[str]:
    yield "| database | process and what | level | growth an hour after the warm-up "
    yield "| judged: after the first audit | limit | |\n|---|---|---:|---:|---:|---:|---|\n"
    for name, mine in _of(pieces):
        for each in record.growth(mine):
            yield f"| {name} | {each.name} | {each.level:g} | {_slope(each.whole)} "
            yield f"| {_slope(each.trend)} | {each.limit:.3g} | {each.verdict} |\n"


def _pieces(pieces: Sequence[Piece]) -> Iterable[str]:
    yield "| database | service | date | commit | minutes | jobs before | jobs | database, MiB "
    yield "| load average | grows or fails |\n"
    yield "|---|---:|---|---|---:|---:|---:|---:|---:|---|\n"
    for piece in pieces:
        grown = [each.name for each in record.growth([piece]) if each.verdict == "grows"]
        bad = "; ".join([*grown, *([f"faults: {len(piece.faults)}"] if piece.faults else [])]) or "no"
        sizes = " → ".join(f"{size:.1f}" for size in piece.database_mib)
        yield f"| {NAMES[piece.database]} | {piece.service} | {piece.date} | `{piece.commit}` "
        yield f"| {piece.minutes:g} | {piece.jobs_before:,} | {piece.jobs:,} "
        yield f"| {sizes} | {piece.loads[1]:.1f} | {bad} |\n"


def _latencies(pieces: Sequence[Piece]) -> Iterable[str]:
    yield "| database | act | times | p50, ms | p95, ms | p99, ms |\n|---|---|---:|---:|---:|---:|\n"
    for name, mine in _of(pieces):
        rows = sorted((act, figures) for piece in mine for act, figures in piece.latencies_ms.items())
        for act, group in groupby(rows, key=lambda row: row[0]):
            figures = [row[1] for row in group]
            count = sum(each[0] for each in figures)
            medians = [statistics.median(each[n] for each in figures) for n in (1, 2, 3)]
            shown = " | ".join(f"{each:.0f}" for each in medians)
            yield f"| {name} | {act.replace('_', ' ')} | {count:,.0f} | {shown} |\n"


def _faults(pieces: Sequence[Piece]) -> Iterable[str]:
    """Alike but for the ids in them, they are one line with their number."""
    found = Counter(
        (NAMES[piece.database], piece.date, piece.commit, _ID.sub("…", fault)[:300])
        for piece in pieces
        for fault in piece.faults
    )
    yield f"**Faults: {found.total()}.**\n"
    for (name, date, commit, fault), count in found.items():
        yield f"\n- {name}, {date}, `{commit}`, {count} ×: `{fault}`"
    if found:
        yield "\n"


def _slope(trend: Trend) -> str:
    return f"{trend.slope:+.2f} ({trend.low:+.2f} to {trend.high:+.2f})"
