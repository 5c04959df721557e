"""The sweep of bytes that nothing refers to, in a thread of its own: of millions, or by a store that stalls,
it takes minutes.

What is condemned is removed by every worker, now and then; looking for what to condemn, which reads every
blob's name and row, is done once an hour by one of them. Nobody waits for it: rescues go on meanwhile.
"""

import itertools
import threading
from collections.abc import Callable

from tenuto import failpoints
from tenuto.artifacts import erasure
from tenuto.artifacts import operations as artifacts
from tenuto.artifacts.operations import ORPHAN_AGE_MS
from tenuto.errors import ArtifactUnavailable, Unavailable
from tenuto.logs import get_logger
from tenuto.worker.context import WorkerContext

ROWLESS_LIMIT = 200
"""So many blobs without a row one sweep condemns at most; the next one goes on."""
LOOKED_UP = 500
"""So many names are looked up at once."""

_log = get_logger("tenuto.worker")


class Sweeper:
    """Asked now and then whether it is time; at most one sweep goes on."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin, unless the last one goes on still. Call it only while the wall clock can be trusted."""
        self._begin(self._sweep)

    def remove(self) -> None:
        """Only what was condemned; unless a sweep goes on, which ends with that."""
        self._begin(lambda: remove_condemned(self._context))

    def join(self, timeout_s: float) -> None:
        """Wait for the sweep that goes on, if one does."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def stop(self) -> None:
        """Give up what goes on; nothing of it is lost."""
        self._stopping.set()
        self.join(10)

    def _begin(self, work: Callable[[], None]) -> None:
        if self._thread is not None and self._thread.is_alive():
            return
        thread = threading.Thread(target=self._run, args=(work,), name="sweep", daemon=True)
        thread.start()
        # Known only once it runs: whoever stops us joins it.
        self._thread = thread

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (Unavailable, ArtifactUnavailable):
            _log.warning("sweep.not_possible")
        except Exception:
            _log.exception("sweep.failed")

    def _sweep(self) -> None:
        """Mark in a transaction that sees no reference, then remove the bytes, then the row."""
        context, now_ms = self._context, self._context.clock()
        if context.database.write(lambda tx: artifacts.begin_sweep(tx, context.worker_id, now_ms=now_ms)):
            self._condemn_rowless(now_ms)
            self._condemn_orphans(now_ms)
        failpoints.hit("sweep.after_condemn")
        remove_condemned(context)

    def _condemn_rowless(self, now_ms: int) -> None:
        """Bytes whose writer died before it could record them."""
        context = self._context
        names = context.blobs.ids(older_than_ms=now_ms - ORPHAN_AGE_MS)
        rowless: list[str] = []
        while len(rowless) < ROWLESS_LIMIT and (some := list(itertools.islice(names, LOOKED_UP))):
            if self._stopping.is_set():
                return
            known = context.database.read(lambda tx, some=some: artifacts.known(tx, some))  # type: ignore[misc]
            rowless += [name for name in some if name not in known]
        context.database.write(
            lambda tx: artifacts.condemn_rowless(tx, rowless[:ROWLESS_LIMIT], now_ms=now_ms)
        )

    def _condemn_orphans(self, now_ms: int) -> None:
        """Rows of bytes that nothing refers to any more, page by page."""
        context, after = self._context, ""
        while not self._stopping.is_set():
            last = context.database.read(lambda tx, after=after: artifacts.page_of_blobs(tx, after))  # type: ignore[misc]
            if last is None:
                return
            context.database.write(
                lambda tx, page=(after, last): artifacts.condemn_orphans(tx, now_ms=now_ms, page=page)  # type: ignore[misc]
            )
            after = last


def remove_condemned(context: WorkerContext) -> None:
    """What a sweep condemned, and what was erased and could not be removed at once."""
    condemned = context.database.read(artifacts.condemned)
    stuck = erasure.remove(context.database, context.blobs, condemned)
    for blob_id in stuck:
        _log.error("blob.not_removed", blob_id=blob_id)
    if len(condemned) > len(stuck):
        _log.info("blobs.swept", count=len(condemned) - len(stuck))
