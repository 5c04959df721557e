"""Messages to webhooks: of all workers that share a database, one makes and sends them.

It has threads of its own, because a server that does not answer holds one up for seconds.
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing

from tenuto import failpoints
from tenuto.billing.rules import parse_cny
from tenuto.db.database import Listener
from tenuto.errors import Unavailable
from tenuto.features.webhooks import operations as webhooks
from tenuto.features.webhooks import sending
from tenuto.features.webhooks.operations import Outgoing
from tenuto.features.webhooks.rows import DueRow
from tenuto.features.webhooks.rules import signature
from tenuto.features.webhooks.sending import Answer
from tenuto.jobs.feed import Position
from tenuto.logs import get_logger, log_failure
from tenuto.worker.context import WorkerContext

TOPIC = "changes"
POLL_S = 1.0
PAUSE_S = 0.05
BEAT_S = 3.0
SILENCE_S = 12.0
"""At least three beats."""
SENDERS = 64
SENDERS_OF_ACCOUNT = 4
SENDERS_IN_COMMON = 16
"""Messages being sent at once, at most one per webhook: in all, per account, and in all until an account may
have only one. So if the servers of 51 accounts hang, the next account's message still goes out. As many
again are for sound webhooks, whose last message was delivered."""
MAX_DUE = 2_000
"""How many messages one look chooses from."""
MAX_TURNS = 10_000
"""How many accounts' last turns are remembered."""
FORGET_S = 600.0
CLOSE_S = 2.0

_log = get_logger("tenuto.worker")


class WebhookSender:
    """The thread that makes and sends messages to webhooks, in one of all processes that share a database.

    While there are no webhooks, it only looks for one every `POLL_S`; a process that is not the sender is not
    woken by changes. A process takes over once the last sender's beat has stood still for `SILENCE_S` on its
    own monotonic clock, as dead workers are recognised. Two at once, after a process that stood still wakes
    up, do no harm: each record is fenced, and a message that is sent twice has the same id both times.
    """

    def __init__(self, context: WorkerContext, *, trusts_clock: Callable[[], bool]) -> None:
        self._context = context
        self._trusts_clock = trusts_clock
        self._is_wanted = context.settings.webhooks != "off"
        self._is_public = context.settings.webhooks == "public"
        self._low_micros = parse_cny(context.settings.low_balance)
        self._seen: tuple[str, int] = ("", -1)
        self._seen_since = float("-inf")
        self._beat_at = float("-inf")
        self._forget_at = self._balances_at = 0.0
        self._end: Position | None = None
        """The position after the newest event whose messages have been made."""
        self._on_the_way: dict[str, DueRow] = {}
        """What is being sent, by webhook; each change is atomic."""
        self._turns: dict[str, int] = {}
        """The number of each account's last message, oldest first."""
        self._numbers = itertools.count(1)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        if self._is_wanted:
            self._thread.start()

    def stop(self) -> None:
        """Messages being sent are not waited for: they are sent again, under the same ids."""
        self._stopping.set()
        if self._is_wanted:
            self._thread.join(CLOSE_S)

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
        while not self._stopping.is_set() and self._is_sender() and self._look():
            listener.wait(POLL_S)
            self._stopping.wait(PAUSE_S)

    def _is_sender(self) -> bool:
        """Whether it is this process's turn; a beat every few seconds shows that it is alive."""
        now, me = time.monotonic(), self._context.worker_id
        if self._seen[0] == me and now - self._beat_at < BEAT_S:
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
        self._seen, self._beat_at = (me, beat + 1), now
        return True

    def _look(self) -> bool:
        """Make the messages of new events, and send those that are due; returns whether to look again."""
        context = self._context
        end = context.database.read(webhooks.news)
        if end is None:
            return False
        if end != self._end and not self._make():
            self._seen = ("", -1)
            return False
        self._end = end
        self._look_at_balances()
        now_ms = context.clock()
        # Taken before the read: what ends during it still looks due, and would be sent again at once.
        busy = set(self._on_the_way)
        due, has_removed = context.database.read(
            lambda tx: (
                webhooks.due(tx, of_account=SENDERS_OF_ACCOUNT, limit=MAX_DUE, now_ms=now_ms),
                webhooks.has_removed(tx),
            )
        )
        chosen = {one.webhook_id: one for one in self._chosen(due, busy)}
        if chosen:
            for outgoing in context.database.read(
                lambda tx: webhooks.outgoing(tx, chosen.values(), now_ms=now_ms)
            ):
                self._begin(chosen[outgoing.webhook_id], outgoing)
        if time.monotonic() >= self._forget_at and self._trusts_clock():
            has_more = context.database.write(lambda tx: webhooks.forget(tx, now_ms=now_ms))
            self._forget_at = time.monotonic() + (0.0 if has_more else FORGET_S)
        if has_removed:
            context.database.write(webhooks.remove_rows)
        return True

    def _look_at_balances(self) -> None:
        """Make the messages of low balances, at most once every `POLL_S`."""
        context, low_micros = self._context, self._low_micros
        if time.monotonic() < self._balances_at:
            return
        self._balances_at = time.monotonic() + POLL_S
        if context.database.read(lambda tx: webhooks.has_crossed(tx, low_micros=low_micros)):
            now_ms = context.clock()
            context.database.write(
                lambda tx: webhooks.note_balances(tx, context.ids, low_micros=low_micros, now_ms=now_ms)
            )

    def _make(self) -> bool:
        """Make messages up to the newest event; returns whether this process is still the sender."""
        context = self._context
        is_sender, count = True, 1
        while is_sender and count and not self._stopping.is_set():
            now_ms = context.clock()
            count, is_sender = context.database.write(
                lambda tx, now_ms=now_ms: webhooks.make_deliveries(  # type: ignore[misc]
                    tx, context.ids, context.worker_id, now_ms=now_ms
                )
            )
        return is_sender

    def _chosen(self, due: list[DueRow], busy: set[str]) -> list[DueRow]:
        """What to send now: one message per webhook at a time, accounts in turn, sound webhooks apart."""
        chosen = []
        on_the_way = list(self._on_the_way.values())
        of_all = Counter(one.is_sound for one in on_the_way)
        of_account = Counter((one.is_sound, one.account_id) for one in on_the_way)
        for one in sorted(due, key=lambda one: self._turns.get(one.account_id, 0)):
            count, own = of_all[one.is_sound], of_account[one.is_sound, one.account_id]
            most = SENDERS_OF_ACCOUNT if count < SENDERS_IN_COMMON else 1
            if one.webhook_id not in busy and count < SENDERS and own < most:
                of_all[one.is_sound] += 1
                of_account[one.is_sound, one.account_id] += 1
                chosen.append(one)
        return chosen

    def _begin(self, one: DueRow, outgoing: Outgoing) -> None:
        """Send it in a thread, and note its account's turn."""
        self._turns.pop(one.account_id, None)
        self._turns[one.account_id] = next(self._numbers)
        if len(self._turns) > MAX_TURNS:
            del self._turns[next(iter(self._turns))]
        # Not in a pool: a process waits for a pool's threads when it exits.
        thread = threading.Thread(target=self._send, args=(outgoing,), name="webhook", daemon=True)
        self._on_the_way[one.webhook_id] = one
        try:
            thread.start()
        except RuntimeError as error:
            del self._on_the_way[one.webhook_id]
            raise Unavailable("No thread can be started just now.") from error

    def _send(self, outgoing: Outgoing) -> None:
        """Send one message and record the outcome; if we die in between, it is sent again."""
        context = self._context
        try:
            answer = self._answer(outgoing)
            failpoints.hit("webhook.sent")
            now_ms = context.clock()
            because = context.database.write(lambda tx: webhooks.record(tx, outgoing, answer, now_ms=now_ms))
            if because is not None:
                _log.warning("webhook.disabled", webhook_id=outgoing.webhook_id, reason=because)
        except Unavailable:
            pass  # It is sent again, under the same id.
        except Exception as error:
            log_failure(_log, "webhook.failed", error, webhook_id=outgoing.webhook_id)
        finally:
            self._on_the_way.pop(outgoing.webhook_id, None)
            context.database.wake(TOPIC)

    def _answer(self, outgoing: Outgoing) -> Answer:
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
            return sending.send(outgoing.url, headers, body, is_public=self._is_public, now_s=timestamp)
        except Exception as error:
            log_failure(_log, "webhook.failed", error, webhook_id=outgoing.webhook_id)
            return Answer(None, "it cannot be sent: the record of the webhook or of the message is damaged")
