"""The loop that makes messages to webhooks and has them sent: in one of all workers that share a database."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing

from tenuto.db.database import Listener
from tenuto.errors import Unavailable
from tenuto.features.events.feed import Position
from tenuto.features.webhooks import operations as webhooks
from tenuto.features.webhooks.delivery_threads import THREADS_OF_ACCOUNT, TOPIC, DeliveryThreads
from tenuto.features.webhooks.settings import WebhookSettings
from tenuto.logs import get_logger, log_failure
from tenuto.money.rules import parse_cny
from tenuto.worker.context import WorkerContext
from tenuto.worker.duties import Duty, Turn
from tenuto.worker.watch import Watch

POLL_S = 1.0
PAUSE_S = 0.05
HEARTBEAT_S = 3.0
SILENCE_S = 12.0
"""At least three heartbeats."""
MAX_DUE = 2_000
"""How many webhooks are chosen from at once."""
FORGET_S = 600.0

_log = get_logger("tenuto.worker")


def duties(watch: Watch) -> list[Duty]:
    """None if webhooks are off."""
    return (
        []
        if watch.settings.of(WebhookSettings).webhooks == "off"
        else [Duty("webhooks", send, thread="webhooks")]
    )


def send(turn: Turn) -> None:
    """Until the worker stops."""
    context = turn.context

    def trusts_clock() -> bool:
        # The turn's own moment is long ago.
        return turn.clock_trust.is_trusted(context.clock(), time.monotonic())

    DeliveryLoop(context, turn.stopping, trusts_clock=trusts_clock).run()


class DeliveryLoop:
    """Makes and sends messages to webhooks, in one of all processes that share a database.

    While there are no webhooks, it only checks for one every `POLL_S`; a process that is not the sender is
    not woken by changes. A process takes over once the last sender has sent no heartbeat for `SILENCE_S`, on
    its own monotonic clock, as dead workers are recognised. Two at once, after a process that stood still
    wakes up, do no harm: each record is fenced, and a message that is sent twice has the same id both times.
    """

    def __init__(
        self, context: WorkerContext, stopping: threading.Event, *, trusts_clock: Callable[[], bool]
    ) -> None:
        self._context = context
        self._stopping = stopping
        self._trusts_clock = trusts_clock
        own = context.settings.of(WebhookSettings)
        self._low_micros = parse_cny(own.low_balance)
        self._seen: tuple[str, int] = ("", -1)
        self._seen_since = float("-inf")
        self._heartbeat_at = float("-inf")
        self._forget_at = self._balances_at = 0.0
        self._end: Position | None = None
        """The position after the newest event whose messages have been made."""
        self.threads = DeliveryThreads(context, is_public=own.webhooks == "public", trusts_clock=trusts_clock)

    def run(self) -> None:
        """Until the worker stops. Messages being sent are not waited for: they are sent again, under the same
        ids.
        """
        self.threads.start()
        try:
            self._run()
        finally:
            self.threads.stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._context.database.read(webhooks.are_wanted) and self._is_sender():
                    with closing(self._context.database.listen(TOPIC)) as listener:
                        self._serve(listener)
            except (Unavailable, OSError):
                pass  # The database is away, or the machine lacks something such as descriptors.
            except Exception as error:
                log_failure(_log, "webhooks.failed", error)
            self._stopping.wait(POLL_S)

    def _serve(self, listener: Listener) -> None:
        """Be the sender until another process is, or the last webhook is removed."""
        try:
            while not self._stopping.is_set() and self._is_sender() and self._check():
                listener.wait(POLL_S)
                self._stopping.wait(PAUSE_S)
        finally:
            self.threads.pause()

    def _is_sender(self) -> bool:
        """Whether it is this process's turn; a heartbeat every few seconds shows that it is alive."""
        now, me = time.monotonic(), self._context.worker_id
        if self._seen[0] == me and now - self._heartbeat_at < HEARTBEAT_S:
            return True
        holder, beat = self._context.database.write(webhooks.observe)
        if (holder, beat) != self._seen:
            self._seen, self._seen_since = (holder, beat), now
        if holder not in ("", me) and now - self._seen_since < SILENCE_S:
            return False
        if not self._context.database.write(lambda tx: webhooks.hold(tx, me, before=holder, beat=beat)):
            return False
        if holder != me:
            _log.info("webhooks.taken_over", worker_id=me)
        self._seen, self._heartbeat_at = (me, beat + 1), now
        return True

    def _check(self) -> bool:
        """Make the messages of new events, and send those that are due; returns whether to go on."""
        context = self._context
        end = context.database.read(webhooks.news)
        if end is None:
            return False
        if end != self._end and not self._make():
            self._seen = ("", -1)
            return False
        self._end = end
        self._check_balances()
        now_ms = context.clock()
        due, has_removed = context.database.read(
            lambda tx: (
                webhooks.due(tx, of_account=THREADS_OF_ACCOUNT, limit=MAX_DUE, now_ms=now_ms),
                webhooks.has_removed(tx),
            )
        )
        self.threads.begin(due)
        if time.monotonic() >= self._forget_at and self._trusts_clock():
            has_more = context.database.write(lambda tx: webhooks.forget(tx, now_ms=now_ms))
            self._forget_at = time.monotonic() + (0.0 if has_more else FORGET_S)
        if has_removed:
            context.database.write(webhooks.remove_rows)
        return True

    def _check_balances(self) -> None:
        """Make the messages of low balances, at most once every `POLL_S`."""
        context, low_micros = self._context, self._low_micros
        if time.monotonic() < self._balances_at:
            return
        self._balances_at = time.monotonic() + POLL_S
        if context.database.read(lambda tx: webhooks.has_crossed(tx, low_micros=low_micros)):
            now_ms = context.clock()
            informed = context.database.write(
                lambda tx: webhooks.note_balances(tx, context.ids, low_micros=low_micros, now_ms=now_ms)
            )
            self._end_surplus(informed, now_ms)

    def _make(self) -> bool:
        """Make messages up to the newest event; returns whether this process is still the sender."""
        context = self._context
        is_sender, count = True, 1
        while is_sender and count and not self._stopping.is_set():
            now_ms = context.clock()
            made, count, is_sender = context.database.write(
                lambda tx, now_ms=now_ms: webhooks.make_deliveries(  # type: ignore[misc]
                    tx, context.ids, context.worker_id, now_ms=now_ms
                )
            )
            self._end_surplus(made, now_ms)
        return is_sender

    def _end_surplus(self, made: Iterable[str], now_ms: int) -> None:
        """Too many messages wait: those that have failed for that are missed by nobody who reads the log."""
        webhook_ids = list(made)
        if webhook_ids:
            ended = self._context.database.write(
                lambda tx: webhooks.end_surplus(tx, webhook_ids, now_ms=now_ms)
            )
            for webhook_id, count in ended.items():
                _log.warning("webhook.surplus", webhook_id=webhook_id, messages=count)
