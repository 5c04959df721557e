"""Endurance: mixed load without faults, in pieces.

    python -m lab.endurance --minutes 60 [--database sqlite|postgresql] [--service 2] [--write]

Half of the minutes are on SQLite and half on PostgreSQL, unless one is named. A piece continues on the
records of the last one on this machine, in build/endurance; `--fresh` removes them. Several commands may run
at the same time, each with a different `--service` number and its own records. `--write` adds the pieces
to lab/endurance/pieces.jsonl, and writes its page. Exits with 1 if anything grows or is not as
it must be.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys

from lab.shared import ROOT

FOLDER = ROOT / "build" / "endurance"
DATABASES = ("sqlite", "postgresql")


def main() -> int:
    """Run what the command line asks for."""
    from lab.checkout import commit
    from lab.endurance import piece, record, report

    # Whoever ends us ends the services that we started, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    asked = _arguments()
    databases = [asked.database] if asked.database else DATABASES
    try:
        tried = commit("lab/endurance", but=record.RECORD) if asked.write else ""
    except ValueError as error:
        sys.exit(str(error))
    is_good = True
    for database in databases:
        folder = FOLDER / (database if asked.service == 1 else f"{database}-{asked.service}")
        if asked.fresh:
            shutil.rmtree(folder, ignore_errors=True)
        done = piece.run(database, asked.minutes / len(databases), folder, tried, asked.service)
        print("\n".join(report.lines(done)), flush=True)
        grown = [each for each in record.growth([done]) if each.verdict == "grows"]
        is_good = is_good and not done.faults and not grown
        if asked.write:
            record.add(done)
            report.write(record.read())
    return 0 if is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.endurance", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="of all pieces together")
    parser.add_argument("--database", choices=DATABASES, help="this one alone")
    parser.add_argument("--service", type=int, default=1, help="its number, if several run at once")
    parser.add_argument("--fresh", action="store_true", help="begin on empty records")
    parser.add_argument("--write", action="store_true", help="add to the record, and write its page")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
