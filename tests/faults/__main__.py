"""The fault campaign.

    python -m tests.faults --count N --seed S [--database sqlite|postgresql] [--store s3|both] [--minutes M]
    python -m tests.faults --seed S --database sqlite --only NUMBER

Without a database both are tried, half of the count each, their bytes in a folder. With `--store s3` it is
PostgreSQL and an S3 store; with `--store both` that gets a tenth of the count, beside the others. A campaign
that was ended goes on where it stopped when it is called with the same seed. Exits with 1 when something was
found, or hardly a fault was had.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faults.campaign import Campaign
    from faults.life import Result
    from faults.plan import Shape

TESTS = Path(__file__).parents[1]
FOLDER = TESTS.parent / "build" / "faults"
S3_SHARE = 0.1
LEAST = 0.5
"""The required share of faults that hit; less means the campaign itself failed."""


def main() -> int:
    """Run what the command line asks for."""
    # The modules of the tests know each other as pytest finds them.
    sys.path.insert(0, str(TESTS))
    from faults import campaign, report

    # Whoever ends us ends the services that we started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asked = _arguments()
    shapes = _shapes(asked)
    if asked.only is not None:
        again = [campaign.replay(shape, asked.seed, asked.only, FOLDER) for shape in shapes]
        for shape, life in zip(shapes, again, strict=True):
            print(f"{shape}: {dict(life.hit)} {dict(life.places)}; {_line(life)}")
        return _tell(again)
    campaigns = [campaign.Campaign(shape, asked.seed, count, FOLDER) for shape, count in shapes.items()]
    if len(campaigns) == 1:
        _run(campaigns[0], asked.minutes)
    else:
        _run_all(campaigns, asked.minutes)
        campaigns = [campaign.Campaign(each.shape, each.seed, each.count, FOLDER) for each in campaigns]
    if asked.write:
        report.write(campaign.recorded(FOLDER))
    short = [each for each in campaigns if each.faults < each.count]
    for each in short:
        print(f"{each.shape}: {each.faults} of {each.count} faults in {asked.minutes} minutes")
    # A slow machine is no fault of the service; a campaign that hits nothing proves nothing.
    is_idle = any(each.faults < LEAST * each.count for each in campaigns)
    return 1 if is_idle or any(life.findings for each in campaigns for life in each.lives) else 0


def _run(campaign: Campaign, minutes: float) -> None:
    """Run what is left, reporting each life."""
    for life in campaign.run(time.monotonic() + 60 * minutes):
        print(f"{campaign.shape}: {campaign.faults} of {campaign.count}; {_line(life)}", flush=True)
        _tell([life])


def _run_all(campaigns: list[Campaign], minutes: float) -> None:
    """Side by side, a process each: a life waits more than it works."""
    words = [sys.executable, "-m", "tests.faults", "--minutes", str(minutes)]
    running = [
        subprocess.Popen([*words, *each.words, "--seed", str(each.seed), "--count", str(each.count)])
        for each in campaigns
    ]
    try:
        for process in running:
            process.wait()
    finally:
        for process in running:
            process.terminate()
            process.wait()


def _shapes(asked: argparse.Namespace) -> dict[Shape, int]:
    """What is tried, and how many faults each gets."""
    if asked.store == "s3":
        return {"s3": asked.count}
    shapes: dict[Shape, int] = {"s3": round(S3_SHARE * asked.count)} if asked.store == "both" else {}
    databases: list[Shape] = [asked.database] if asked.database else ["sqlite", "postgresql"]
    left = asked.count - sum(shapes.values())
    return {**{each: -(-left // len(databases)) for each in databases}, **shapes}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--count", type=int, default=500, help="faults that must hit, over all that is tried")
    parser.add_argument("--seed", type=int, default=1, help="what everything is drawn from")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="this one alone")
    parser.add_argument("--store", choices=("folder", "s3", "both"), default="folder", help="where bytes are")
    parser.add_argument("--minutes", type=float, default=10.0, help="no fault comes later than this")
    parser.add_argument("--only", type=int, help="the number of one fault, to be had again")
    parser.add_argument("--write", action="store_true", help="write docs/reliability.md, of all that ran")
    asked = parser.parse_args()
    if asked.database == "sqlite" and asked.store != "folder":
        parser.error("an S3 store is tried with PostgreSQL: leave out --database sqlite, or --store")
    return asked


def _line(life: Result) -> str:
    return (
        f"{life.faults} hit, {life.missed.total()} missed in {life.took_s:.0f} s,"
        f" {life.rest_s:.0f} s to rest;"
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
