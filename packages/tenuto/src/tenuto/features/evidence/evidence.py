"""All that is known about a job, for the operator who decides; built from rows, without the database.

Times are ISO 8601 in UTC, amounts CNY with six places. It does not contain the request, only its digest.
The fields are those of the JSON that `tenuto admin evidence --json` and the studio show.
"""

import json
from datetime import UTC, datetime
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from tenuto.config import Price
from tenuto.errors import PriceInvalid
from tenuto.features.evidence.rows import AttemptRow, JobRow
from tenuto.job.rows import EventRow
from tenuto.job.states import RECOVERY_REQUIRED, is_overdue
from tenuto.money.ledger_sql import LedgerLine
from tenuto.money.rules import charge_micros, cny

R = TypeVar("R", bound=Struct)

# --- rows that are read only for this ---------------------------------------------------------------


class JobSurroundings(Struct, frozen=True):
    """What is read along with the job's own row, by the same statement."""

    account_name: str
    available_micros: int
    held_micros: int
    idempotency_key: str | None
    """Null only if the key's row is lost: it is bound with the job and never removed."""
    body_sha256: str | None


class AttemptSurroundings(Struct, frozen=True):
    """What is read along with the attempt's own row, by the same statement."""

    size_bytes: int | None
    """Of the recorded bytes, like the next two; null if there are none."""
    sha256: str | None
    block_crcs: str | None
    condemned_at: int | None
    """When the bytes were given up; they may be gone."""
    seen_at: int | None
    """When its worker last updated its own row; null once that row is gone."""


class ChunkRow(Struct, frozen=True):
    """A finished chunk of a recording, without its transcript."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str
    attempt_id: str
    """The attempt that made it."""
    created_at: int


# --- what an operator sees --------------------------------------------------------------------------


class JobEvidence(Struct, frozen=True):
    """The job; fields without a comment are as in `JobRow`."""

    id: str
    kind: str
    model: str
    lane: str
    state: str
    account_id: str
    account_name: str
    key_id: str
    idempotency_key: str | None
    body_sha256: str | None
    input_artifact_ids: Any
    """A list of ids, or the text of a damaged row."""
    reason: str | None
    """The row's `error_message`."""
    reason_code: str | None
    rerunnable: bool
    attempts: int
    hosts_lost: int
    losses_shared: int
    unforeseen_errors: int
    workers_lost: int
    characters: int
    attempt_id: str | None
    artifact_id: str | None
    created_at: str
    started_at: str | None
    finished_at: str | None
    deadline_at: str
    cancel_requested_at: str | None
    erased_at: str | None


class LedgerLineEvidence(Struct, frozen=True):
    """A line of the ledger."""

    id: str
    type: str
    account_id: str
    note: str | None
    available: str
    held: str
    revenue: str
    funding: str
    """What came from outside; with the three above it sums to zero."""
    created_at: str


class AccountBalance(Struct, frozen=True):
    """What the account has now, for all its jobs."""

    available: str
    held: str


class MoneyEvidence(Struct, frozen=True):
    """The job's frozen price, what it holds and was charged, and its lines of the ledger."""

    currency: str
    unit: str
    price: str
    hold: str
    charged: str
    account: AccountBalance
    entries: list[LedgerLineEvidence]


class WorkerEvidence(Struct, frozen=True):
    """The worker that ran an attempt."""

    id: str
    machine: str | None
    pid: int | None


class ResultEvidence(Struct, frozen=True):
    """What an attempt recorded."""

    blob_id: str
    media_type: str | None
    size_bytes: int | None
    sha256: str | None
    duration_ms: int | None
    metadata: Any
    """A JSON object, or the text of a damaged row."""
    bytes: str | None
    """intact, damaged or missing; None: they were not read."""


class AttemptEvidence(Struct, frozen=True):
    """One attempt; fields without a comment are as in `AttemptRow`."""

    id: str
    number: int
    state: str
    outcome: str | None
    worker: WorkerEvidence
    worker_seen_at: str | None
    started_at: str
    called_at: str | None
    """The row's `fenced_at`."""
    heard_at: str | None
    ended_at: str | None
    beat: int
    progress: Any
    """A JSON object, or the text of a damaged row."""
    evidence: str | None
    result: ResultEvidence | None


class AttemptSegments(Struct, frozen=True):
    """The segments of one attempt."""

    attempt_id: str
    segments: int
    size_bytes: int
    duration_ms: int


class ChunkEvidence(Struct, frozen=True):
    """A finished chunk of a recording; as in `ChunkRow`."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str
    attempt_id: str
    created_at: str


class EventEvidence(Struct, frozen=True):
    """An event, with the operator who decided; as in `EventRow`."""

    sequence: int
    at: str
    type: str
    attempt_id: str | None
    detail: str | None
    operator: str | None
    note: str | None


class CompleteExit(Struct, frozen=True):
    """What completing the job would do."""

    refused: str | None
    """Why it would be refused; None: it would not."""
    needs_file: bool
    charges: str | None
    """None: the duration of the file decides."""
    releases: str | None


class RequeueExit(Struct, frozen=True):
    """What queueing the job again would do."""

    refused: str | None
    keeps_held: str
    may_be_paid_twice: bool


class VoidExit(Struct, frozen=True):
    """What giving the job up would do."""

    refused: str | None
    charges: str
    releases: str


class Exits(Struct, frozen=True):
    """The ways out of recovery."""

    complete: CompleteExit
    requeue: RequeueExit
    void: VoidExit


class Evidence(Struct, frozen=True):
    """A job with its money, attempts, segments, chunks and events, and what each exit would do."""

    job: JobEvidence
    money: MoneyEvidence
    attempts: list[AttemptEvidence]
    segments: list[AttemptSegments]
    parts: list[ChunkEvidence]
    events: list[EventEvidence]
    exits: Exits


# --- from rows ----------------------------------------------------------------------------------------


def job_evidence(job: JobRow, beside: JobSurroundings) -> JobEvidence:
    """The job with its account's name and what its key was bound to."""
    return _filled(
        JobEvidence,
        job,
        beside,
        input_artifact_ids=_readable(job.input_artifact_ids),
        reason=job.error_message,
        reason_code=job.error_code,
        rerunnable=bool(job.rerunnable),
    )


def money_evidence(job: JobRow, beside: JobSurroundings, lines: list[LedgerLine]) -> MoneyEvidence:
    """The job's money, in CNY."""
    return MoneyEvidence(
        currency="CNY",
        unit=job.price_unit,
        price=cny(job.price_micros),
        hold=cny(job.hold_micros),
        charged=cny(job.charged_micros or 0),
        account=AccountBalance(cny(beside.available_micros), cny(beside.held_micros)),
        entries=[
            _filled(
                LedgerLineEvidence,
                line,
                available=cny(line.available_micros),
                held=cny(line.held_micros),
                revenue=cny(line.revenue_micros),
                funding=cny(line.funding_micros),
            )
            for line in lines
        ],
    )


def attempt_evidence(attempt: AttemptRow, beside: AttemptSurroundings) -> AttemptEvidence:
    """The attempt with its worker and its recorded result, whose bytes are not read."""
    result = None
    if attempt.blob_id is not None:
        metadata = _readable(attempt.result_metadata or "{}")
        result = _filled(ResultEvidence, attempt, beside, metadata=metadata, bytes=None)
    return _filled(
        AttemptEvidence,
        attempt,
        worker=WorkerEvidence(attempt.worker_id, attempt.machine, attempt.pid),
        worker_seen_at=_moment(beside.seen_at),
        called_at=_moment(attempt.fenced_at),
        progress=_readable(attempt.progress),
        result=result,
    )


def chunk_evidence(row: ChunkRow) -> ChunkEvidence:
    return _filled(ChunkEvidence, row)


def event_evidence(row: EventRow) -> EventEvidence:
    return _filled(EventEvidence, row)


def exits_of(job: JobRow, attempts: list[AttemptRow], now_ms: int) -> Exits:
    """What each exit would do to the money, or why it would be refused."""
    hold, waits = job.hold_micros, job.state == RECOVERY_REQUIRED
    newest = next((row for row in attempts if row.id == job.attempt_id), None)
    charge, price_fault = _charge(job, newest)
    not_waiting = None if waits else f"the job is {job.state}"
    return Exits(
        CompleteExit(
            refused=not_waiting or price_fault,
            needs_file=newest is None or newest.blob_id is None,
            charges=None if charge is None else cny(charge),
            releases=None if charge is None else cny(hold - charge),
        ),
        RequeueExit(
            refused=not_waiting
            or ("its deadline has passed" if is_overdue(job.deadline_at, now_ms) else None),
            keeps_held=cny(hold),
            may_be_paid_twice=any(row.fenced_at is not None for row in attempts),
        ),
        VoidExit(refused=not_waiting, charges=cny(0), releases=cny(hold)),
    )


def _charge(job: JobRow, attempt: AttemptRow | None) -> tuple[int | None, str | None]:
    """What completing would charge (None where the duration of the operator's file decides), or why nothing
    can be charged.
    """
    price = Price(job.price_unit, job.price_micros, job.hold_micros)
    duration_ms = _input_duration_ms(job.parameters)
    needs_file = attempt is None or attempt.blob_id is None
    if attempt is not None and not needs_file:
        duration_ms = attempt.duration_ms
    if price.unit == "audio_minute" and duration_ms is None and needs_file:
        return None, None
    try:
        return charge_micros(price, duration_ms), None
    except PriceInvalid as error:
        return None, error.message


def _input_duration_ms(parameters: str) -> int | None:
    """The duration of a recognition job's input, as frozen at acceptance; None for other kinds, and if it
    cannot be read.
    """
    try:
        bound = json.loads(parameters).get("input")
        return None if bound is None else int(bound["duration_ms"])
    except (ValueError, TypeError, AttributeError, KeyError):
        return None  # A job that cannot be read still has evidence.


def _readable(text: str | None) -> Any:
    """A row's JSON, parsed; damaged JSON is evidence, too, and is shown as text."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text.encode("utf-8", "backslashreplace").decode() if text is not None else None


def _filled(record: type[R], *rows: Struct, **more: Any) -> R:
    """A record filled from the rows' columns, with times as text, and from `more`."""
    columns: dict[str, Any] = {name: value for row in rows for name, value in asdict(row).items()}
    return record(
        **{name: _shown(name, columns) for name in record.__struct_fields__ if name not in more}, **more
    )


def _shown(name: str, columns: dict[str, Any]) -> Any:
    is_moment = name == "at" or name.endswith("_at")
    return _moment(columns[name]) if is_moment else columns[name]


def _moment(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
