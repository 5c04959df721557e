"""The rows of webhooks and of the messages to them. Takes a transaction, never commits."""

from collections.abc import Mapping

from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Deferred, Transaction, Value
from tenuto.features.events.feed import Position
from tenuto.features.webhooks.rows import DeliveryRow, DueRow, SenderRow, WatchedBalance, WebhookRow

_WEBHOOK = records.columns(WebhookRow, "w")
_DELIVERY = records.columns(DeliveryRow, "d")


def insert(tx: Transaction, row: Mapping[str, Value]) -> None:
    """Insert a webhook; it gets the events from now on."""
    tx.run(
        """insert into webhook (id, account_id, url, events, description, models, secret, is_enabled,
                                since_position, created_at)
           values (:id, :account_id, :url, :events, :description, cast(:models as text), :secret, 1,
                   coalesce(transaction_number(),
                            (select max(position) from event where position is not null) + 1, 1), :now)""",
        **row,
    )


def lock_account(tx: Transaction, account_id: str) -> None:
    """Serialize an account's requests that create webhooks."""
    tx.one("select id from account where id = :id for update", id=account_id)


def of_account(tx: Transaction, account_id: str, limit: int) -> list[WebhookRow]:
    return records.all_records(
        tx,
        WebhookRow,
        f"""select {_WEBHOOK} from webhook w
            where w.account_id = :account_id and w.is_removed = 0 order by w.id limit :limit""",  # noqa: S608 (columns)
        account_id=account_id,
        limit=limit,
    )


def one(tx: Transaction, webhook_id: str) -> WebhookRow | None:
    return records.one(
        tx,
        WebhookRow,
        f"select {_WEBHOOK} from webhook w where w.id = :id and w.is_removed = 0",  # noqa: S608 (columns)
        id=webhook_id,
    )


def locked(tx: Transaction, webhook_id: str) -> WebhookRow | None:
    """The same, and nobody else changes it until the transaction ends."""
    return records.one(
        tx,
        WebhookRow,
        f"""select {_WEBHOOK} from webhook w
            where w.id = :id and w.is_removed = 0 for no key update""",  # noqa: S608 (columns)
        id=webhook_id,
    )


def change(tx: Transaction, webhook_id: str, row: Mapping[str, Value]) -> None:
    """Set what its owner may set, except what is null; enabling a disabled webhook clears its failure.

    A new URL, or one that was disabled, is not sound until it has answered. What was read before may have
    been changed since, so this statement alone looks at the row.
    """
    tx.run(
        """update webhook set events = coalesce(cast(:events as text), events),
                  description = coalesce(cast(:description as text), description),
                  failing_since = case when is_enabled < :is_enabled then null else failing_since end,
                  disabled_because = case when is_enabled <> :is_enabled then null else disabled_because end,
                  is_sound = case when is_enabled <> :is_enabled or url <> :url then 0 else is_sound end,
                  is_enabled = coalesce(:is_enabled, is_enabled), url = coalesce(:url, url) where id = :id""",
        id=webhook_id,
        **row,
    )


def rotate(tx: Transaction, webhook_id: str, secret: str, until_ms: int) -> None:
    tx.run(
        "update webhook set old_secret = secret, old_secret_until = :until, secret = :secret where id = :id",
        id=webhook_id,
        secret=secret,
        until=until_ms,
    )


def delete(tx: Transaction, webhook_id: str) -> None:
    """Hide it and have nothing more sent to it, not even by an earlier version of the sender."""
    tx.run("update webhook set is_removed = 1, is_enabled = 0 where id = :id", id=webhook_id)


def has_removed(tx: Transaction) -> bool:
    """Whether there are rows of removed webhooks."""
    return tx.one("select id from webhook where is_removed = 1 limit 1") is not None


def remove_rows(tx: Transaction, limit: int) -> None:
    """Remove rows of removed webhooks: messages first."""
    count = tx.run(
        """delete from webhook_delivery where id in
           (select d.id from webhook w join webhook_delivery d on d.webhook_id = w.id
            where w.is_removed = 1 limit :limit)""",
        limit=limit,
    )
    tx.run(
        """delete from webhook where id in
           (select w.id from webhook w where w.is_removed = 1
              and not exists (select 1 from webhook_delivery d where d.webhook_id = w.id) limit :limit)""",
        limit=limit - count,
    )


def crossed(tx: Transaction, low_micros: int, limit: int) -> list[WatchedBalance]:
    """The webhooks for `balance.low` whose account's balance has crossed the limit since `is_low` was set."""
    return records.all_records(
        tx,
        WatchedBalance,
        """select w.id, a.available_micros from webhook w join account a on a.id = w.account_id
           where w.is_enabled = 1 and w.events like '%"balance.low"%'
             and (a.available_micros < :low) <> (w.is_low = 1) order by w.id limit :limit""",
        low=low_micros,
        limit=limit,
    )


def note_low(tx: Transaction, webhook_id: str, is_low: int) -> int:
    """0: another process has noted it."""
    return tx.run(
        "update webhook set is_low = :is_low where id = :id and is_low <> :is_low",
        id=webhook_id,
        is_low=is_low,
    )


def note_outcome(tx: Transaction, webhook_id: str, failing_since: int | None) -> None:
    """Note since when it fails; None: the newest message was delivered."""
    tx.run(
        "update webhook set failing_since = :since, is_sound = :is_sound where id = :id",
        id=webhook_id,
        since=failing_since,
        is_sound=int(failing_since is None),
    )


def disable(tx: Transaction, webhook_id: str, because: str) -> None:
    tx.run(
        "update webhook set is_enabled = 0, disabled_because = :because where id = :id",
        id=webhook_id,
        because=because,
    )


def next_sequence(tx: Transaction, webhook_id: str, count: int) -> int:
    """The number of the first of so many new messages. Nobody else gets one until the transaction ends."""
    row = tx.one(
        """update webhook set newest_sequence = newest_sequence + :count where id = :id
           returning newest_sequence""",
        id=webhook_id,
        count=count,
    )
    return 1 if row is None else int(row["newest_sequence"]) - count + 1


def existing(tx: Transaction, webhook_id: str, message_id: str) -> Deferred:
    """The message, if it was made already."""
    return tx.ask(
        "select id from webhook_delivery where webhook_id = :webhook_id and message_id = :message_id",
        webhook_id=webhook_id,
        message_id=message_id,
    )


def add_delivery(tx: Transaction, row: Mapping[str, Value]) -> None:
    """Add a message for a webhook, unless it was made already."""
    tx.do(
        """insert into webhook_delivery
               (id, webhook_id, message_id, type, body, state, next_at, created_at, sequence)
           values (:id, :webhook_id, :message_id, :type, :body, 'pending', :now, :now, :sequence)
           on conflict (webhook_id, message_id) do nothing""",
        **row,
    )


def count_waiting(tx: Transaction, webhook_id: str, most: int) -> int:
    """How many messages wait for it, counted up to `most`."""
    row = tx.one(
        """select count(*) as n from (select 1 from webhook_delivery
           where webhook_id = :id and state = 'pending' limit :most) as counted""",
        id=webhook_id,
        most=most,
    )
    return 0 if row is None else int(row["n"])


def end_surplus(tx: Transaction, webhook_id: str, most: int, limit: int, now_ms: int) -> int:
    """If more than `most` messages wait for it, fail those that have been due longest; returns how many."""
    return tx.run(
        """update webhook_delivery set state = 'failed', error = :error, ended_at = :now where id in
           (select id from webhook_delivery where webhook_id = :id and state = 'pending'
            order by next_at desc, id desc limit :limit offset :most)""",
        id=webhook_id,
        error=f"more than {most} messages waited",
        most=most,
        limit=limit,
        now=now_ms,
    )


def deliveries(tx: Transaction, webhook_id: str, after: str | None, limit: int) -> list[DeliveryRow]:
    return records.all_records(
        tx,
        DeliveryRow,
        f"""select {_DELIVERY} from webhook_delivery d
            where d.webhook_id = :id and d.id < :after order by d.id desc limit :limit""",  # noqa: S608 (columns)
        id=webhook_id,
        after=after or "e",  # Greater than any id of a delivery.
        limit=limit,
    )


def delivery(tx: Transaction, delivery_id: str) -> DeliveryRow | None:
    return records.one(
        tx,
        DeliveryRow,
        f"select {_DELIVERY} from webhook_delivery d where d.id = :id",  # noqa: S608 (columns)
        id=delivery_id,
    )


def waiting(
    tx: Transaction, webhook_id: str, now_ms: int, limit: int, *, beyond_ms: int
) -> list[DeliveryRow]:
    """The messages of a webhook that have been due longest; if there are none, those after `beyond_ms`."""

    def found(when: str, at_ms: int) -> list[DeliveryRow]:
        return records.all_records(
            tx,
            DeliveryRow,
            f"""select {_DELIVERY} from webhook_delivery d
                where d.webhook_id = :id and d.state = 'pending' and {when}
                order by d.next_at, d.id limit :limit""",  # noqa: S608 (columns and constants)
            id=webhook_id,
            at=at_ms,
            limit=limit,
        )

    return found("d.next_at <= :at", now_ms) or found("d.next_at > :at", beyond_ms)


def due(tx: Transaction, now_ms: int, of_account: int, limit: int, *, beyond_ms: int) -> list[DueRow]:
    """The webhooks with a message that is due, by how long it has been due: every account's first webhook,
    then the second ones, … At most `of_account` of an account's sound webhooks, and as many of its others.
    What would be due after `beyond_ms` is due now: a clock that was ahead said when.

    It looks at each webhook that has messages, not at each message: a server that hangs may have any number.
    """
    return records.all_records(
        tx,
        DueRow,
        """with recursive waiting (webhook_id) as (
             select min(webhook_id) from webhook_delivery where state = 'pending'
             union all
             select (select min(d.webhook_id) from webhook_delivery d
                     where d.state = 'pending' and d.webhook_id > waiting.webhook_id)
             from waiting where waiting.webhook_id is not null),
           in_turn as (
             select d.id as delivery_id, w.id as webhook_id, w.account_id, w.is_sound, d.next_at,
                    row_number() over (partition by w.account_id, w.is_sound order by d.next_at, d.id) as turn
             from waiting join webhook w on w.id = waiting.webhook_id and w.is_enabled = 1
             join webhook_delivery d on d.id = coalesce(
               (select e.id from webhook_delivery e
                where e.webhook_id = w.id and e.state = 'pending' and e.next_at <= :now
                order by e.next_at, e.id limit 1),
               (select e.id from webhook_delivery e
                where e.webhook_id = w.id and e.state = 'pending' and e.next_at > :beyond
                order by e.next_at, e.id limit 1)))
           select webhook_id, account_id, is_sound from in_turn
           where turn <= :of_account order by turn, next_at, delivery_id limit :limit""",
        now=now_ms,
        beyond=beyond_ms,
        of_account=of_account,
        limit=limit,
    )


def record(tx: Transaction, delivery_id: str, row: Mapping[str, Value]) -> Deferred:
    """Record the outcome of the attempt that was due at `due`. Nothing changed: another process has recorded
    one meanwhile, or the message is to be sent again."""
    return tx.ask(
        """update webhook_delivery set state = :state, attempts = attempts + 1, next_at = :next_at,
                  status = :status, error = :error, ended_at = :ended_at
           where id = :id and attempts = :attempts and next_at = :due and state = 'pending'""",
        id=delivery_id,
        **row,
    )


def again(tx: Transaction, delivery_id: str, now_ms: int) -> None:
    """Send it once more, from the first attempt of its schedule.
    Its `next_at` changes, so that an attempt in progress cannot record its outcome as that of this one."""
    tx.run(
        """update webhook_delivery set state = 'pending', attempts = 0, ended_at = null,
                  next_at = case when next_at = :now then :now + 1 else :now end
           where id = :id""",
        id=delivery_id,
        now=now_ms,
    )


def forget(tx: Transaction, before_ms: int, limit: int) -> int:
    """Remove deliveries that ended before then, and those that have been due since before then."""
    ended = tx.run(
        """delete from webhook_delivery where id in
           (select id from webhook_delivery where ended_at < :before and ended_at is not null
            order by ended_at limit :limit)""",
        before=before_ms,
        limit=limit,
    )
    return ended + tx.run(
        """delete from webhook_delivery where id in
           (select id from webhook_delivery
            where created_at < :before and next_at < :before and state = 'pending'
            order by created_at limit :limit)""",
        before=before_ms,
        limit=limit,
    )


def sender(tx: Transaction) -> SenderRow | None:
    return records.one(
        tx,
        SenderRow,
        "select holder, beat, position, job_id, sequence from webhook_sender where number = 1 for update",
    )


def begin_sender(tx: Transaction, mark: Position) -> None:
    tx.run(
        """insert into webhook_sender (number, holder, beat, position, job_id, sequence)
           values (1, '', 0, :position, :job_id, :sequence) on conflict (number) do nothing""",
        **asdict(mark),
    )


def take_sender(tx: Transaction, holder: str, before: str, beat: int) -> bool:
    """Become the sender, or remain it; False: another process was quicker."""
    return bool(
        tx.run(
            """update webhook_sender set holder = :holder, beat = beat + 1
               where number = 1 and holder = :before and beat = :beat""",
            holder=holder,
            before=before,
            beat=beat,
        )
    )


def stand(tx: Transaction, mark: Position) -> None:
    """Note that events up to here have been read."""
    tx.run(
        """update webhook_sender set position = :position, job_id = :job_id, sequence = :sequence
           where number = 1""",
        **asdict(mark),
    )


def since(tx: Transaction) -> int | None:
    """The position of the oldest event that a webhook may be sent; None if there are no webhooks.

    A removed one counts until its rows are removed, since the sender does that.
    """
    row = tx.one("select min(since_position) as since from webhook")
    return None if row is None else row["since"]
