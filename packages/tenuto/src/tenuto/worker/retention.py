"""Retention: what the operator's settings keep for a limited time only is erased after it."""

from collections.abc import Callable
from functools import partial

from tenuto.errors import Unavailable
from tenuto.file.erasure import remove
from tenuto.job import erasure
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Pace, Turn
from tenuto.worker.sweep import log_stuck

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS

_log = get_logger("tenuto.worker")


def apply(turn: Turn) -> None:
    """Erase what is due. Only while the wall clock can be trusted: nothing brings back what it erases."""
    try:
        retain(turn.context, now_ms=turn.now_ms, rest=Pace(turn.stopping).rest)
    except Unavailable as error:
        _log.warning("retention.not_possible", reason=error.message)
    except Exception as error:
        log_failure(_log, "retention.failed", error)


def retain(context: WorkerContext, *, now_ms: int, rest: Callable[[], bool] = lambda: True) -> None:
    """Erase recordings that were sent with jobs, some hours after those have ended.

    And, if the operator enabled it, whatever is older than the setting allows: requests and results of jobs
    that have ended, and inputs that no open job needs; never segments or voices. `rest` is called before each
    transaction; once it returns False, the next round erases what is left.
    """
    if hours := context.settings.openai_inputs_h:
        ended_before = now_ms - hours * HOUR_MS
        erase = partial(erasure.retain_inputs_of_ended, ended_before=ended_before, now_ms=now_ms)
        _retain_inputs(context, erase, rest)
    if context.settings.retention_days == 0:
        return
    before = now_ms - context.settings.retention_days * DAY_MS
    count = erasure.RETENTION_BATCH
    while count == erasure.RETENTION_BATCH and rest():
        count, blobs = context.database.write(
            lambda tx: erasure.retain_jobs(tx, ended_before=before, now_ms=now_ms)
        )
        _remove_retained(context, blobs, jobs=count)
    erase = partial(erasure.retain_inputs, created_before=before, now_ms=now_ms)
    _retain_inputs(context, erase, rest)


def _retain_inputs(
    context: WorkerContext,
    erase: Callable[..., tuple[str | None, list[str]]],
    rest: Callable[[], bool],
) -> None:
    """Call `erase`, each time from the id where it stopped, until all is erased or the round is over."""
    after: str | None = ""
    while after is not None and rest():
        after, blobs = context.database.write(partial(erase, after=after))
        _remove_retained(context, blobs, jobs=0)


def _remove_retained(context: WorkerContext, blobs: list[str], *, jobs: int) -> None:
    if blobs or jobs:
        log_stuck(remove(context.database, context.blobs, blobs))
        _log.info("retention.erased", jobs=jobs, blobs=len(blobs))
