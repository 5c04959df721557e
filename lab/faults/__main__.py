"""The fault campaign.

    python -m lab.faults --count N --seed S [--database sqlite|postgresql] [--store s3|both] [--minutes M]
    python -m lab.faults --total N …        what the record has counts
    python -m lab.faults --seed S --database sqlite --life 3
    python -m lab.faults --seed S --database sqlite --only NUMBER

Without a database both are tried, half of the count each, their bytes in a folder. With `--store s3` it is
PostgreSQL and an S3 store; with `--store both` that gets a tenth of the count, beside the others. Lives that
lab/faults/soak.jsonl has as clean are not run again; `--write` adds each finished life to it, and writes
lab/records/reliability.md. Exits with 1 when something was found, or hardly a fault was had.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab.shared import ROOT

if TYPE_CHECKING:
    from lab.faults.campaign import Campaign
    from lab.faults.life import Result
    from lab.faults.plan import Shape
    from lab.faults.record import Record

FOLDER = ROOT / "build" / "faults"
S3_SHARE = 0.1
LEAST = 0.5
"""The required share of faults that hit; less means the campaign itself failed."""


def main() -> int:
    """Run what the command line asks for."""
    from lab import checkout
    from lab.faults import campaign, record, report

    # Whoever ends us ends the services that we started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asked = _arguments()
    counts = _counts(asked)
    if asked.only is not None:
        again = [campaign.replay(shape, asked.seed, asked.only, FOLDER) for shape in counts]
        for shape, life in zip(counts, again, strict=True):
            print(f"{shape}: {dict(life.hit)} {dict(life.places)}; {_line(life)}")
        return _tell(again)
    try:
        commit = checkout.commit("lab/faults", but=record.RECORD) if asked.write else ""
    except ValueError as error:
        sys.exit(str(error))
    book = record.Record()
    if asked.total is not None:
        counts = {shape: max(0, number - book.faults(shape)) for shape, number in counts.items()}
    running = campaign.Campaign(
        counts,
        asked.seed,
        book,
        FOLDER,
        time.monotonic() + 60 * asked.minutes,
        commit=commit,
        jobs=asked.jobs,
        lock=asked.lock,
        only_life=asked.life,
    )
    lives = _run(running, book if asked.write else None)
    if asked.write:
        # As it was written: with rounded figures, and with what others have added.
        report.write(record.Record())
    return _verdict(running, lives, is_piece=asked.total is not None or asked.life is not None)


def _run(campaign: Campaign, book: Record | None) -> list[Result]:
    """Run the lives, reporting each and recording it in the book, if there is one."""
    lives, hit = [], dict.fromkeys(campaign.targets, 0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for entry in campaign.run():
        lives.append(entry.result)
        hit[entry.shape] += entry.result.faults
        if book is not None:
            book.add(entry)
        done = f"{hit[entry.shape]} of {campaign.targets[entry.shape]}"
        print(f"{entry.shape}, life {entry.life}: {done}; {_line(entry.result)}", flush=True)
        _tell([entry.result])
    return lives


def _verdict(campaign: Campaign, lives: list[Result], *, is_piece: bool) -> int:
    """The exit code. A slow machine is not a fault of the service; a campaign that hits nothing proves
    nothing."""
    wanted = sum(campaign.targets.values())
    hit, missed = sum(life.faults for life in lives), sum(life.missed.total() for life in lives)
    for broken in campaign.broken:
        print(f"  BROKE OFF {broken}")
    if hit < wanted:
        print(f"{hit} of {wanted} faults in the time that there was")
    is_idle = hit < LEAST * ((hit + missed) if is_piece else wanted)
    return 1 if is_idle or campaign.broken or any(life.findings for life in lives) else 0


def _counts(asked: argparse.Namespace) -> dict[Shape, int]:
    """What is tried, and how many faults each gets."""
    count = asked.count if asked.total is None else asked.total
    if asked.store == "s3":
        return {"s3": count}
    shapes: dict[Shape, int] = {"s3": round(S3_SHARE * count)} if asked.store == "both" else {}
    databases: list[Shape] = [asked.database] if asked.database else ["sqlite", "postgresql"]
    left = count - sum(shapes.values())
    return {**{each: -(-left // len(databases)) for each in databases}, **shapes}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.faults", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=500, help="faults that must hit, over all that is tried")
    parser.add_argument("--total", type=int, help="the same, with those of the record")
    parser.add_argument("--seed", type=int, default=1, help="what everything is drawn from")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="this one alone")
    parser.add_argument("--store", choices=("folder", "s3", "both"), default="folder", help="where bytes are")
    parser.add_argument("--minutes", type=float, default=10.0, help="no fault comes later than this")
    parser.add_argument("--jobs", type=int, default=1, help="lives of each shape at the same time")
    parser.add_argument("--life", type=int, help="the number of one life, to be run again")
    parser.add_argument("--only", type=int, help="the number of one fault, to be had again")
    parser.add_argument("--lock", type=Path, help="begin no life while somebody holds this lock (flock)")
    parser.add_argument("--write", action="store_true", help="add to the record, and write its page")
    asked = parser.parse_args()
    if asked.database == "sqlite" and asked.store != "folder":
        parser.error("an S3 store is tried with PostgreSQL: leave out --database sqlite, or --store")
    return asked


def _line(life: Result) -> str:
    return (
        f"{life.faults} hit, {life.missed.total()} missed in {life.took_s:.0f} s"
        f" ({', '.join(f'{what} {seconds:.0f}' for what, seconds in life.seconds.items())});"
        f" {life.ends['jobs succeeded']} succeeded, {life.ends['jobs failed']} failed,"
        f" {life.ends['jobs cancelled']} cancelled, {life.ends['jobs recovery_required']} in recovery"
    )


def _tell(lives: list[Result]) -> int:
    found = [finding for life in lives for finding in life.findings]
    for finding in found:
        print(f"  FOUND {finding[:4000]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
