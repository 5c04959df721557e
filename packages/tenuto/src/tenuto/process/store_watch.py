"""Watches whether the data is still where the service was started, and the store is the database's own.

Checked when a process starts and for as long as it runs. The database and the store themselves refuse writes
that would be lost with a folder that was moved away; this module reports it to the operator.
"""

import os
import signal
import threading
import time
from functools import partial

from tenuto.config import Settings
from tenuto.config.storage import bucket_of
from tenuto.db.database import Database
from tenuto.db.failover import FailoverWatch
from tenuto.errors import OperatorError, StorageFailed, StoreUnreachable, Unavailable
from tenuto.file import pairing
from tenuto.file.apart import Apart
from tenuto.file.blob import BlobStore
from tenuto.ids import Ids
from tenuto.process.data_opening import open_blobs
from tenuto.process.newest_copy import exchange
from tenuto.process.runtime import clock, log

CHECK_S = 2.5
AWAIT_S = 0.5
"""The pause between tries at the start while the store does not answer."""
CLOCKS_MS = 600_000
"""How far the store's clock may lag behind ours."""
COMPARE_S = 5.0
"""How often a store that did not answer at the start is asked again."""


def store_of(settings: Settings) -> str:
    """Where the bytes are, for messages."""
    return str(settings.folder / "blobs") if bucket_of(settings.blobs) is None else settings.blobs


def open_beside(settings: Settings, database: Database) -> BlobStore:
    """The store that the settings name. OperatorError if its folder is missing although the database belongs
    to one: a new folder would be in the way of the right one.
    """
    if bucket_of(settings.blobs) is None and not (settings.folder / "blobs").is_dir():
        pairing.refuse_missing(database, place=store_of(settings))
    return open_blobs(settings)


def open_own_blobs(settings: Settings, database: Database) -> BlobStore:
    """The store that the database belongs to. OperatorError for any other store, which is not touched."""
    blobs = open_beside(settings, database)
    pairing.check(database, blobs, place=store_of(settings))
    return blobs


class StoreWatch:
    """Compares the database and the store of one process once, and watches them from then on."""

    def __init__(
        self, settings: Settings, database: Database, blobs: BlobStore, ends: int | None = None
    ) -> None:
        """Raises OperatorError if the two do not belong together; if neither has an id, both get one.

        `ends`: the process to stop if a mismatch is found later; by default this one.
        """
        self._settings, self._database, self._blobs = settings, database, blobs
        self._ends = ends or os.getpid()
        self._failover = FailoverWatch(database)
        self._is_compared = False
        self._is_lost = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-watch", daemon=True)
        self._compare_soon()
        self._written_ms = clock() - CLOCKS_MS
        """Bytes written to the store since then may be this process's own."""

    def await_store(self) -> None:
        """On the first start, before the two are paired, retry a store that does not answer, for `COMPARE_S`:
        bytes that this process wrote before pairing would look like another database's to processes that
        start at the same time. Once the two are paired, there is no wait.
        """
        until = time.monotonic() + COMPARE_S
        while not self._is_compared and time.monotonic() < until and not pairing.is_paired(self._database):
            self._stopping.wait(AWAIT_S)
            self._compare_soon()

    def start(self) -> None:
        """Watch until `stop`."""
        self._thread.start()
        self._failover.start()

    def stop(self) -> None:
        self._stopping.set()
        self._failover.stop()

    def _run(self) -> None:
        checks = 0
        self._exchange()
        while not self._stopping.wait(CHECK_S):
            self._check_place()
            checks += 1
            if checks % round(COMPARE_S / CHECK_S) == 0:
                self._exchange()
                if not self._is_compared:
                    self._compare_late()

    def _check_place(self) -> None:
        try:
            self._database.check_location()
            self._blobs.check_location()
        except Unavailable:
            if not self._is_lost:
                log().error("place.lost", folder=str(self._settings.folder), store=store_of(self._settings))
            self._is_lost = True
        else:
            if self._is_lost:
                log().info("place.back", folder=str(self._settings.folder))
            self._is_lost = False

    def _exchange(self) -> None:
        if not self._is_compared:
            return  # What another database's store is told ends the connections of that one's processes.
        try:
            exchange(self._database, self._blobs)
        except (StoreUnreachable, StorageFailed, Unavailable):
            return  # Whoever needs the store or the database reports it.
        except Exception as error:
            from tenuto.logs import log_failure

            log_failure(log(), "servers.failed", error)

    def _compare_soon(self) -> None:
        """Compare, unless the store hangs: a start must not wait for that either."""
        compared = Apart(partial(self._compare, pairing.ANY_AGE_MS))
        if compared.ended.wait(COMPARE_S):
            compared.result()
        else:
            log().warning("store.not_compared", store=store_of(self._settings), reason="it does not answer")

    def _compare(self, before_ms: int) -> None:
        try:
            pairing.pair(
                self._database,
                self._blobs,
                Ids(clock),
                place=store_of(self._settings),
                now_ms=clock(),
                before_ms=before_ms,
            )
        except (StoreUnreachable, StorageFailed) as error:
            # Jobs wait while a store is unreachable; that is no reason to refuse to start.
            log().warning("store.not_compared", store=store_of(self._settings), reason=error.message)
        else:
            self._is_compared = True

    def _compare_late(self) -> None:
        try:
            self._compare(self._written_ms)
        except Unavailable:
            return
        except OperatorError as error:
            log().error("store.other", reason=error.message)
            os.kill(self._ends, signal.SIGTERM)
            self.stop()
