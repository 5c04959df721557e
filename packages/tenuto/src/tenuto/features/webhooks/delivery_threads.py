"""The threads that deliver messages: each sends those of one webhook, on one connection, while there are any.

Several may do so for one webhook. A server that does not answer holds a thread up for seconds, so there are
limits per account and in all. Knows nothing of events: what is to be sent is in the database.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count, islice

from tenuto import failpoints
from tenuto.errors import Unavailable
from tenuto.features.webhooks import operations as webhooks
from tenuto.features.webhooks.http_post import Answer, Connection
from tenuto.features.webhooks.operations import Outcome, Outgoing
from tenuto.features.webhooks.rows import DueRow
from tenuto.features.webhooks.rules import signature
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext

TOPIC = "changes"
THREADS = 80
THREADS_OF_ACCOUNT = 8
THREADS_IN_COMMON = 32
"""Threads: in all, of an account, and in all until an account may have only one more. So if the servers of 51
accounts hang, the next account's message still goes out. As many again are for sound webhooks, whose last
message was delivered; only they have more than one each."""
TURN_S = 1.0
"""How long a thread takes further messages, before it is another webhook's turn."""
MESSAGES_AT_ONCE = 16
MESSAGES_S = 0.1
"""How many messages one read brings, and for how long they are sent without another look at the webhook."""
OUTCOMES_AT_ONCE = 200
MAX_OUTCOMES = 400
"""While so many wait to be recorded, nothing more is sent."""
PAUSE_S = 1.0
"""Before outcomes are recorded again that could not be."""
ASIDE_S = 300.0
"""How long a message is left alone whose outcome the database does not take."""
MAX_TURNS = 10_000
"""How many accounts' last turns are remembered."""
CLOSE_S = 2.0

_log = get_logger("tenuto.worker")


class _Queue:
    """A webhook to which messages are being sent. The lock of `DeliveryThreads` guards it."""

    def __init__(self, one: DueRow) -> None:
        self.webhook_id = one.webhook_id
        self.account_id = one.account_id
        self.is_sound = bool(one.is_sound)
        self.threads = 0
        self.read: deque[Outgoing] = deque()
        """Messages that are nobody's yet, and may be sent until then on the monotonic clock."""
        self.read_until = 0.0
        self.is_reading = False
        self.has_more = True
        """Whether something may have become due since the last read began."""
        self.is_over = False
        """Whether no thread is to take another message."""


class DeliveryThreads:
    """All threads that send, and one that records how that ended, many outcomes in one transaction.

    A message is nobody's until a thread takes it from its webhook's queue, and then in progress until its
    outcome is recorded. If this process dies before, it is sent again, under the same id.
    """

    def __init__(self, context: WorkerContext, *, is_public: bool, trusts_clock: Callable[[], bool]) -> None:
        self._context = context
        self._trusts_clock = trusts_clock
        self._is_public = is_public
        self._changed = threading.Condition()
        self._is_open = False
        self._queues: dict[str, _Queue] = {}
        self._threads: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        """How many threads an account has, for its sound webhooks and for its others."""
        self._short: set[tuple[bool, str]] = set()
        """The accounts that have another webhook to be sent to and no thread for it."""
        self._turns: dict[str, int] = {}
        """The number of the thread that last began for an account, oldest first."""
        self._numbers = count(1)
        self.in_progress: dict[str, str] = {}
        """The webhook of each message that a thread has taken, until its outcome is recorded."""
        self._outcomes: deque[Outcome] = deque()
        self._aside: deque[tuple[float, str]] = deque()
        self._stopping = threading.Event()
        self._recorder = threading.Thread(target=self._record, name="webhook-outcomes", daemon=True)

    def start(self) -> None:
        self._recorder.start()

    def stop(self) -> None:
        """Record what has ended. Messages being sent are not waited for: they are sent again."""
        self.pause()
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()
        self._recorder.join(CLOSE_S)

    def pause(self) -> None:
        """Let no thread take another message, until `begin`."""
        with self._changed:
            self._is_open = False

    def begin(self, due: Iterable[DueRow]) -> None:
        """Send to the webhooks that have messages due: accounts in turn, sound webhooks apart."""
        with self._changed:
            self._is_open = not self._stopping.is_set()
            self._take_back()
            self._short.clear()
            for one in sorted(due, key=lambda one: self._turns.get(one.account_id, 0)):
                queue = self._queues.get(one.webhook_id)
                if queue is not None:
                    queue.has_more = True
                if self._may_begin(queue or one):
                    self._begin(queue or _Queue(one))
                elif queue is None:
                    self._short.add((bool(one.is_sound), one.account_id))

    # --- who may send; all of these hold the lock -------------------------------------------------------

    def _may_begin(self, one: DueRow | _Queue) -> bool:
        """Whether one more thread may send to this webhook."""
        is_sound = bool(one.is_sound)
        if isinstance(one, _Queue) and (one.is_over or not is_sound):
            return False
        count, own = self._threads[is_sound].total(), self._threads[is_sound][one.account_id]
        most = self._share(is_sound) if count < THREADS_IN_COMMON else 1
        return len(self._outcomes) < MAX_OUTCOMES and count < THREADS and own < most

    def _share(self, is_sound: bool) -> int:
        """How many threads each account may have that has any."""
        return max(1, min(THREADS_OF_ACCOUNT, THREADS_IN_COMMON // max(1, len(self._threads[is_sound]))))

    def _may_continue(self, queue: _Queue, until: float) -> bool:
        """Whether a thread may take another message, or makes room for another webhook or account."""
        if not self._is_open or queue.is_over or time.monotonic() >= until:
            return False
        if len(self._outcomes) >= MAX_OUTCOMES:
            return False
        own = self._threads[queue.is_sound][queue.account_id]
        has_room = (
            own <= self._share(queue.is_sound) and (queue.is_sound, queue.account_id) not in self._short
        )
        return queue.threads == 1 or has_room

    def _begin(self, queue: _Queue) -> None:
        """Start a thread, and note its account's turn. Unavailable: there is none."""
        # Not in a pool: a process waits for a pool's threads when it exits.
        thread = threading.Thread(target=self._serve, args=(queue,), name="webhook", daemon=True)
        self._turns.pop(queue.account_id, None)
        self._turns[queue.account_id] = next(self._numbers)
        if len(self._turns) > MAX_TURNS:
            del self._turns[next(iter(self._turns))]
        self._queues[queue.webhook_id] = queue
        queue.threads += 1
        self._threads[queue.is_sound][queue.account_id] += 1
        try:
            thread.start()
        except RuntimeError as error:
            self._end(queue)
            raise Unavailable("No thread can be started just now.") from error

    def _end(self, queue: _Queue) -> None:
        queue.threads -= 1
        if not queue.threads:
            del self._queues[queue.webhook_id]
        threads = self._threads[queue.is_sound]
        threads[queue.account_id] -= 1
        if not threads[queue.account_id]:
            del threads[queue.account_id]

    def _take_back(self) -> None:
        """Messages that were left alone for long enough are sent again."""
        while self._aside and self._aside[0][0] <= time.monotonic():
            self.in_progress.pop(self._aside.popleft()[1], None)

    # --- a thread that sends ----------------------------------------------------------------------------

    def _serve(self, queue: _Queue) -> None:
        """Send one message of the webhook after the other."""
        connection, until, has_sent = Connection(is_public=self._is_public), time.monotonic() + TURN_S, False
        try:
            while (outgoing := self._next(queue, until)) is not None:
                has_sent = True
                self._send(queue, connection, outgoing)
        except (Unavailable, OSError):
            pass  # The database is away: what is due is seen again.
        except Exception as error:
            log_failure(_log, "webhook.failed", error, webhook_id=queue.webhook_id)
        finally:
            connection.close()
            with self._changed:
                self._end(queue)
            if has_sent:
                self._context.database.wake(TOPIC)

    def _next(self, queue: _Queue, until: float) -> Outgoing | None:
        """Take the next message that nobody has; None: there is none, or the thread's turn is over."""
        while True:
            with self._changed:
                if not self._may_continue(queue, until):
                    return None
                if queue.read and time.monotonic() < queue.read_until:
                    return self._take(queue)
                if queue.is_reading or not (queue.has_more or queue.read):
                    return None
                queue.is_reading, queue.has_more = True, False
                # Before the read: what is recorded during it still looks due.
                taken = {
                    one for one, webhook_id in self.in_progress.items() if webhook_id == queue.webhook_id
                }
            self._read(queue, taken)

    def _take(self, queue: _Queue) -> Outgoing:
        outgoing = queue.read.popleft()
        self.in_progress[outgoing.delivery_id] = queue.webhook_id
        if queue.read and self._may_begin(queue):
            with suppress(Unavailable):
                self._begin(queue)
        return outgoing

    def _read(self, queue: _Queue, taken: set[str]) -> None:
        """Read the next messages of the webhook, but for those that are in progress."""
        found: list[Outgoing] = []
        limit = MESSAGES_AT_ONCE + len(taken)
        now_ms = self._context.clock()
        try:
            found = self._context.database.read(
                lambda tx: webhooks.outgoing(tx, queue.webhook_id, limit=limit, now_ms=now_ms)
            )
        finally:
            with self._changed:
                queue.is_reading = False
                queue.has_more = queue.has_more or len(found) == limit
                queue.read = deque(one for one in found if one.delivery_id not in taken)
                queue.read_until = time.monotonic() + MESSAGES_S

    def _send(self, queue: _Queue, connection: Connection, outgoing: Outgoing) -> None:
        """Send a message, and have its outcome recorded."""
        try:
            answer = self._answer(connection, outgoing)
            failpoints.hit("webhook.sent")
        except BaseException:
            with self._changed:
                self.in_progress.pop(outgoing.delivery_id, None)
            raise
        outcome = Outcome(outgoing, answer, self._context.clock())
        with self._changed:
            # How sound it is now, only the record says.
            queue.is_over = queue.is_over or not answer.is_success or not queue.is_sound
            self._outcomes.append(outcome)
            self._changed.notify_all()

    def _answer(self, connection: Connection, outgoing: Outgoing) -> Answer:
        """Send it. If that is impossible, the attempt fails like any other and is retried on schedule."""
        timestamp = self._context.clock() // 1000
        try:
            body = outgoing.body.encode()
            headers = {
                "Content-Type": "application/json",
                "User-Agent": "tenuto-webhooks",
                "webhook-id": outgoing.message_id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature(outgoing.secrets, outgoing.message_id, timestamp, body),
            }
            return connection.send(outgoing.url, headers, body, now_s=timestamp)
        except Exception as error:
            log_failure(_log, "webhook.failed", error, webhook_id=outgoing.webhook_id)
            return Answer(None, "it cannot be sent: the record of the webhook or of the message is damaged")

    # --- the thread that records ------------------------------------------------------------------------

    def _record(self) -> None:
        """Record what has ended, all that waits at once; what the database does not take now, later."""
        alone = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._outcomes or self._stopping.is_set())
                outcomes = list(islice(self._outcomes, 1 if alone else OUTCOMES_AT_ONCE))
            if not outcomes:
                return
            is_aside = False
            try:
                self._write(outcomes)
            except (Unavailable, OSError):
                if self._stopping.wait(PAUSE_S):
                    return
                continue
            except Exception as error:
                if len(outcomes) > 1:
                    # One that cannot be recorded must not cost the others their record.
                    alone = len(outcomes)
                    continue
                is_aside = True
                log_failure(_log, "webhook.failed", error, webhook_id=outcomes[0].outgoing.webhook_id)
            alone = max(0, alone - 1)
            self._settle(outcomes, is_aside)

    def _write(self, outcomes: Sequence[Outcome]) -> None:
        trusts_clock = self._trusts_clock()
        reasons = self._context.database.write(
            lambda tx: webhooks.record(tx, outcomes, trusts_clock=trusts_clock)
        )
        for webhook_id, because in reasons.items():
            _log.warning("webhook.disabled", webhook_id=webhook_id, reason=because)

    def _settle(self, outcomes: Sequence[Outcome], is_aside: bool) -> None:
        """Forget what has been recorded; what cannot be is left alone for a while, not sent all the time."""
        with self._changed:
            for one in outcomes:
                self._outcomes.popleft()
                if is_aside:
                    self._aside.append((time.monotonic() + ASIDE_S, one.outgoing.delivery_id))
                else:
                    self.in_progress.pop(one.outgoing.delivery_id, None)
