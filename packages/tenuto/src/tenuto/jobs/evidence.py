"""All that is known of a job, for the operator who decides about it: one reading, as plain JSON values.

Read only. Times are ISO 8601 in UTC, amounts CNY with six places. What a caller wrote is not in it, only its
digest; `examine` also reads the recorded bytes again.
"""

import json
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from tenuto.billing.rules import charge_micros, cny
from tenuto.blobs.blob import BlobRecord, BlobStore, check_whole
from tenuto.config import Price
from tenuto.db.database import Database, Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, OperatorError, PriceInvalid, StoreUnreachable
from tenuto.jobs import evidence_store as store
from tenuto.jobs.evidence_store import EvidenceOfAttempt, EvidenceOfJob, LedgerEvidence
from tenuto.jobs.rows import AttemptRow, JobRow
from tenuto.jobs.states import RECOVERY_REQUIRED

Evidence = dict[str, Any]
INTACT, DAMAGED, MISSING = "intact", "damaged", "missing"


def evidence(tx: Transaction, job_id: str, *, now_ms: int) -> Evidence:
    """The job, its attempts, segments, parts, events and money, and what each exit would do."""
    known = store.job(tx, job_id)
    if known is None:
        raise OperatorError(
            f"there is no job {job_id!r}; `tenuto admin recover list` shows the jobs that wait"
        )
    job, beside = known
    attempts = store.attempts(tx, job_id)
    return {
        "job": _job(job, beside),
        "money": _money(job, beside, store.entries(tx, job_id)),
        "attempts": [_attempt(attempt, more) for attempt, more in attempts],
        "segments": [asdict(row) for row in store.segments(tx, job_id)],
        "parts": [_timed(row, "created_at") for row in store.chunks(tx, job_id)],
        "events": [_timed(row, "at") for row in store.events(tx, job_id)],
        "exits": _exits(job, [attempt for attempt, _ in attempts], now_ms),
    }


def examine(database: Database, blobs: BlobStore, job_id: str, *, now_ms: int) -> Evidence:
    """The evidence with every recorded result read again: `bytes` is intact, damaged or missing."""
    found = database.read(lambda tx: evidence(tx, job_id, now_ms=now_ms))
    records = database.read(lambda tx: recorded(tx, job_id))
    for attempt in found["attempts"]:
        if attempt["result"] is not None:
            attempt["result"]["bytes"] = look_at(blobs, records.get(attempt["id"]))
    return found


def recorded(tx: Transaction, job_id: str) -> dict[str, BlobRecord]:
    """The bytes that the job's attempts have recorded, by attempt."""
    records = {}
    for attempt, blob in store.attempts(tx, job_id):
        if attempt.blob_id is not None and blob.sha256 is not None and blob.condemned_at is None:
            assert blob.size_bytes is not None, "a blob's row is whole"
            assert blob.block_crcs is not None, "a blob's row is whole"
            records[attempt.id] = BlobRecord(attempt.blob_id, blob.size_bytes, blob.sha256, blob.block_crcs)
    return records


def look_at(blobs: BlobStore, record: BlobRecord | None) -> str:
    """Whether recorded bytes are what was recorded, by size, block checksums and SHA-256.

    Raises StoreUnreachable when that can't be known.
    """
    try:
        if record is None:
            return MISSING
        check_whole(blobs, record)
    except StoreUnreachable:
        raise
    except ArtifactUnavailable:
        return MISSING
    except CorruptBlob:
        return DAMAGED
    return INTACT


def _job(job: JobRow, beside: EvidenceOfJob) -> dict[str, Any]:
    names = ("id", "kind", "model", "lane", "state", "account_id")
    counts = ("attempts", "hosts_lost", "losses_shared", "workers_lost", "characters")
    times = ("created_at", "started_at", "finished_at", "deadline_at", "cancel_requested_at", "erased_at")
    return {
        **{name: getattr(job, name) for name in names},
        "account_name": beside.account_name,
        "key_id": job.key_id,
        "idempotency_key": beside.idempotency_key,
        "body_sha256": beside.body_sha256,
        "input_artifact_ids": _readable(job.input_artifact_ids),
        "reason": job.error_message,
        "reason_code": job.error_code,
        "rerunnable": bool(job.rerunnable),
        **{name: getattr(job, name) for name in counts},
        "attempt_id": job.attempt_id,
        "artifact_id": job.artifact_id,
        **{name: _moment(getattr(job, name)) for name in times},
    }


def _money(job: JobRow, beside: EvidenceOfJob, entries: list[LedgerEvidence]) -> dict[str, Any]:
    return {
        "currency": "CNY",
        "unit": job.price_unit,
        "price": cny(job.price_micros),
        "hold": cny(job.hold_micros),
        "charged": cny(job.charged_micros or 0),
        "account": {"available": cny(beside.available_micros), "held": cny(beside.held_micros)},
        "entries": [
            {
                **{name: getattr(line, name) for name in ("id", "type", "account_id", "note")},
                "available": cny(line.available_micros),
                "held": cny(line.held_micros),
                "revenue": cny(line.revenue_micros),
                "funding": cny(line.funding_micros),
                "created_at": _moment(line.created_at),
            }
            for line in entries
        ],
    }


def _attempt(attempt: AttemptRow, beside: EvidenceOfAttempt) -> dict[str, Any]:
    result = {
        "blob_id": attempt.blob_id,
        "media_type": attempt.media_type,
        "size_bytes": beside.size_bytes,
        "sha256": beside.sha256,
        "duration_ms": attempt.duration_ms,
        "metadata": _readable(attempt.result_metadata or "{}"),
        "bytes": None,
    }
    return {
        "id": attempt.id,
        "number": attempt.number,
        "state": attempt.state,
        "outcome": attempt.outcome,
        "worker": {"id": attempt.worker_id, "machine": attempt.machine, "pid": attempt.pid},
        "worker_seen_at": _moment(beside.seen_at),
        "started_at": _moment(attempt.started_at),
        "called_at": _moment(attempt.fenced_at),
        "heard_at": _moment(attempt.heard_at),
        "ended_at": _moment(attempt.ended_at),
        "beat": attempt.beat,
        "progress": _readable(attempt.progress),
        "evidence": attempt.evidence,
        "result": None if attempt.blob_id is None else result,
    }


def _exits(job: JobRow, attempts: list[AttemptRow], now_ms: int) -> dict[str, Any]:
    """What each exit would do to money, and why it does not apply where it does not."""
    hold, waits = job.hold_micros, job.state == RECOVERY_REQUIRED
    newest = next((row for row in attempts if row.id == job.attempt_id), None)
    has_result = newest is not None and newest.blob_id is not None
    charge, price_fault = _charge(job, newest)
    late = job.deadline_at <= now_ms
    not_waiting = None if waits else f"the job is {job.state}"
    return {
        "complete": {
            "refused": not_waiting or price_fault,
            "needs_file": not has_result,
            "charges": None if charge is None else cny(charge),
            "releases": None if charge is None else cny(hold - charge),
        },
        "requeue": {
            "refused": not_waiting or ("its deadline has passed" if late else None),
            "keeps_held": cny(hold),
            "may_be_paid_twice": any(row.fenced_at is not None for row in attempts),
        },
        "void": {"refused": not_waiting, "charges": cny(0), "releases": cny(hold)},
    }


def _charge(job: JobRow, attempt: AttemptRow | None) -> tuple[int | None, str | None]:
    """What completing would charge (None where the duration of a file that is to be brought decides), or why
    nothing can be.
    """
    price = Price(job.price_unit, job.price_micros, job.hold_micros)
    duration_ms = input_duration_ms(job.parameters)
    if attempt is not None and attempt.blob_id is not None:
        duration_ms = attempt.duration_ms
    is_brought = attempt is None or attempt.blob_id is None
    if price.unit == "audio_minute" and duration_ms is None and is_brought:
        return None, None
    try:
        return charge_micros(price, duration_ms), None
    except PriceInvalid as error:
        return None, error.message


def input_duration_ms(parameters: str) -> int | None:
    """How long a recognition job's input is, as frozen when it was accepted; None for other kinds, and where
    that cannot be read.
    """
    try:
        bound = json.loads(parameters).get("input")
        return None if bound is None else int(bound["duration_ms"])
    except (ValueError, TypeError, AttributeError, KeyError):
        return None  # A job that cannot be read has evidence, too.


def _readable(text: str | None) -> Any:
    """JSON of a row; what is damaged is evidence, too, and is shown as the text that it is."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text.encode("utf-8", "backslashreplace").decode() if text is not None else None


def _timed(row: Struct, name: str) -> dict[str, Any]:
    return asdict(row) | {name: _moment(getattr(row, name))}


def _moment(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
