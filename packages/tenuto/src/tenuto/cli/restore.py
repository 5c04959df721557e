"""`tenuto admin restore`: a backup becomes a service again, on either database."""

import argparse
from pathlib import Path

from tenuto import bootstrap
from tenuto.cli.backup import without
from tenuto.cli.common import moment, say, tell
from tenuto.cli.options import add_place, place_of
from tenuto.config.storage import bucket_of
from tenuto.db.opening import open_database
from tenuto_client.commands.console import Console
from tenuto_client.commands.parser import Parser
from tenuto_client.commands.words import t


def add(parser: Parser, name: str) -> None:
    """Its options."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help=t("the backup"))
    parser.add_argument("--check", action="store_true", help=t("verify the backup and write nothing"))
    add_place(parser)
    parser.set_defaults(run=_restore)


def _restore(options: argparse.Namespace, console: Console) -> int:
    """Verify a backup and, unless it is only to be checked, restore it into an empty place."""
    from tenuto.backup import restore

    folder, place = options.folder, place_of(options)
    bootstrap.arm_failpoints()
    tell(f"verifying {folder}")
    manifest = restore.verify(folder)
    if options.check:
        say(
            f"{folder} is whole: the records of {moment(manifest.created_at)} UTC, {manifest.blobs} blobs"
            f" of {manifest.blob_bytes} bytes, made by {manifest.program}" + without(len(manifest.left_out))
        )
        return 0
    settings = place.settings()
    resumed = restore.claim(settings.folder, manifest)
    database = None
    try:
        # Neither look leaves anything in the folder, where it ends in a refusal.
        if bucket_of(settings.blobs) is not None:
            restore.refuse_bytes(bootstrap.open_blobs(settings), resumed=resumed)
        database = open_database(settings.database, folder=settings.folder)
        restore.refuse_others(database, resumed=resumed)
    except BaseException:
        if not resumed:
            restore.release(settings.folder)
        if database is not None:
            database.close()
        raise
    try:
        restore.fill(folder, manifest, database, bootstrap.open_blobs(settings), tell=tell)
    finally:
        database.close()
    restore.release(settings.folder)
    say(
        f"{settings.folder} is restored to {moment(manifest.created_at)} UTC;"
        f" now run: tenuto admin audit --deep{place.again}"
    )
    return 0
