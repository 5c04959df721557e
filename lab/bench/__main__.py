"""`python -m lab.bench [--only NAME | --many] [--write]`: measures, prints the table, or writes its page."""

import argparse
import sys
import time
from collections.abc import Callable

from lab.bench import (
    ROOT,
    accept,
    chat,
    cluster,
    footprint,
    growth,
    hosts,
    image,
    libraries,
    overhead,
    poll,
    processes,
    programs,
    progress,
    real,
    report,
    sdk,
    search,
    sentences,
    slots,
    start,
    storage,
    streams,
    throughput,
    transfer,
    webhooks,
    whole_job,
)
from lab.bench.report import Row

from servers.postgres import PostgresServer, start_postgres

PAGE = ROOT / "lab" / "records" / "benchmarks.md"
PAGE_OF_MANY = ROOT / "lab" / "records" / "benchmarks-many-machines.md"
Measure = Callable[[PostgresServer | None], list[Row]]
"""Measures on SQLite (None) or on the server."""

PARTS: dict[str, Measure] = {
    "accept": accept.measure,
    "poll": poll.measure,
    "start": start.measure,
    "slots": slots.measure,
    "chat": chat.measure,
    "transfer": transfer.measure,
    "storage": storage.measure,
    "overhead": overhead.measure,
    "real": real.measure,
    "progress": progress.measure,
    "sdk": sdk.measure,
    "image": image.measure,
    "programs": programs.measure,
    "sentences": sentences.measure,
    "libraries": libraries.measure,
    "throughput": throughput.measure,
    "hosts": hosts.measure,
    "search": search.measure,
    "streams": streams.measure,
    "webhooks": webhooks.measure,
}
MANY: dict[str, Measure] = {
    "cluster": cluster.measure,
    "whole-job": whole_job.measure,
    "growth": growth.measure,
    "processes": processes.measure,
}
"""Many machines, and a database that has grown: half an hour and more, so on a page of their own."""


def main() -> int:
    """Exit code 1 when a row misses its limit."""
    options = _options()
    began = time.monotonic()
    about = report.machine()
    server = start_postgres(is_durable=True)
    rows: list[Row] = []
    try:
        for name, measure in (PARTS | MANY).items():
            if name in (options.only or (MANY if options.many else PARTS)):
                for postgres in (None, server):
                    rows += _told(name, measure, postgres)
        if "footprint" in (options.only or ([] if options.many else ["footprint"])):
            rows += _told("footprint", footprint.measure, server)
    finally:
        server.stop()
    notes = [f"The whole run took {time.monotonic() - began:.0f} s."]
    print("\n".join([*about, "", report.as_text(rows), "", *notes]))
    if options.write:
        report.write(PAGE_OF_MANY if options.many else PAGE, rows, notes, about)
    return 1 if any(row.passed is False for row in rows) else 0


def _told(name: str, measure: Measure, postgres: PostgresServer | None) -> list[Row]:
    """The rows of a part, printed as soon as they are measured."""
    began = time.monotonic()
    rows = measure(postgres)
    print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    for row in rows:
        print("  " + "  ".join(row.cells()), file=sys.stderr)
    return rows


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab.bench", description=__doc__)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--only", action="append", choices=[*PARTS, *MANY, "footprint"], help="one part; repeatable"
    )
    chosen.add_argument("--many", action="store_true", help="many machines, and growth, instead of the rest")
    parser.add_argument("--write", action="store_true", help="write the page instead of only printing it")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write takes a whole run")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
