"""`tenuto admin backup` and `restore`: a copy of the records and their bytes, and a service made from it."""

import argparse
import os
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

from tenuto.command.common import moment, new_ids, own_blobs, say, tell
from tenuto.command.options import add_location, location_of
from tenuto.process.runtime import arm_failpoints, clock
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """The options of one of the two commands."""
    if name == "restore":
        parser.add_argument("folder", type=Path, metavar="FOLDER", help=t("the backup"))
        parser.add_argument("--check", action="store_true", help=t("verify the backup and write nothing"))
        add_location(parser)
        parser.set_defaults(run=_restore)
        return
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
    add_location(parser)
    parser.set_defaults(run=_backup)


def _backup(options: argparse.Namespace, console: Console) -> int:
    """Back up the service; one line reports what is in the backup."""
    from tenuto.features.backup.take import take as take_backup
    from tenuto.process.data_opening import open_as_it_is

    settings = location_of(options).settings()
    arm_failpoints()
    with closing(open_as_it_is(settings)) as database:
        manifest = take_backup(
            database,
            own_blobs(settings, database),
            options.folder,
            ids=new_ids(),
            clock=clock,
            program=f"tenuto {version('tenuto')}",
            tell=tell,
            leave_out_damaged=options.leave_out_damaged,
        )
    rows = sum(table.rows for table in manifest.tables.values())
    say(
        f"{options.folder} holds all of {moment(manifest.created_at)} UTC: {rows} rows,"
        f" {manifest.blobs} blobs"
        f" of {manifest.blob_bytes} bytes" + _without(len(manifest.left_out))
    )
    return 0


def _restore(options: argparse.Namespace, console: Console) -> int:
    """Verify a backup and, without `--check`, restore it into an empty place."""
    from tenuto.config.storage import bucket_of
    from tenuto.db.database_opening import open_database
    from tenuto.features.backup import restore
    from tenuto.features.backup.manifest import lock
    from tenuto.process.data_opening import MARK, open_blobs

    folder, location = options.folder, location_of(options)
    arm_failpoints()
    tell(f"verifying {folder}")
    manifest = restore.verify(folder)
    if options.check:
        say(
            f"{folder} is whole: the records of {moment(manifest.created_at)} UTC, {manifest.blobs} blobs"
            f" of {manifest.blob_bytes} bytes, made by {manifest.program}" + _without(len(manifest.left_out))
        )
        return 0
    settings = location.settings()
    resumed = restore.claim(settings.folder, manifest)
    held = lock(settings.folder / MARK)
    database = None
    try:
        # If one of these checks refuses, nothing is left in the folder.
        if bucket_of(settings.blobs) is not None:
            restore.refuse_bytes(open_blobs(settings), resumed=resumed)
        database = open_database(settings.database, folder=settings.folder)
        restore.refuse_others(database, manifest, resumed=resumed)
    except BaseException:
        if not resumed:
            restore.release(settings.folder)
        if database is not None:
            database.close()
        raise
    try:
        restore.fill(folder, manifest, database, open_blobs(settings), tell=tell)
    finally:
        database.close()
    restore.release(settings.folder)
    os.close(held)
    say(
        f"{settings.folder} is restored to {moment(manifest.created_at)} UTC;"
        f" now run: tenuto admin audit --deep{location.again}"
    )
    return 0


def _without(left_out: int) -> str:
    """What to add about damaged blobs that were left out."""
    return f"; {left_out} damaged blobs are left out" if left_out else ""
