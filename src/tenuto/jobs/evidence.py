"""All that is known of a job, for the operator who decides about it: one reading, as plain JSON values.

Read only. Times are ISO 8601 in UTC, amounts CNY with six places. What a caller wrote is not in it, only its
digest; `examine` also reads the recorded bytes again.
"""

import json
from datetime import UTC, datetime
from typing import Any

from tenuto.billing.rules import charge_micros, cny
from tenuto.blobs.blob import BlobRecord, BlobStore, check_whole
from tenuto.config import Price
from tenuto.db.database import Database, Row, Transaction
from tenuto.errors import ArtifactUnavailable, CorruptBlob, OperatorError, StoreAway
from tenuto.jobs import evidence_store as store
from tenuto.jobs.states import RECOVERY_REQUIRED

Evidence = dict[str, Any]
INTACT, DAMAGED, MISSING = "intact", "damaged", "missing"


def evidence(tx: Transaction, job_id: str, *, now_ms: int) -> Evidence:
    """The job, its attempts, segments, parts, events and money, and what each exit would do."""
    job = store.job(tx, job_id)
    if job is None:
        raise OperatorError(f"there is no job {job_id!r}; `tenuto recover list` shows the jobs that wait")
    attempts = store.attempts(tx, job_id)
    return {
        "job": _job(job),
        "money": _money(job, store.entries(tx, job_id)),
        "attempts": [_attempt(row) for row in attempts],
        "segments": [_plain(row) for row in store.segments(tx, job_id)],
        "parts": [_timed(row, "created_at") for row in store.parts(tx, job_id)],
        "events": [_timed(row, "at") for row in store.events(tx, job_id)],
        "exits": _exits(job, attempts, now_ms),
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
    return {
        row["id"]: BlobRecord(row["blob_id"], row["size_bytes"], row["sha256"], row["block_crcs"])
        for row in store.attempts(tx, job_id)
        if row["sha256"] is not None and row["condemned_at"] is None
    }


def look_at(blobs: BlobStore, record: BlobRecord | None) -> str:
    """Whether recorded bytes are what was recorded, by size, block checksums and SHA-256.

    Raises StoreAway when that can't be known.
    """
    try:
        if record is None:
            return MISSING
        check_whole(blobs, record)
    except StoreAway:
        raise
    except ArtifactUnavailable:
        return MISSING
    except CorruptBlob:
        return DAMAGED
    return INTACT


def _job(job: Row) -> dict[str, Any]:
    names = ("id", "kind", "model", "lane", "state", "account_id", "account_name", "key_id")
    counts = ("attempts", "hosts_lost", "workers_lost", "characters")
    times = ("created_at", "started_at", "finished_at", "deadline_at", "cancel_requested_at", "erased_at")
    return {
        **{name: job[name] for name in names},
        "idempotency_key": job["idempotency_key"],
        "body_sha256": job["body_sha256"],
        "input_artifact_ids": json.loads(job["input_artifact_ids"]),
        "reason": job["error_message"],
        "reason_code": job["error_code"],
        "rerunnable": bool(job["rerunnable"]),
        **{name: job[name] for name in counts},
        "attempt_id": job["attempt_id"],
        "artifact_id": job["artifact_id"],
        **{name: _moment(job[name]) for name in times},
    }


def _money(job: Row, entries: list[Row]) -> dict[str, Any]:
    columns = ("available", "held", "revenue", "funding")
    return {
        "currency": "CNY",
        "unit": job["price_unit"],
        "price": cny(job["price_micros"]),
        "hold": cny(job["hold_micros"]),
        "charged": cny(job["charged_micros"] or 0),
        "account": {"available": cny(job["available_micros"]), "held": cny(job["held_micros"])},
        "entries": [
            {
                **{name: row[name] for name in ("id", "type", "account_id", "note")},
                **{name: cny(row[f"{name}_micros"]) for name in columns},
                "created_at": _moment(row["created_at"]),
            }
            for row in entries
        ],
    }


def _attempt(row: Row) -> dict[str, Any]:
    progress = None if row["progress"] is None else json.loads(row["progress"])
    result = {
        "blob_id": row["blob_id"],
        "media_type": row["media_type"],
        "size_bytes": row["size_bytes"],
        "sha256": row["sha256"],
        "duration_ms": row["duration_ms"],
        "metadata": json.loads(row["result_metadata"] or "{}"),
        "bytes": None,
    }
    return {
        "id": row["id"],
        "number": row["number"],
        "state": row["state"],
        "outcome": row["outcome"],
        "worker": {"id": row["worker_id"], "machine": row["machine"], "pid": row["pid"]},
        "worker_seen_at": _moment(row["seen_at"]),
        "started_at": _moment(row["started_at"]),
        "called_at": _moment(row["fenced_at"]),
        "heard_at": _moment(row["heard_at"]),
        "ended_at": _moment(row["ended_at"]),
        "beat": row["beat"],
        "progress": progress,
        "evidence": row["evidence"],
        "result": None if row["blob_id"] is None else result,
    }


def _exits(job: Row, attempts: list[Row], now_ms: int) -> dict[str, Any]:
    """What each exit would do to money, and why it does not apply where it does not."""
    hold, waits = job["hold_micros"], job["state"] == RECOVERY_REQUIRED
    newest = next((row for row in attempts if row["id"] == job["attempt_id"]), None)
    has_result = newest is not None and newest["blob_id"] is not None
    charge = _charge(job, newest)
    late = job["deadline_at"] <= now_ms
    not_waiting = None if waits else f"the job is {job['state']}"
    return {
        "complete": {
            "refused": not_waiting,
            "needs_file": not has_result,
            "charges": None if charge is None else cny(charge),
            "releases": None if charge is None else cny(hold - charge),
        },
        "requeue": {
            "refused": not_waiting or ("its deadline has passed" if late else None),
            "keeps_held": cny(hold),
            "may_be_paid_twice": any(row["fenced_at"] is not None for row in attempts),
        },
        "void": {"refused": not_waiting, "charges": cny(0), "releases": cny(hold)},
    }


def _charge(job: Row, attempt: Row | None) -> int | None:
    """What completing would charge; None where the duration of a file that is to be brought decides."""
    price = Price(job["price_unit"], job["price_micros"], job["hold_micros"])
    duration_ms = input_duration_ms(job["parameters"])
    if attempt is not None and attempt["blob_id"] is not None:
        duration_ms = attempt["duration_ms"]
    if price.unit != "job" and duration_ms is None:
        return None
    return charge_micros(price, duration_ms)


def input_duration_ms(parameters: str) -> int | None:
    """How long a recognition job's input is, as frozen when it was accepted; None for other kinds."""
    bound = json.loads(parameters).get("input")
    return None if bound is None else int(bound["duration_ms"])


def _timed(row: Row, name: str) -> dict[str, Any]:
    return _plain(row) | {name: _moment(row[name])}


def _plain(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 (a row iterates over its values)


def _moment(at_ms: int | None) -> str | None:
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
