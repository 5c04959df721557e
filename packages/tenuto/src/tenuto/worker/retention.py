"""The operator's retention: what is older than so many days is erased, where it was switched on.

Requests and results of jobs that have ended, and inputs that no open job needs; never segments or voices.
"""

from tenuto.artifacts.erasure import remove
from tenuto.db.database import Transaction
from tenuto.jobs import erasure
from tenuto.logs import get_logger
from tenuto.worker.context import WorkerContext

DAY_MS = 24 * 3600 * 1000
MAX_BATCHES = 50
"""So many transactions one round makes at most; the next round goes on."""

_log = get_logger("tenuto.worker")


def keep_to(context: WorkerContext, *, now_ms: int) -> None:
    """One round. Call it only while the wall clock can be trusted: nothing brings back what it erases."""
    if context.settings.retention_days == 0:
        return
    before = now_ms - context.settings.retention_days * DAY_MS
    for _ in range(MAX_BATCHES):
        count, blobs = context.database.write(
            lambda tx: erasure.retain_jobs(tx, ended_before=before, now_ms=now_ms)
        )
        _remove(context, blobs, jobs=count)
        if count < erasure.RETENTION_BATCH:
            break
    _inputs(context, before, now_ms)


def _inputs(context: WorkerContext, before: int, now_ms: int) -> None:
    after: str | None = ""
    for _ in range(MAX_BATCHES):
        if after is None:
            return

        def retain(tx: Transaction, start: str = after) -> tuple[str | None, list[str]]:
            return erasure.retain_inputs(tx, created_before=before, after=start, now_ms=now_ms)

        after, blobs = context.database.write(retain)
        _remove(context, blobs, jobs=0)


def _remove(context: WorkerContext, blobs: list[str], *, jobs: int) -> None:
    if blobs or jobs:
        for blob_id in remove(context.database, context.blobs, blobs):
            _log.error("blob.not_removed", blob_id=blob_id)
        _log.info("retention.erased", jobs=jobs, blobs=len(blobs))
