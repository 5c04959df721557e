"""All events in one order, to be followed as they happen: of a job, an account, or the whole service.

On PostgreSQL, transactions do not commit in the order in which they are numbered, so an event is shown only
once no other can still appear before it. Read only; knows neither who follows nor how.
"""

import msgspec

from tenuto.account.caller import Caller
from tenuto.db.damaged_text import sound_json, text_of
from tenuto.db.database import Transaction
from tenuto.features.events import feed_store
from tenuto.job import read
from tenuto.job.states import EVENTS

Position = feed_store.Position
EventInOrder = feed_store.EventInOrder

PAGE = 200
"""The most events that one read returns."""
START = Position(0, "", 0)


class LiveEvent(msgspec.Struct, frozen=True):
    """An event as its followers see it."""

    id: str
    """Its reader continues after this id."""
    sequence: int
    at: int
    type: str
    attempt_id: str | None
    detail: str | None
    job_id: str
    state: str
    kind: str
    model: str
    metadata: msgspec.Raw
    object: str = "event"


def public_event(event: EventInOrder, id_: str) -> LiveEvent:
    """What a follower receives."""
    return LiveEvent(
        id=id_,
        sequence=event.sequence,
        at=event.at // 1000,
        type=event.type,
        attempt_id=event.attempt_id,
        detail=text_of(event.detail),
        job_id=event.job_id,
        state=EVENTS[event.type],
        kind=text_of(event.kind),
        model=text_of(event.model),
        metadata=sound_json(event.metadata, "{}", of=event.job_id, column="metadata"),
    )


def end(tx: Transaction) -> Position:
    """The position after the newest visible event."""
    return feed_store.end(tx) or START


def after(tx: Transaction, mark: Position) -> list[EventInOrder]:
    """A page of the next events of all accounts."""
    return feed_store.after(tx, mark, PAGE)


def of_account(
    tx: Transaction, account_id: str, mark: Position, until: Position, limit: int = PAGE
) -> tuple[list[EventInOrder], Position]:
    """A page of the account's next events, up to `until`, and the reader's position after it.

    A page may be empty without being the last: the reader continues from that position.
    """
    until = feed_store.furthest(tx, mark, until) or until
    page = feed_store.of_account(tx, account_id, mark, until, limit)
    return page, page[-1].mark if len(page) == limit else until


def reader_position(page: list[EventInOrder], ahead: Position) -> Position:
    """Where a reader continues after this page. It never names a job of another account, as `ahead` may, and
    is never before the page's last event, which may be of the same commit.
    """
    return max(ahead.before, page[-1].mark) if page else ahead.before


def of_job(tx: Transaction, caller: Caller, job_id: str) -> list[EventInOrder]:
    """A job's events, oldest first. NotFound for foreign ids exactly as for missing ones; ModelNotAllowed."""
    read.check(tx, caller, job_id)
    return feed_store.of_job(tx, job_id)
