"""`tenuto admin backup`: a copy of the records and their bytes, taken while the service runs."""

import argparse
from importlib.metadata import version
from pathlib import Path

from tenuto import bootstrap
from tenuto.cli.common import moment, new_ids, say, tell
from tenuto.cli.options import add_place, place_of
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help=t(
            "where the backup goes: a folder that does not exist yet, and appears when the backup is whole"
        ),
    )
    parser.add_argument(
        "--leave-out-damaged",
        action="store_true",
        help=t("leave out blobs that are already missing or damaged"),
    )
    add_place(parser)
    parser.set_defaults(run=_backup)


def _backup(options: argparse.Namespace, console: Console) -> int:
    """Take a backup of what runs here; one line reports what is in it."""
    from tenuto.backup.take import take as take_backup

    settings = place_of(options).settings()
    bootstrap.arm_failpoints()
    database = bootstrap.open_as_it_is(settings)
    try:
        manifest = take_backup(
            database,
            bootstrap.open_own_blobs(settings, database),
            options.folder,
            ids=new_ids(),
            clock=bootstrap.clock,
            program=f"tenuto {version('tenuto')}",
            tell=tell,
            leave_out_damaged=options.leave_out_damaged,
        )
    finally:
        database.close()
    rows = sum(table.rows for table in manifest.tables.values())
    say(
        f"{options.folder} holds all of {moment(manifest.created_at)} UTC: {rows} rows,"
        f" {manifest.blobs} blobs"
        f" of {manifest.blob_bytes} bytes" + without(len(manifest.left_out))
    )
    return 0


def without(left_out: int) -> str:
    """What to add about damaged blobs that a backup lacks."""
    return f"; {left_out} damaged blobs are left out" if left_out else ""
