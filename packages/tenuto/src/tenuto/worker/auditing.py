"""The service's audit of its own records, once an hour by one worker, in a thread of its own.

It may take minutes where there are millions of jobs, and nobody waits for it: rescues go on meanwhile.
"""

import threading
import time

from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.jobs import audit
from tenuto.jobs.audit import Report, runs
from tenuto.logs import get_logger
from tenuto.worker.context import WorkerContext

_log = get_logger("tenuto.worker")


class Auditor:
    """Asked now and then whether it is time; at most one audit goes on."""

    def __init__(self, context: WorkerContext) -> None:
        self._context = context
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def look(self, *, trusts_the_clock: bool) -> None:
        """Begin an audit where one is due; without a clock to trust, nothing is said of what is too old."""
        if self._thread is not None and self._thread.is_alive():
            return
        context, now_ms = self._context, self._context.clock()
        if not context.database.read(lambda tx: runs.is_due(tx, now_ms=now_ms)):
            return
        if context.database.write(lambda tx: runs.begin(tx, context.worker_id, now_ms=now_ms)):
            thread = threading.Thread(
                target=self._run, args=(now_ms if trusts_the_clock else None,), name="audit", daemon=True
            )
            thread.start()
            # Known only once it runs: whoever stops us joins it.
            self._thread = thread

    def join(self, timeout_s: float) -> None:
        """Wait for the audit that goes on, if one does."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def stop(self) -> None:
        """Give up what goes on; another worker does it when the hour is over."""
        self._stopping.set()
        self.join(10)

    def _run(self, now_ms: int | None) -> None:
        try:
            self._audit(now_ms)
        except Unavailable:
            _log.warning("audit.not_possible")
        except Exception:
            _log.exception("audit.failed")

    def _audit(self, now_ms: int | None) -> None:
        context, began = self._context, time.monotonic()

        def look(tx: Transaction) -> Report:
            return audit.report(tx, now_ms=now_ms, stopping=self._stopping.is_set)

        # First, and told at once: damage may keep the rest from being read.
        damaged = audit.database_damage(context.database, deep=False, stopping=self._stopping.is_set)
        for finding in damaged:
            _log.error(
                "audit.finding",
                check=finding.check,
                subject=finding.subject,
                what=finding.what,
                **finding.seen,
            )
        try:
            report = context.database.snapshot(look)
        except Unavailable:
            if not damaged:
                raise
            report = Report([], {})
        if self._stopping.is_set():
            return
        for finding in report.findings:
            _log.error("audit.finding", check=finding.check, subject=finding.subject, what=finding.what)
        report.findings[:0] = damaged
        ended_at = context.clock()
        context.database.write(lambda tx: runs.end(tx, context.worker_id, report, now_ms=ended_at))
        _log.info(
            "audit.finished",
            rows=sum(report.rows.values()),
            findings=len(report.findings),
            took_ms=round((time.monotonic() - began) * 1000),
        )
