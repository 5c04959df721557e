"""`tenuto backup` and `tenuto restore`: what they say and which parts they bring together."""

from importlib.metadata import version
from pathlib import Path

from tenuto import bootstrap
from tenuto.cli.common import Place, moment, new_ids, say, tell
from tenuto.config.storage import bucket_of
from tenuto.db.opening import open_database


def take(place: Place, folder: Path, *, leave_out_damaged: bool) -> None:
    """A backup of what runs here; one line says what is in it."""
    from tenuto.backup.take import take as take_backup

    settings = place.settings()
    bootstrap.arm_failpoints()
    database = bootstrap.open_as_it_is(settings)
    try:
        manifest = take_backup(
            database,
            bootstrap.open_own_blobs(settings, database),
            folder,
            ids=new_ids(),
            clock=bootstrap.clock,
            program=f"tenuto {version('tenuto')}",
            tell=tell,
            leave_out_damaged=leave_out_damaged,
        )
    finally:
        database.close()
    rows = sum(table.rows for table in manifest.tables.values())
    say(
        f"{folder} holds all of {moment(manifest.created_at)} UTC: {rows} rows, {manifest.blobs} blobs"
        f" of {manifest.blob_bytes} bytes" + _without(len(manifest.left_out))
    )


def put_back(place: Place, folder: Path, *, check: bool) -> None:
    """Verify a backup and, unless it is only to be checked, restore it into the empty place."""
    from tenuto.backup import restore

    bootstrap.arm_failpoints()
    tell(f"verifying {folder}")
    manifest = restore.verify(folder)
    if check:
        say(
            f"{folder} is whole: the records of {moment(manifest.created_at)} UTC, {manifest.blobs} blobs"
            f" of {manifest.blob_bytes} bytes, made by {manifest.program}" + _without(len(manifest.left_out))
        )
        return
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
        f" now say: tenuto audit --deep{place.again}"
    )


def _without(left_out: int) -> str:
    return f"; {left_out} damaged blobs are left out" if left_out else ""
