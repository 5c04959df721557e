"""The sweep: bytes that nothing refers to are condemned in a transaction that sees none, then removed.

Condemning is due once an hour and is done by one of all workers; but every worker removes, now and then, what
was condemned.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tenuto import failpoints
from tenuto.errors import ArtifactUnavailable, Unavailable
from tenuto.file import operations as artifacts
from tenuto.file.erasure import Patience
from tenuto.file.erasure import remove as remove_bytes
from tenuto.file.operations import ORPHAN_AGE_MS, SWEEP_BATCH
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Pace, Turn

ROWLESS_LIMIT = 200
"""The most blobs without a row that one sweep condemns; the next one continues."""
NAMES_PER_READ = 500

_log = get_logger("tenuto.worker")


def sweep(turn: Turn) -> None:
    """Mark in a transaction that sees no reference, then remove the bytes, then the row."""
    with _logged():
        context, now_ms = turn.context, turn.now_ms
        if context.database.write(lambda tx: artifacts.begin_sweep(tx, context.worker_id, now_ms=now_ms)):
            _condemn_rowless(turn, now_ms)
            _condemn_orphans(turn, now_ms)
        failpoints.hit("sweep.after_condemn")
        remove_condemned(context, rest=Pace(turn.stopping).rest)


def remove(turn: Turn) -> None:
    """Remove only what was condemned."""
    with _logged():
        remove_condemned(turn.context, rest=Pace(turn.stopping).rest)


@contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except (Unavailable, ArtifactUnavailable) as error:
        _log.warning("sweep.not_possible", reason=error.message)
    except Exception as error:
        log_failure(_log, "sweep.failed", error)


def _condemn_rowless(turn: Turn, now_ms: int) -> None:
    """Condemn bytes whose writer died before it could record them."""
    context, pace = turn.context, Pace(turn.stopping)
    names = context.blobs.ids(older_than_ms=now_ms - ORPHAN_AGE_MS)
    rowless: list[str] = []
    while len(rowless) < ROWLESS_LIMIT and (some := list(itertools.islice(names, NAMES_PER_READ))):
        if not pace.rest():
            return
        known = context.database.read(lambda tx, some=some: artifacts.known(tx, some))  # type: ignore[misc]
        rowless += [name for name in some if name not in known]
    context.database.write(lambda tx: artifacts.condemn_rowless(tx, rowless[:ROWLESS_LIMIT], now_ms=now_ms))


def _condemn_orphans(turn: Turn, now_ms: int) -> None:
    """Condemn rows of bytes that nothing refers to, page by page; only pages with one are written to."""
    database, after, pace = turn.context.database, "", Pace(turn.stopping)
    while pace.rest():
        last = database.read(lambda tx, after=after: artifacts.page_of_blobs(tx, after))  # type: ignore[misc]
        if last is None:
            return
        has_orphans = partial(artifacts.has_orphans, now_ms=now_ms, page=(after, last))
        if database.read(has_orphans):
            database.write(partial(artifacts.condemn_orphans, now_ms=now_ms, page=(after, last)))
        after = last


def remove_condemned(context: WorkerContext, *, rest: Callable[[], bool]) -> None:
    """Remove what a sweep condemned, and what was erased while a backup was in progress.

    Bytes that cannot be removed do not block others; the log names some of them. `rest` is called before each
    portion, and ends the work if it returns False.
    """
    patience, count = Patience(), SWEEP_BATCH
    stuck: list[str] = []
    while count == SWEEP_BATCH and not patience.is_over() and rest():
        condemned = context.database.read(partial(artifacts.condemned, skip=len(stuck)))
        left = remove_bytes(context.database, context.blobs, condemned, patience)
        count = len(condemned)
        stuck += left
        if count > len(left):
            _log.info("blobs.swept", count=count - len(left))
    log_stuck(stuck[:SWEEP_BATCH])


def log_stuck(blobs: list[str]) -> None:
    """Log bytes that could not be removed."""
    for blob_id in blobs:
        _log.error("blob.not_removed", blob_id=blob_id)
