"""The statements of `feed`: events of all jobs in one order. Takes a transaction, never commits."""

import msgspec
from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Transaction

PASSED_AT_ONCE = 10_000
"""The most events that one statement scans for those of an account."""


class Position(msgspec.Struct, frozen=True, order=True):
    """The position of a reader: after this event."""

    position: int
    job_id: str
    sequence: int

    @property
    def before(self) -> "Position":
        """Before all events of this position: what a reader may see if the event is another account's."""
        return Position(self.position, "", 0)

    @property
    def after(self) -> "Position":
        """After all events of this position. Only for the end of the feed: no later event will have it."""
        return Position(self.position + 1, "", 0)


class EventInOrder(msgspec.Struct, frozen=True):
    """An event with what its followers see of the job; nothing of the request or the result."""

    position: int
    job_id: str
    sequence: int
    at: int
    """Milliseconds."""
    type: str
    attempt_id: str | None
    detail: str | None
    account_id: str
    kind: str
    model: str
    metadata: str
    """The caller's own JSON object."""

    @property
    def mark(self) -> Position:
        """The position of a reader that has seen it."""
        return Position(self.position, self.job_id, self.sequence)


_MARK = "e.position, e.job_id, e.sequence"
_EVENT = """select e.position, e.job_id, e.sequence, e.at, e.type, e.attempt_id, e.detail, j.account_id,
                   j.kind, j.model, j.metadata
            from event e join job j on j.id = e.job_id"""
_AFTER = """e.position >= :position and e.position < unsettled_number()
            and (e.position, e.job_id, e.sequence) > (:position, :job_id, :sequence)"""
_UNTIL = "(e.position, e.job_id, e.sequence) <= (:until_position, :until_job_id, :until_sequence)"


def end(tx: Transaction) -> Position | None:
    """The newest event that can be seen."""
    return records.one(
        tx,
        Position,
        f"""select {_MARK} from event e
            where e.position is not null and e.position < unsettled_number()
            order by e.position desc, e.job_id desc, e.sequence desc limit 1""",  # noqa: S608 (constants)
    )


def after(tx: Transaction, mark: Position, limit: int) -> list[EventInOrder]:
    """The next events of all accounts."""
    return records.all_records(
        tx,
        EventInOrder,
        f"{_EVENT} where {_AFTER} order by {_MARK} limit :limit",
        limit=limit,
        **asdict(mark),
    )


def furthest(tx: Transaction, mark: Position, until: Position) -> Position | None:
    """The event `PASSED_AT_ONCE` further on; None: there are not that many up to `until`."""
    return records.one(
        tx,
        Position,
        f"""select {_MARK} from event e where {_AFTER} and {_UNTIL}
            order by {_MARK} limit 1 offset {PASSED_AT_ONCE}""",  # noqa: S608 (constants)
        **_span(mark, until),
    )


def of_account(
    tx: Transaction, account_id: str, mark: Position, until: Position, limit: int
) -> list[EventInOrder]:
    """The account's next events, up to `until`."""
    return records.all_records(
        tx,
        EventInOrder,
        f"""{_EVENT} where {_AFTER} and {_UNTIL} and e.account_id = :account_id
            order by {_MARK} limit :limit""",
        account_id=account_id,
        limit=limit,
        **_span(mark, until),
    )


def of_job(tx: Transaction, job_id: str) -> list[EventInOrder]:
    """A job's events, oldest first, including those written by earlier versions."""
    return records.all_records(
        tx,
        EventInOrder,
        """select coalesce(e.position, 0) as position, e.job_id, e.sequence, e.at, e.type, e.attempt_id,
                  e.detail, j.account_id, j.kind, j.model, j.metadata
           from event e join job j on j.id = e.job_id
           where e.job_id = :job_id order by e.sequence limit 10000""",
        job_id=job_id,
    )


def _span(mark: Position, until: Position) -> dict[str, int | str]:
    return {**asdict(mark), **{f"until_{name}": value for name, value in asdict(until).items()}}
