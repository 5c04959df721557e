"""An account's webhooks and the messages to them: made from the events of jobs, sent, recorded, sent again.

The events that transitions write are the outbox: the sender reads them in order and notes its position in the
transaction that makes the deliveries. So webhooks add nothing to the cost of a transition, and no message is
lost or made twice. Knows neither HTTP nor threads.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from tenuto.account.caller import Caller
from tenuto.db.damaged_text import decoded_json
from tenuto.db.database import Transaction, Value
from tenuto.errors import Fault, InvalidRequest, NotFound
from tenuto.features.events import feed
from tenuto.features.events.feed import EventInOrder, Position
from tenuto.features.webhooks import rules, store
from tenuto.features.webhooks.http_post import Answer
from tenuto.features.webhooks.rows import DeliveryRow, DueRow, WebhookRow
from tenuto.ids import Ids
from tenuto.logs import get_logger
from tenuto.money.rules import cny

_TYPES = {name: f"job.{name}" for name in ("succeeded", "failed", "cancelled", "recovery_required")}
RETENTION_MS = 30 * 24 * 3_600_000
"""How long deliveries are listed: from their end or, while they wait, from when they were due."""
ROWS_AT_ONCE = 1_000
"""The most rows that one transaction removes."""
_log = get_logger("tenuto.webhooks")


class Webhook(msgspec.Struct, frozen=True, omit_defaults=False):
    """A webhook as its account sees it, without its secrets."""

    id: str
    url: str
    events: list[str]
    description: str
    enabled: bool
    disabled_because: str | None
    failing_since: int | None
    created_at: int
    object: str = "webhook"


class Delivery(msgspec.Struct, frozen=True):
    """A message to a webhook as its account sees it."""

    id: str
    message_id: str
    type: str
    state: str
    attempts: int
    next_attempt_at: int | None
    status: int | None
    error: str | None
    created_at: int
    sequence: int | None
    object: str = "webhook_delivery"


class Outgoing(msgspec.Struct, frozen=True):
    """All that one attempt to send a message needs."""

    delivery_id: str
    webhook_id: str
    url: str
    secrets: list[str]
    message_id: str
    body: str
    """JSON; damaged text cannot be encoded."""
    attempts: int
    due: int


class Outcome(msgspec.Struct, frozen=True):
    """How an attempt to send a message ended."""

    outgoing: Outgoing
    answer: Answer
    at_ms: int


# --- what an account does -------------------------------------------------------------------------------


def create(
    tx: Transaction,
    caller: Caller,
    *,
    webhook_id: str,
    secret: str,
    url: str,
    events: list[str],
    description: str,
    now_ms: int,
) -> Webhook:
    """Create a webhook, unless an earlier try did. InvalidRequest: the account has as many as it may."""
    store.lock_account(tx, caller.account_id)
    if store.one(tx, webhook_id) is not None:
        return get(tx, caller, webhook_id)
    if len(store.of_account(tx, caller.account_id, rules.MAX_WEBHOOKS)) >= rules.MAX_WEBHOOKS:
        message = f"an account has at most {rules.MAX_WEBHOOKS} webhooks; delete one first"
        raise InvalidRequest([Fault("url", "too_many_webhooks", message)])
    row: dict[str, Value] = {
        "id": webhook_id,
        "account_id": caller.account_id,
        "url": url,
        "events": json.dumps(events),
        "description": description,
        "models": None if caller.key_models is None else json.dumps(sorted(caller.key_models)),
        "secret": secret,
        "now": now_ms,
    }
    # There may not have been a sender yet: from here on, it is known where the first one begins.
    observe(tx)
    store.insert(tx, row)
    return get(tx, caller, webhook_id)


def get(tx: Transaction, caller: Caller, webhook_id: str) -> Webhook:
    """One webhook. NotFound for foreign ids exactly as for missing ones."""
    return _public(_row(tx, caller, webhook_id))


def listed(tx: Transaction, caller: Caller) -> list[Webhook]:
    """All webhooks that the key may see, oldest first."""
    rows = store.of_account(tx, caller.account_id, rules.MAX_WEBHOOKS)
    return [_public(row) for row in rows if _may_see(caller, row)]


def change(tx: Transaction, caller: Caller, webhook_id: str, changes: dict[str, Any]) -> Webhook:
    """Set `url`, `events`, `description` or `enabled`. NotFound."""
    _row(tx, caller, webhook_id)
    store.change(
        tx,
        webhook_id,
        {
            "url": changes.get("url"),
            "events": json.dumps(changes["events"]) if "events" in changes else None,
            "description": changes.get("description"),
            "is_enabled": int(changes["enabled"]) if "enabled" in changes else None,
        },
    )
    return get(tx, caller, webhook_id)


def rotate(tx: Transaction, caller: Caller, webhook_id: str, *, secret: str, now_ms: int) -> Webhook:
    """Set a new secret, unless an earlier try did; the old one signs beside it for a day. NotFound."""
    if _row(tx, caller, webhook_id).secret != secret:
        store.rotate(tx, webhook_id, secret, now_ms + rules.OVERLAP_MS)
    return get(tx, caller, webhook_id)


def delete(tx: Transaction, caller: Caller, webhook_id: str) -> None:
    """Remove it and its waiting messages: nothing is sent from now on; rows are removed later. NotFound."""
    _row(tx, caller, webhook_id)
    store.delete(tx, webhook_id)


def test(tx: Transaction, caller: Caller, webhook_id: str, *, delivery_id: str, now_ms: int) -> Delivery:
    """Queue an empty message, unless an earlier try did. NotFound; InvalidRequest: the webhook is disabled,
    or many messages wait for it."""
    webhook = _row(tx, caller, webhook_id)
    store.locked(tx, webhook_id)  # An earlier try may not have been committed yet.
    if store.delivery(tx, delivery_id) is not None:
        return _delivery(tx, webhook_id, delivery_id)
    if not webhook.is_enabled:
        message = "is disabled; enable it with PATCH first"
        raise InvalidRequest([Fault("webhook_id", "webhook_disabled", message)])
    most = rules.MAX_WAITING_FOR_TEST
    if store.count_waiting(tx, webhook_id, most) >= most:
        message = f"has {most} or more messages waiting; a test would be sent after them"
        raise InvalidRequest([Fault("webhook_id", "too_many_waiting", message)])
    _deliver(
        tx,
        delivery_id,
        webhook_id,
        message_id=delivery_id,
        type_=rules.TEST,
        sequence=store.next_sequence(tx, webhook_id, 1),
        fields={},
        at_ms=now_ms,
        now_ms=now_ms,
    )
    return _delivery(tx, webhook_id, delivery_id)


def deliveries(
    tx: Transaction, caller: Caller, webhook_id: str, *, after: str | None, limit: int
) -> tuple[list[Delivery], str | None]:
    """A webhook's deliveries, newest first, with the cursor of the next page. NotFound."""
    _row(tx, caller, webhook_id)
    rows = store.deliveries(tx, webhook_id, after, limit + 1)
    return [_public_delivery(row) for row in rows[:limit]], rows[limit - 1].id if len(rows) > limit else None


def redeliver(tx: Transaction, caller: Caller, webhook_id: str, delivery_id: str, *, now_ms: int) -> Delivery:
    """Send a message again, under its own id. NotFound."""
    _row(tx, caller, webhook_id)
    _delivery(tx, webhook_id, delivery_id)
    store.again(tx, delivery_id, now_ms)
    return _delivery(tx, webhook_id, delivery_id)


# --- what the sender does -------------------------------------------------------------------------------


def observe(tx: Transaction) -> tuple[str, int]:
    """The current sender and its heartbeats' counter. The first call starts after all events so far."""
    row = store.sender(tx)
    if row is None:
        store.begin_sender(tx, feed.end(tx).after)
        return "", 0
    return row.holder, row.beat


def are_wanted(tx: Transaction) -> bool:
    """Whether anybody has a webhook."""
    return store.since(tx) is not None


def news(tx: Transaction) -> Position | None:
    """Where events end; None while there are no webhooks."""
    return None if store.since(tx) is None else feed.end(tx)


def hold(tx: Transaction, holder: str, *, before: str, beat: int) -> bool:
    """Become the sender, or remain it, unless another process was quicker."""
    return store.take_sender(tx, holder, before, beat)


def make_deliveries(tx: Transaction, ids: Ids, holder: str, *, now_ms: int) -> tuple[Counter[str], int, bool]:
    """Make the messages of a page of events; returns how many were made for each webhook, how many events
    were read, and whether we are still the sender."""
    row, since = store.sender(tx), store.since(tx)
    if row is None or row.holder != holder:
        return Counter(), 0, False
    if since is None:
        return Counter(), 0, True
    # No events were read while there were no webhooks.
    mark = max(Position(row.position, row.job_id, row.sequence), Position(since, "", 0))
    events = feed.after(tx, mark)
    webhooks: dict[str, list[WebhookRow]] = {}
    for event in events:
        if event.account_id not in webhooks:
            webhooks[event.account_id] = store.of_account(tx, event.account_id, rules.MAX_WEBHOOKS)
    counts = _inform(tx, ids, webhooks, events, now_ms)
    if events:
        store.stand(tx, events[-1].mark)
    return counts, len(events), True


def end_surplus(tx: Transaction, webhook_ids: Iterable[str], *, now_ms: int) -> dict[str, int]:
    """Fail what has been due longest where more messages wait than may; returns how many of each webhook.

    In a transaction of its own: whoever locks both a message and its webhook locks the message first.
    """
    counts = {}
    for webhook_id in sorted(webhook_ids):
        if count := store.end_surplus(tx, webhook_id, rules.MAX_WAITING, ROWS_AT_ONCE, now_ms):
            counts[webhook_id] = count
    return counts


def has_crossed(tx: Transaction, *, low_micros: int) -> bool:
    """Whether a balance that is watched has crossed the limit since its webhook was last looked at."""
    return bool(store.crossed(tx, low_micros, 1))


def note_balances(tx: Transaction, ids: Ids, *, low_micros: int, now_ms: int) -> list[str]:
    """Notify the webhooks that want it that the balance is low: once, until it is above the limit again.
    Returns those for which a message was made.

    The accounts' rows are looked at, since what a chat costs and what the operator books has no event.
    """
    informed = []
    for webhook in store.crossed(tx, low_micros, ROWS_AT_ONCE):
        is_low = webhook.available_micros < low_micros
        if not store.note_low(tx, webhook.id, int(is_low)) or not is_low:
            continue
        delivery_id = ids.new("delivery")
        _deliver(
            tx,
            delivery_id,
            webhook.id,
            message_id=delivery_id,
            type_="balance.low",
            sequence=store.next_sequence(tx, webhook.id, 1),
            fields={"available": cny(webhook.available_micros), "currency": "CNY"},
            at_ms=now_ms,
            now_ms=now_ms,
        )
        informed.append(webhook.id)
    return informed


def due(tx: Transaction, *, of_account: int, limit: int, now_ms: int) -> list[DueRow]:
    """The webhooks that have messages to be sent now: every account's first, then the second ones, …

    At most `of_account` of an account's sound webhooks, and as many of its others.
    """
    return store.due(tx, now_ms, of_account, limit, beyond_ms=now_ms + rules.LONGEST_PAUSE_MS)


def outgoing(tx: Transaction, webhook_id: str, *, limit: int, now_ms: int) -> list[Outgoing]:
    """The next messages to send to a webhook; none once it is disabled or removed."""
    webhook = store.one(tx, webhook_id)
    if webhook is None or not webhook.is_enabled:
        return []
    secrets = [webhook.secret]
    if webhook.old_secret is not None and now_ms < webhook.old_secret_until:
        secrets.append(webhook.old_secret)
    return [
        Outgoing(
            delivery_id=delivery.id,
            webhook_id=webhook.id,
            url=webhook.url,
            secrets=secrets,
            message_id=delivery.message_id,
            body=delivery.body,
            attempts=delivery.attempts,
            due=delivery.next_at,
        )
        for delivery in store.waiting(
            tx, webhook_id, now_ms, limit, beyond_ms=now_ms + rules.LONGEST_PAUSE_MS
        )
    ]


def record(tx: Transaction, outcomes: Sequence[Outcome], *, trusts_clock: bool = True) -> dict[str, str]:
    """Record the outcomes of attempts, in the order in which they ended; returns the webhooks that are
    disabled from now on, and why. By a clock that may have jumped, no three days have passed."""
    asked = [(one, store.record(tx, one.outgoing.delivery_id, _ended(one))) for one in outcomes]
    of_webhook = defaultdict(list)
    for one, recorded in asked:
        if recorded.changed():
            of_webhook[one.outgoing.webhook_id].append(one)
    # Only now: whoever locks both a message and its webhook locks the message first.
    reasons = {}
    for webhook_id in sorted(of_webhook):
        if because := _judge(tx, webhook_id, of_webhook[webhook_id], trusts_clock=trusts_clock):
            reasons[webhook_id] = because
    return reasons


def _ended(one: Outcome) -> dict[str, Value]:
    """What a message's row says after an attempt."""
    status, error = one.answer.status, one.answer.error
    pause_ms = rules.pause_ms(one.outgoing.attempts + 1, one.answer.retry_after_s)
    is_over = one.answer.is_success or status == rules.GONE or pause_ms is None
    if status is not None and 300 <= status < 400:
        error = "redirects are not followed"
    return {
        "attempts": one.outgoing.attempts,
        "due": one.outgoing.due,
        "state": "delivered" if one.answer.is_success else "failed" if is_over else "pending",
        "next_at": one.at_ms + (pause_ms or 0),
        "status": status,
        "error": error,
        "ended_at": one.at_ms if is_over else None,
    }


def _judge(
    tx: Transaction, webhook_id: str, outcomes: Iterable[Outcome], *, trusts_clock: bool
) -> str | None:
    """Note how a webhook does after these attempts; returns why it is disabled from now on, or None."""
    webhook = store.locked(tx, webhook_id)
    if webhook is None:
        return None
    since_ms, is_sound, because = webhook.failing_since, bool(webhook.is_sound), None
    for one in outcomes:
        # The outcome at an earlier URL says nothing about the current one.
        if one.outgoing.url != webhook.url:
            continue
        is_sound = one.answer.is_success
        if is_sound:
            since_ms = None
            continue
        since_ms = one.at_ms if since_ms is None else min(since_ms, one.at_ms)
        if one.answer.status == rules.GONE:
            because = "the server answered 410 Gone"
        elif trusts_clock and one.at_ms - since_ms >= rules.FAILING_MS:
            because = "it has failed for three days"
    if (since_ms, is_sound) != (webhook.failing_since, bool(webhook.is_sound)):
        store.note_outcome(tx, webhook_id, since_ms)
    if because is None or not webhook.is_enabled:
        return None
    store.disable(tx, webhook_id, because)
    return because


def has_removed(tx: Transaction) -> bool:
    """Whether there are rows of removed webhooks."""
    return store.has_removed(tx)


def remove_rows(tx: Transaction) -> None:
    """Remove some rows of removed webhooks."""
    store.remove_rows(tx, ROWS_AT_ONCE)


def forget(tx: Transaction, *, now_ms: int) -> bool:
    """Remove some deliveries that ended long ago, or have waited since; returns whether there may be more."""
    return store.forget(tx, now_ms - RETENTION_MS, ROWS_AT_ONCE) >= ROWS_AT_ONCE


# --- messages -------------------------------------------------------------------------------------------


def _inform(
    tx: Transaction,
    ids: Ids,
    webhooks: dict[str, list[WebhookRow]],
    events: Iterable[EventInOrder],
    now_ms: int,
) -> Counter[str]:
    """Make the messages of events; returns how many for each webhook."""
    wanted = [
        (webhook.id, event, store.existing(tx, webhook.id, _message_id(event)))
        for event in events
        for webhook in webhooks[event.account_id]
        if _is_informed(webhook, event)
    ]
    new = [(webhook_id, event) for webhook_id, event, existing in wanted if existing.one() is None]
    counts = Counter(webhook_id for webhook_id, _ in new)
    sequences = {one: store.next_sequence(tx, one, counts[one]) for one in sorted(counts)}
    for webhook_id, event in new:
        event_ = feed.public_event(event, _message_id(event))
        fields = {
            "job_id": event_.job_id,
            "state": event_.state,
            "kind": event_.kind,
            "model": event_.model,
            "metadata": event_.metadata,
        }
        _deliver(
            tx,
            ids.new("delivery"),
            webhook_id,
            message_id=event_.id,
            type_=_TYPES[event.type],
            sequence=sequences[webhook_id],
            fields=fields,
            at_ms=event.at,
            now_ms=now_ms,
        )
        sequences[webhook_id] += 1
    return counts


def _message_id(event: EventInOrder) -> str:
    return f"{event.job_id}_{event.sequence}"


def _is_informed(webhook: WebhookRow, event: EventInOrder) -> bool:
    """Whether a webhook is sent a message of the event."""
    type_ = _TYPES.get(event.type)
    if type_ is None or not webhook.is_enabled or event.position < webhook.since_position:
        return False
    if webhook.models is not None and event.model not in _names(webhook, "models"):
        return False
    return type_ in _names(webhook, "events")


def _deliver(
    tx: Transaction,
    delivery_id: str,
    webhook_id: str,
    *,
    message_id: str,
    type_: str,
    sequence: int,
    fields: dict[str, Any],
    at_ms: int,
    now_ms: int,
) -> None:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
    message = {
        "type": type_,
        "timestamp": moment.replace("+00:00", "Z"),
        "sequence": sequence,
        "data": fields,
    }
    row: dict[str, Value] = {
        "id": delivery_id,
        "webhook_id": webhook_id,
        "message_id": message_id,
        "type": type_,
        "body": msgspec.json.encode(message).decode(),
        "sequence": sequence,
        "now": now_ms,
    }
    store.add_delivery(tx, row)


# --- records --------------------------------------------------------------------------------------------


def _row(tx: Transaction, caller: Caller, webhook_id: str) -> WebhookRow:
    row = store.one(tx, webhook_id)
    if row is None or row.account_id != caller.account_id or not _may_see(caller, row):
        raise NotFound
    return row


def _may_see(caller: Caller, row: WebhookRow) -> bool:
    """A restricted key sees only webhooks that are limited to models of its own (decision 0018)."""
    if caller.key_models is None:
        return True
    models = None if row.models is None else decoded_json(row.models, set[str])
    return models is not None and models <= caller.key_models


def _names(row: WebhookRow, column: str) -> list[str]:
    """The JSON list in one of its columns. A damaged one counts as empty, so that no other webhook waits."""
    names = decoded_json(getattr(row, column), list[str])
    if names is None:
        _log.error("record.damaged", id=row.id, column=column)
    return names or []


def _delivery(tx: Transaction, webhook_id: str, delivery_id: str) -> Delivery:
    row = store.delivery(tx, delivery_id)
    if row is None or row.webhook_id != webhook_id:
        raise NotFound
    return _public_delivery(row)


def _public(row: WebhookRow) -> Webhook:
    return Webhook(
        id=row.id,
        url=row.url,
        events=_names(row, "events"),
        description=row.description,
        enabled=bool(row.is_enabled),
        disabled_because=row.disabled_because,
        failing_since=None if row.failing_since is None else row.failing_since // 1000,
        created_at=row.created_at // 1000,
    )


def _public_delivery(row: DeliveryRow) -> Delivery:
    return Delivery(
        id=row.id,
        message_id=row.message_id,
        type=row.type,
        state=row.state,
        attempts=row.attempts,
        next_attempt_at=row.next_at // 1000 if row.state == "pending" else None,
        status=row.status,
        error=row.error,
        created_at=row.created_at // 1000,
        sequence=row.sequence,
    )
