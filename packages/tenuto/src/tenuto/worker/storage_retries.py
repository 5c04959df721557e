"""An attempt's reads and writes, retried while the database, the store or the disk is unavailable.

Knows no kind of job.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from tenuto import failpoints
from tenuto.db.database import Transaction
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    Stale,
    StorageFailed,
    StoreUnreachable,
    StoreUnreachableForWrites,
    TenutoError,
    Unavailable,
    is_of_the_machine,
)
from tenuto.file import operations as artifacts
from tenuto.file.apart import Apart
from tenuto.file.blob import BlobRecord
from tenuto.file.reasons import reason
from tenuto.host.host import Cancelled, EngineFailed
from tenuto.logs import get_logger
from tenuto.worker.context import WorkerContext
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.heartbeat import Watched

T = TypeVar("T")

STORE_TRIES = 5
STORE_PAUSE_S = 0.5
AWAY_PAUSE_S = 10.0
LATE_S = 2.0
"""A store that takes longer for a result may never answer."""
PATIENCE_S = 60.0
"""How long a result waits for a folder that cannot be written if another machine may produce it again.
A result that was paid for waits as long as the process lives."""
WRITE_PAUSE_S = 0.2
READ_PAUSE_S = 2.0
READ_PATIENCE_S = 60.0
"""A read that fails for longer would occupy its lane's slot: the job waits in the queue instead."""

_log = get_logger("tenuto.worker")

LAST_TRY_S = 1.0
"""How long a call that has not ended still has when its attempt must end: most need milliseconds."""


class NotStored(TenutoError):
    """The worker had to stop before what it was paid for could be stored."""

    code = "storage_failed"
    evidence: str = ""


def unless_stopped(
    watched: Watched,
    work: Callable[[], T],
    *,
    late_s: float | None = None,
    when_late: Callable[[], object] = lambda: None,
) -> T:
    """What `work` returns or raises. If the attempt must end while it hangs, it is left to its own thread.

    Then Cancelled or NotStored is raised, as by `_pause`. `when_late` is called after `late_s`; it may raise.
    """
    woken = threading.Event()
    stop = watched.stop if watched.cancellable else watched.leave
    with stop.calling(woken.set), watched.leave.calling(woken.set):
        apart = Apart(work, woken.set)
        if not (stop.is_set() or watched.leave.is_set() or woken.wait(late_s)):
            when_late()
            woken.wait()
    if not apart.ended.wait(LAST_TRY_S):
        _end_if_stopped(watched, "it does not answer")
    return apart.result()


def store(
    context: WorkerContext,
    content: bytes,
    watched: Watched,
    *,
    patience_s: float | None,
    is_extra: bool = False,
    when_late: Callable[[], object] = lambda: None,
) -> BlobRecord:
    """Make bytes durable, retrying with growing pauses. Raises StorageFailed once `patience_s` is over.

    A store that is away or hangs is waited for, as the database is, unless the bytes are an extra: what was
    made, or paid for, is not given up. Without `patience_s` only the worker's stop ends the wait (NotStored).
    Cancelled: the attempt must stop. `when_late` is called if this takes longer than `LATE_S`.
    """

    def late() -> None:
        if is_extra:
            raise StoreUnreachableForWrites
        when_late()

    began, nth = time.monotonic(), 0
    blob_id = context.ids.new("blob")
    while True:
        nth += 1
        try:
            return unless_stopped(
                watched,
                partial(context.blobs.write, blob_id, content),
                late_s=patience_s if is_extra else LATE_S,
                when_late=late,
            )
        except Exception as error:
            if not isinstance(error, StorageFailed) and not is_of_the_machine(error):
                raise
            why = f"the store {reason(error.__cause__ or error)}"
            _log.error("blob.not_stored", attempt_id=watched.attempt_id, blob_id=blob_id, nth=nth, reason=why)
            is_away = isinstance(error, StoreUnreachableForWrites) and not is_extra
            if patience_s is not None and not is_away and time.monotonic() - began >= patience_s:
                raise
            if not isinstance(error, StoreUnreachableForWrites):
                blob_id = context.ids.new("blob")  # Remains of the last try may be in the way.
            when_late()
            _pause(watched, min(STORE_PAUSE_S * nth, AWAY_PAUSE_S), why)


def read(context: WorkerContext, operation: Callable[[Transaction], T]) -> T:
    """Run one read, retried while the database is away."""
    while True:
        try:
            return context.database.read(operation)
        except Exception as error:
            if not _passes(error):
                raise
            time.sleep(WRITE_PAUSE_S)


def write(context: WorkerContext, transition: Callable[[Transaction, int], T]) -> T:
    """Run one transition, retried while the database is away.

    A commit whose outcome is unknown is retried: if it succeeded, the fence raises Stale.
    """
    while True:
        now_ms = context.clock()
        try:
            return context.database.write(lambda tx: transition(tx, now_ms))  # noqa: B023 (called at once)
        except Exception as error:
            if not _passes(error):
                raise
            time.sleep(WRITE_PAUSE_S)


def write_if_soon(calls: EngineCalls, transition: Callable[[Transaction, int], T]) -> bool:
    """Run a transition; a paid attempt, which must keep its result, does without it if it comes too late.

    False: the database did not answer in `LATE_S`, the worker leaves, or the attempt is no longer the job's.
    """
    work = partial(write, calls.context, transition)
    if calls.claim.rerunnable:
        work()
        return True
    with suppress(StorageFailed, NotStored, Stale):
        unless_stopped(calls.watched, work, late_s=LATE_S, when_late=_too_late)
        return True
    return False


def _too_late() -> None:
    raise StorageFailed("The database does not answer.")


def _passes(error: Exception) -> bool:
    """Whether a retry may soon succeed: the database is away, or this machine lacks something."""
    return isinstance(error, Unavailable) or is_of_the_machine(error)


def _pause(watched: Watched, seconds: float, why: str) -> None:
    """Wait, unless the attempt must stop (Cancelled) or the whole worker must, at once (NotStored)."""
    woken = threading.Event()
    with watched.stop.calling(woken.set), watched.leave.calling(woken.set):
        if not watched.stop.is_set() and not watched.leave.is_set():
            woken.wait(seconds)
    _end_if_stopped(watched, why)


def _end_if_stopped(watched: Watched, why: str) -> None:
    """Cancelled: the attempt must stop, and can be made again. NotStored: the worker must, with what was paid
    for. In this order, as a worker that leaves has stopped its attempts before."""
    if watched.cancellable and (watched.stop.is_set() or watched.leave.is_set()):
        raise Cancelled(lost=False)
    if watched.leave.is_set():
        lost = NotStored("the worker had to stop with a result in memory that could not be stored")
        lost.evidence = why
        raise lost


def read_input(calls: EngineCalls, blob_id: str, what: str) -> bytes:
    """The bytes of an input; waits while the database or the store is away.

    Raises EngineFailed with `input_unreadable`: damaged bytes fail a job at once, missing ones after a few
    tries. StoreUnreachable: they still cannot be read after a minute. Cancelled: the attempt must stop.
    """
    record = input_record(calls.context, blob_id, what)
    try:
        read_all = partial(calls.context.blobs.read_all, record)
        content = when_back(calls.watched, read_all, patience_s=READ_PATIENCE_S)
        failpoints.hit("input.after_read")
        return content
    except StoreUnreachable:
        raise
    except CorruptBlob as error:
        raise EngineFailed("input_unreadable", f"{what} is damaged", transient=False) from error
    except ArtifactUnavailable as error:
        raise EngineFailed("input_unreadable", f"{what} cannot be read", transient=True) from error


def input_record(context: WorkerContext, blob_id: str, what: str) -> BlobRecord:
    """Where the bytes of an input are. Raises EngineFailed when they have been erased."""
    record = read(context, lambda tx: artifacts.blob_record(tx, blob_id))
    if record is None:
        raise EngineFailed("input_unreadable", f"{what} is not there any more", transient=False)
    return record


def when_back(watched: Watched, read_bytes: Callable[[], T], *, patience_s: float | None = None) -> T:
    """The result of a read, retried while the store is away: for a minute, or until the attempt must stop.

    `patience_s`: how long one read may take, for the store may hang; None: as long as it needs.
    """
    began = time.monotonic()

    def give_up() -> None:
        raise StoreUnreachable("The store does not answer.")

    while True:
        try:
            return unless_stopped(watched, read_bytes, late_s=patience_s, when_late=give_up)
        except StoreUnreachable as error:
            _log.warning("store.away", attempt_id=watched.attempt_id, reason=error.message)
            if time.monotonic() - began >= READ_PATIENCE_S:
                raise
        stopped = threading.Event()
        with watched.stop.calling(stopped.set):
            if watched.stop.is_set() or stopped.wait(READ_PAUSE_S):
                raise Cancelled(lost=False)
