"""The thread that turns events into spans and sends them, in one of all workers that share a database."""

import time
from typing import TYPE_CHECKING

from tenuto.errors import Unavailable
from tenuto.features.telemetry import trace
from tenuto.features.telemetry.exporting import exporter
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Turn

if TYPE_CHECKING:
    from tenuto.features.telemetry.otlp import Telemetry

POLL_S = 1.0
HEARTBEAT_S = 5.0
SILENCE_S = 60.0
"""Longer than a request to a collector that does not answer."""
FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 30.0
LATEST_MS = 3_600_000
"""If the next event is older, all so far are skipped: a collector that was long away gets only new ones."""

__all__ = ["SpanExport", "exporter"]
_log = get_logger("tenuto.worker")


class SpanExport:
    """Chosen like the sender of webhooks: once the last one has sent no heartbeat for `SILENCE_S`.

    Two at once do no harm, since both give a span the same ids. While the collector accepts nothing, events
    wait in the database, and nothing waits in memory.
    """

    def __init__(self, telemetry: "Telemetry") -> None:
        self._telemetry = telemetry
        self._seen: tuple[str, int] = ("", -1)
        self._seen_since = float("-inf")
        self._heartbeat_at = float("-inf")
        self._pause_s = 0.0

    def run(self, turn: Turn) -> None:
        """Export until the worker stops. Spans of events are then left to the next exporter; those measured
        here have two seconds to be sent.
        """
        try:
            while not turn.stopping.wait(self._pause_s or POLL_S):
                self._export_all(turn)
        finally:
            self._telemetry.stop()

    def _export_all(self, turn: Turn) -> None:
        """Export what there is, if it is this process's turn."""
        try:
            while self._is_exporter(turn.context) and self._export(turn.context):
                if turn.stopping.is_set():
                    return
        except Unavailable:
            pass
        except Exception as error:
            log_failure(_log, "telemetry.failed", error)

    def _is_exporter(self, context: WorkerContext) -> bool:
        """Whether it is this process's turn; a heartbeat every few seconds shows that it is alive."""
        database, now, me = context.database, time.monotonic(), context.worker_id
        if self._seen[0] == me and now - self._heartbeat_at < HEARTBEAT_S:
            return True
        holder, beat = database.write(trace.observe)
        if (holder, beat) != self._seen:
            self._seen, self._seen_since = (holder, beat), now
        if holder not in ("", me) and now - self._seen_since < SILENCE_S:
            return False
        if not database.write(lambda tx: trace.hold(tx, me, before=holder, beat=beat)):
            return False
        self._seen, self._heartbeat_at = (me, beat + 1), now
        return True

    def _export(self, context: WorkerContext) -> bool:
        """Send the spans of a page of events; returns whether there may be more to send."""
        database, me = context.database, context.worker_id
        events = database.read(trace.next_events)
        if not events:
            return False
        if events[0].at < context.clock() - LATEST_MS:
            _log.warning("telemetry.skipped", older_than_s=LATEST_MS // 1000)
            database.write(lambda tx: trace.skip(tx, me))
            return False
        if not self._telemetry.export([span for event in events for span in trace.spans_of(event)]):
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            return False
        self._pause_s = 0.0
        mark = events[-1].mark
        database.write(lambda tx: trace.stand(tx, me, mark))
        return len(events) == trace.PAGE
