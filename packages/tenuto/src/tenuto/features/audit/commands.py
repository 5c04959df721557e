"""`tenuto admin audit`: checks that records, money and, on request, bytes agree. It changes nothing."""

import argparse
from itertools import chain
from typing import TYPE_CHECKING

from tenuto.command.common import json_line, own_blobs, say, tell
from tenuto.command.options import add_location, location_of
from tenuto.process.runtime import clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t, translated

if TYPE_CHECKING:
    from tenuto.features.audit.all_checks import Report
    from tenuto.features.audit.check import Finding
    from tenuto.features.audit.deep import Rehashed

MAX_LISTED = 1_000
"""How many damaged blobs and unknown files are listed; the rest are counted."""


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument("--deep", action="store_true", help=t("also hash every blob again"))
    parser.add_json()
    add_location(parser)
    parser.set_defaults(run=_audit)


def _audit(options: argparse.Namespace, console: Console) -> int:
    """Recompute all money from the ledger, and every job's state from its events; 1 on any discrepancy.

    Changes nothing, and may be run while the service is running.
    """
    from tenuto.features.audit.all_checks import database_damage, report
    from tenuto.features.audit.deep import Rehashed, rehash, unreadable_jobs
    from tenuto.process.data_opening import open_as_it_is

    deep, as_json, settings = options.deep, options.as_json, location_of(options).settings()
    database = open_as_it_is(settings)
    now_ms, hashed, unlisted = clock(), Rehashed(), 0
    try:
        # First, as damage that it finds may keep the rest from being read.
        damaged = database_damage(database, deep=True) if deep else []
        _tell([] if as_json else damaged)
        records = report(database, now_ms=now_ms)
        _tell([] if as_json else records.findings)
        records.findings[:0] = damaged
        findings = records.findings
        if deep:
            listed = len(findings) + MAX_LISTED
            hashing = rehash(database, own_blobs(settings, database), hashed, now_ms=now_ms)
            for finding in chain(unreadable_jobs(database), hashing):
                if len(findings) == listed:
                    unlisted += 1
                    continue
                findings.append(finding)
                _tell([] if as_json else [finding])
    finally:
        database.close()
    if as_json:
        say(json_line(_plain(records, hashed if deep else None, unlisted)))
    else:
        _sum_up(records, hashed if deep else None, unlisted)
    return 1 if findings else 0


def _tell(findings: "list[Finding]") -> None:
    for finding in findings:
        say(finding.summary(translated))


def _sum_up(records: "Report", hashed: "Rehashed | None", unlisted: int) -> None:
    from tenuto.features.audit.all_checks import MAX_FINDINGS

    rows = records.rows
    bytes_too = "" if hashed is None else f", {hashed.blobs} blobs of {hashed.size_bytes} bytes hashed again"
    looked_at = f"{rows['account']} accounts, {rows['job']} jobs, {rows['entry']} entries{bytes_too}"
    if not records.findings:
        say(f"every balance, hold, charge and slot agrees with the ledger: {looked_at}")
        return
    tell(
        f"{len(records.findings) + unlisted} findings in {looked_at}; of each check {MAX_FINDINGS} at most"
        " are listed; docs/operations/audit.md says what they mean"
    )


def _plain(records: "Report", hashed: "Rehashed | None", unlisted: int) -> dict[str, object]:
    return {
        "clean": not records.findings,
        "findings": [finding.plain for finding in records.findings],
        "unlisted": unlisted,
        "rows": records.rows,
        "hashed": None if hashed is None else {"blobs": hashed.blobs, "size_bytes": hashed.size_bytes},
    }
