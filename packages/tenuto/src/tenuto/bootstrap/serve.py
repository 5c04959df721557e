"""Everything on one machine: the API's process, and a worker as its child, started again when it dies."""

import os
import sys
from contextlib import closing

from tenuto.bootstrap.api import serve_api
from tenuto.bootstrap.opening import MIGRATIONS_PATIENCE_S, make_folder, open_records
from tenuto.bootstrap.process import Say, arm_failpoints, keep_private
from tenuto.bootstrap.store_watch import StoreWatch, open_beside
from tenuto.catalog import keys
from tenuto.catalog import rules as catalog
from tenuto.config import Settings

CHILD = "tenuto.bootstrap"
"""What is run as the child: __main__.py, beside."""


def run_serve(settings: Settings, say: Say) -> None:
    """Serve until SIGTERM or SIGINT, the only service on this folder."""
    from tenuto.worker.child import ChildWorker
    from tenuto.worker.locks import FolderLock

    keep_private()
    arm_failpoints()
    # A model's table that is wrong, a key that is missing: told once, and not by the child again and again.
    keys.check(catalog.models(settings), os.environ)
    make_folder(settings.folder)
    lock = FolderLock(settings.folder)
    # Migrated before the worker looks; what refuses the start is told once, and not by both.
    with closing(open_records(settings, patience_s=MIGRATIONS_PATIENCE_S)) as database:
        StoreWatch(settings, database, open_beside(settings, database))
    child = ChildWorker(settings, [sys.executable, "-m", CHILD])
    child.start()
    try:
        serve_api(settings, say, child=child, lock=lock)
    finally:
        child.stop()
        lock.release()
