"""`tenuto migrate-to`: a stopped service is moved to another database and another store of bytes."""

from pathlib import Path

from tenuto import bootstrap
from tenuto.backup import move
from tenuto.backup.move import Move, Moved, Side
from tenuto.catalog import operations as catalog
from tenuto.cli.common import Place, say, tell
from tenuto.config import Settings
from tenuto.db.away import told
from tenuto.db.database import Database, open_database
from tenuto.db.migrations import later
from tenuto.errors import OperatorError, Unavailable
from tenuto.jobs.audit import report
from tenuto.worker import locks

SEEN_WITHIN_S = 60
"""A worker elsewhere that was seen so lately may still live."""


def move_to(place: Place, database: str, blobs: str, *, leave_out_damaged: bool) -> None:
    """Move everything, compare it, and say what to write into the settings."""
    here, there = place.settings(), place.settings(database=database, blobs=blobs)
    if move.shown(here.database) == move.shown(there.database) or here.blobs == there.blobs:
        raise OperatorError("name another database and another place of bytes than those of the settings")
    bootstrap.arm_failpoints()
    if not here.database.startswith("sqlite:"):
        bootstrap.make_folder(here.folder)  # This machine may have been no part of the service until now.
    lock = locks.FolderLock(here.folder)
    try:
        source = Side(bootstrap.open_as_it_is(here), bootstrap.open_blobs(here))
        try:
            moved = _move(here, there, source, leave_out_damaged=leave_out_damaged)
        finally:
            source.database.close()
    finally:
        lock.release()
    without = f"; {len(moved.left_out)} damaged ones are left out" if moved.left_out else ""
    say(
        f"moved and compared: {moved.rows} rows of {moved.tables} tables, {moved.blobs} blobs of"
        f" {moved.blob_bytes} bytes{without}"
    )
    password = "" if move.shown(database) == database else " (with its password)"
    say(f'now set database = "{move.shown(database)}"{password} and blobs = "{blobs}"')


def _move(here: Settings, there: Settings, source: Side, *, leave_out_damaged: bool) -> Moved:
    _refuse_running(source.database, here.folder, here.database)
    if newer := later(source.database):
        raise OperatorError(f"the database is of a newer version: it has {newer[0]!r}. Install that version.")
    planned = Move(move.shown(here.database), here.blobs, move.shown(there.database), there.blobs)
    target = Side(open_database(there.database, folder=there.folder), bootstrap.open_blobs(there))
    try:
        _ask(target.database, planned.to_database)
        move.begin(here.folder, planned, target)
        moved = move.carry_out(here.folder, source, target, tell=tell, leave_out_damaged=leave_out_damaged)
        _compare_audits(source.database, target.database)
        # One on another machine has its own data folder, and saw nothing of the move.
        _refuse_running(source.database, here.folder, here.database)
        move.finish(here.folder, planned)
    finally:
        target.database.close()
    return moved


def _ask(database: Database, shown: str) -> None:
    try:
        database.read(lambda tx: tx.one("select 1 as one"))
    except Unavailable as error:
        raise OperatorError(f"{shown} {told(error)}; start it, or correct --database") from error


def _refuse_running(database: Database, folder: Path, url: str) -> None:
    now_ms, machine = bootstrap.clock(), locks.machine(folder / "locks")
    for row in database.read(catalog.workers):
        if row["machine"] == machine:
            if locks.is_held(folder / "locks", row["lock_name"]):
                raise OperatorError(f"the worker {row['id']} runs; stop every process of the service first")
        elif (ago_s := (now_ms - row["seen_at"]) // 1000) < SEEN_WITHIN_S:
            raise OperatorError(
                f"the worker {row['id']} on another machine was seen {ago_s} s ago; stop every process of the"
                f" service, and wait until it was {SEEN_WITHIN_S} s"
            )
    if database.is_occupied():
        raise OperatorError(
            f"a `tenuto api` or worker still works with {move.shown(url)};"
            " stop every process of the service first"
        )


def _compare_audits(source: Database, target: Database) -> None:
    """What the audit finds in the new place it must have found in the old one."""
    now_ms = bootstrap.clock()

    def found_in(database: Database) -> set[str]:
        looked = database.snapshot(lambda tx: report(tx, now_ms=now_ms))
        return {finding.line for finding in looked.findings}

    if found := found_in(target) - found_in(source):
        raise OperatorError(f"the audit finds in the new place: {'; '.join(sorted(found)[:5])}")
