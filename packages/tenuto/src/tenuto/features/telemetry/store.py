"""The statements of `trace`: the events that spans are made of, and who exports them. Takes a transaction,
never commits.
"""

import msgspec
from msgspec.structs import asdict

from tenuto.db import records
from tenuto.db.database import Transaction
from tenuto.features.events.feed import Position


class TracedEvent(msgspec.Struct, frozen=True):
    """An event with what its spans need: the event before it, and its attempt."""

    position: int
    job_id: str
    sequence: int
    at: int
    """Milliseconds."""
    type: str
    attempt_id: str | None
    kind: str
    model: str
    traceparent: str | None
    before: str | None
    """The type of the event before it; null for a job's first."""
    since: int | None
    """When that event happened."""
    number: int | None
    """Of its attempt, like the fields below; null without one."""
    worker_id: str | None
    claimed_at: int | None

    @property
    def mark(self) -> Position:
        """The position of a reader that has seen it."""
        return Position(self.position, self.job_id, self.sequence)


class ExporterRow(msgspec.Struct, frozen=True):
    """The process that exports events as spans, and how far it has read."""

    holder: str
    beat: int
    position: int
    job_id: str
    sequence: int

    @property
    def mark(self) -> Position:
        return Position(self.position, self.job_id, self.sequence)


# As in `events.feed_store`.
_MARK = "e.position, e.job_id, e.sequence"
_AFTER = """e.position >= :position and e.position < unsettled_number()
            and (e.position, e.job_id, e.sequence) > (:position, :job_id, :sequence)"""


def traced(tx: Transaction, mark: Position, limit: int) -> list[TracedEvent]:
    """The next events of all accounts, as spans need them."""
    return records.all_records(
        tx,
        TracedEvent,
        f"""select e.position, e.job_id, e.sequence, e.at, e.type, e.attempt_id, j.kind, j.model,
                   j.traceparent, b.type as before, b.at as since, a.number, a.worker_id,
                   a.started_at as claimed_at
            from event e join job j on j.id = e.job_id
            left join event b on b.job_id = e.job_id and b.sequence = e.sequence - 1
            left join attempt a on a.id = e.attempt_id
            where {_AFTER} order by {_MARK} limit :limit""",  # noqa: S608 (constants)
        limit=limit,
        **asdict(mark),
    )


def exporter(tx: Transaction) -> ExporterRow | None:
    return records.one(
        tx, ExporterRow, "select holder, beat, position, job_id, sequence from span_export where number = 1"
    )


def begin_exporter(tx: Transaction, mark: Position) -> None:
    tx.run(
        """insert into span_export (number, holder, beat, position, job_id, sequence)
           values (1, '', 0, :position, :job_id, :sequence) on conflict (number) do nothing""",
        **asdict(mark),
    )


def take_exporter(tx: Transaction, holder: str, before: str, beat: int) -> bool:
    """Become or remain the exporter; False: another process was first."""
    return bool(
        tx.run(
            """update span_export set holder = :holder, beat = beat + 1
               where number = 1 and holder = :before and beat = :beat""",
            holder=holder,
            before=before,
            beat=beat,
        )
    )


def stand_exporter(tx: Transaction, holder: str, mark: Position) -> None:
    tx.run(
        """update span_export set position = :position, job_id = :job_id, sequence = :sequence
           where number = 1 and holder = :holder""",
        holder=holder,
        **asdict(mark),
    )
