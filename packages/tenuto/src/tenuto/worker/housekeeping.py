"""A worker's long tasks: sweeping bytes that nothing refers to, auditing our records, retention.

With millions of jobs, or a store that stalls, each takes minutes: it has a thread of its own, so that rescues
continue, and rests for as long as it works, so that requests do. Sweep and audit are due once an hour and are
done by one of all workers; but every worker removes, now and then, what a sweep has condemned.
"""

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from functools import partial

from tenuto import failpoints
from tenuto.errors import ArtifactUnavailable, Unavailable
from tenuto.features.audit import audit, runs
from tenuto.features.audit.audit import Report
from tenuto.features.audit.check import Finding
from tenuto.file import operations as artifacts
from tenuto.file.erasure import Patience, remove
from tenuto.file.operations import ORPHAN_AGE_MS, SWEEP_BATCH
from tenuto.job import erasure
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext

ROWLESS_LIMIT = 200
"""The most blobs without a row that one sweep condemns; the next one continues."""
NAMES_PER_READ = 500
HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
AUDIT_S = 300.0
"""How long an hourly audit looks through all records, rests not counted; the next one continues."""
RECENT_MS = 2 * runs.EVERY_MS
"""How far back an audit also looks if it did not get through all records."""

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
"""glibc's function that returns the free memory of all arenas to the system; other C libraries lack it."""
_log = get_logger("tenuto.worker")


class BackgroundThread:
    """At most one piece of work at a time, in a thread of its own. `failed` logs what it raises."""

    def __init__(self, name: str, failed: Callable[[Exception], None]) -> None:
        self._name = name
        self._failed = failed
        self._thread: threading.Thread | None = None
        self.stopping = threading.Event()

    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def begin(self, work: Callable[[], None]) -> None:
        """Start the work, unless the last piece is still running."""
        if self.is_running():
            return
        # What a finished thread had cached stays in its arena, and there can be eight arenas for each core.
        if _trim is not None:
            _trim(0)
        thread = threading.Thread(target=self._run, args=(work,), name=self._name, daemon=True)
        thread.start()
        # Set only once it runs: `stop` joins it.
        self._thread = thread

    def join(self, timeout_s: float) -> None:
        """Wait for the work that is running, if any."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def stop(self) -> None:
        """Abandon what is running; nothing is lost, and another worker does it when it is due again."""
        self.stopping.set()
        self.join(10)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._failed(error)


class Pace:
    """Paces long work done in portions: a rest after each, as long as it took, and a limit on the total."""

    def __init__(self, stopping: threading.Event, *, most_s: float = float("inf")) -> None:
        self._stopping = stopping
        self._left_s = most_s
        self._resumed_at: float | None = None

    def is_enough(self) -> bool:
        """Rest, except before the first portion. Whether to end: time is up, or the worker stops."""
        if self._resumed_at is None:
            self._resumed_at = time.monotonic()
            return self._stopping.is_set()
        worked_s = time.monotonic() - self._resumed_at
        self._left_s -= worked_s
        if self._left_s <= 0 or self._stopping.wait(worked_s):
            return True
        self._resumed_at = time.monotonic()
        return False


class Sweeper:
    """Removes the bytes that nothing refers to. Called now and then, it checks whether it is due."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self.thread = BackgroundThread("sweep", self._failed)

    def look(self) -> None:
        """Begin, unless the last sweep is still running. Call it only while the wall clock can be trusted."""
        self.thread.begin(self._sweep)

    def remove(self) -> None:
        """Remove only what was condemned; a sweep that is running ends with that anyway."""
        self.thread.begin(self._remove)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Unavailable | ArtifactUnavailable):
            _log.warning("sweep.not_possible", reason=error.message)
        else:
            log_failure(_log, "sweep.failed", error)

    def _sweep(self) -> None:
        """Mark in a transaction that sees no reference, then remove the bytes, then the row."""
        context, now_ms = self._context, self._context.clock()
        if context.database.write(lambda tx: artifacts.begin_sweep(tx, context.worker_id, now_ms=now_ms)):
            self._condemn_rowless(now_ms)
            self._condemn_orphans(now_ms)
        failpoints.hit("sweep.after_condemn")
        self._remove()

    def _remove(self) -> None:
        remove_condemned(self._context, is_enough=Pace(self.thread.stopping).is_enough)

    def _condemn_rowless(self, now_ms: int) -> None:
        """Condemn bytes whose writer died before it could record them."""
        context, pace = self._context, Pace(self.thread.stopping)
        names = context.blobs.ids(older_than_ms=now_ms - ORPHAN_AGE_MS)
        rowless: list[str] = []
        while len(rowless) < ROWLESS_LIMIT and (some := list(itertools.islice(names, NAMES_PER_READ))):
            if pace.is_enough():
                return
            known = context.database.read(lambda tx, some=some: artifacts.known(tx, some))  # type: ignore[misc]
            rowless += [name for name in some if name not in known]
        context.database.write(
            lambda tx: artifacts.condemn_rowless(tx, rowless[:ROWLESS_LIMIT], now_ms=now_ms)
        )

    def _condemn_orphans(self, now_ms: int) -> None:
        """Condemn rows of bytes that nothing refers to, page by page; only pages with one are written to."""
        database, after, pace = self._context.database, "", Pace(self.thread.stopping)
        while not pace.is_enough():
            last = database.read(lambda tx, after=after: artifacts.page_of_blobs(tx, after))  # type: ignore[misc]
            if last is None:
                return
            look = partial(artifacts.has_orphans, now_ms=now_ms, page=(after, last))
            if database.read(look):
                database.write(partial(artifacts.condemn_orphans, now_ms=now_ms, page=(after, last)))
            after = last


def remove_condemned(context: WorkerContext, *, is_enough: Callable[[], bool]) -> None:
    """Remove what a sweep condemned, and what was erased while a backup was in progress.

    Bytes that cannot be removed do not block others; the log names some of them. `is_enough` is called before
    each portion.
    """
    patience, count = Patience(), SWEEP_BATCH
    stuck: list[str] = []
    while count == SWEEP_BATCH and not patience.is_over() and not is_enough():
        condemned = context.database.read(partial(artifacts.condemned, skip=len(stuck)))
        left = remove(context.database, context.blobs, condemned, patience)
        count = len(condemned)
        stuck += left
        if count > len(left):
            _log.info("blobs.swept", count=count - len(left))
    _log_stuck(stuck[:SWEEP_BATCH])


class Auditor:
    """Audits the service's own records. Called now and then, it checks whether it is due."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self.thread = BackgroundThread("audit", self._failed)

    def look(self, *, trusts_the_clock: bool) -> None:
        """Begin an audit if one is due. Without a trusted clock, nothing is reported as too old."""
        if self.thread.is_running():
            return
        context, now_ms = self._context, self._context.clock()
        if not context.database.read(lambda tx: runs.is_due(tx, now_ms=now_ms)):
            return
        if context.database.write(lambda tx: runs.begin(tx, context.worker_id, now_ms=now_ms)):
            self.thread.begin(lambda: self._audit(now_ms if trusts_the_clock else None))

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Unavailable):
            _log.warning("audit.not_possible", reason=error.message)
        else:
            log_failure(_log, "audit.failed", error)

    def _audit(self, now_ms: int | None) -> None:
        """Continue through all records; unless one audit covers them all, look at recent ones, too."""
        context, began, stopping = self._context, time.monotonic(), self.thread.stopping
        progress = context.database.read(runs.progress)
        is_beginning = progress.position is None
        # First, and logged at once: damage may keep the rest from being read.
        damaged = self._damage() if is_beginning else []
        recent = Report([], {})
        try:
            pace = Pace(stopping, most_s=AUDIT_S)
            look = audit.report(
                context.database, now_ms=now_ms, start=progress.position, is_enough=pace.is_enough
            )
            if not is_beginning or look.stopped_at is not None:
                recent = self._look_at_recent(now_ms)
        except Unavailable:
            damaged = damaged or self._damage()
            if not damaged:
                raise
            look = Report([], {})
        if stopping.is_set():
            return
        _log_findings([*look.findings, *recent.findings])
        look.findings[:0] = damaged
        rows, ended_at = sum([*look.rows.values(), *recent.rows.values()]), context.clock()
        progress = progress.after(look)
        context.database.write(
            lambda tx: runs.end(tx, context.worker_id, progress, recent, rows=rows, now_ms=ended_at)
        )
        _log.info(
            "audit.finished",
            rows=rows,
            findings=len(look.findings) + len(recent.findings),
            continues_at=None if look.stopped_at is None else look.stopped_at.table,
            took_ms=round((time.monotonic() - began) * 1000),
        )

    def _damage(self) -> list[Finding]:
        damaged = audit.database_damage(
            self._context.database, deep=False, stopping=self.thread.stopping.is_set
        )
        _log_findings(damaged)
        return damaged

    def _look_at_recent(self, now_ms: int | None) -> Report:
        pace, since_ms = Pace(self.thread.stopping), self._context.clock() - RECENT_MS
        return audit.report(
            self._context.database, now_ms=now_ms, since_ms=since_ms, is_enough=pace.is_enough
        )


def _log_findings(findings: list[Finding]) -> None:
    for finding in findings:
        seen = finding.seen if finding.check == audit.DATABASE_DAMAGED else {}
        _log.error("audit.finding", check=finding.check, subject=finding.subject, what=finding.what, **seen)


class Retention:
    """Erases what the operator's settings keep for a limited time only."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self.thread = BackgroundThread("retention", self._failed)

    def look(self, *, now_ms: int) -> None:
        """Begin, unless the last round is still running.
        Call it only while the wall clock can be trusted: nothing brings back what it erases.
        """
        pace = Pace(self.thread.stopping)
        self.thread.begin(lambda: retain(self._context, now_ms=now_ms, is_enough=pace.is_enough))

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Unavailable):
            _log.warning("retention.not_possible", reason=error.message)
        else:
            log_failure(_log, "retention.failed", error)


def retain(context: WorkerContext, *, now_ms: int, is_enough: Callable[[], bool] = lambda: False) -> None:
    """Erase recordings that were sent with jobs, some hours after those have ended.

    And, if the operator enabled it, whatever is older than the setting allows: requests and results of jobs
    that have ended, and inputs that no open job needs; never segments or voices. `is_enough` is called before
    each transaction; what is left then is erased by the next round.
    """
    if hours := context.settings.openai_inputs_h:
        ended_before = now_ms - hours * HOUR_MS
        erase = partial(erasure.retain_inputs_of_ended, ended_before=ended_before, now_ms=now_ms)
        _retain_inputs(context, erase, is_enough)
    if context.settings.retention_days == 0:
        return
    before = now_ms - context.settings.retention_days * DAY_MS
    count = erasure.RETENTION_BATCH
    while count == erasure.RETENTION_BATCH and not is_enough():
        count, blobs = context.database.write(
            lambda tx: erasure.retain_jobs(tx, ended_before=before, now_ms=now_ms)
        )
        _remove_retained(context, blobs, jobs=count)
    erase = partial(erasure.retain_inputs, created_before=before, now_ms=now_ms)
    _retain_inputs(context, erase, is_enough)


def _retain_inputs(
    context: WorkerContext,
    erase: Callable[..., tuple[str | None, list[str]]],
    is_enough: Callable[[], bool],
) -> None:
    """Call `erase`, each time from the id where it stopped, until all is erased or the round is over."""
    after: str | None = ""
    while after is not None and not is_enough():
        after, blobs = context.database.write(partial(erase, after=after))
        _remove_retained(context, blobs, jobs=0)


def _remove_retained(context: WorkerContext, blobs: list[str], *, jobs: int) -> None:
    if blobs or jobs:
        _log_stuck(remove(context.database, context.blobs, blobs))
        _log.info("retention.erased", jobs=jobs, blobs=len(blobs))


def _log_stuck(blobs: list[str]) -> None:
    for blob_id in blobs:
        _log.error("blob.not_removed", blob_id=blob_id)
