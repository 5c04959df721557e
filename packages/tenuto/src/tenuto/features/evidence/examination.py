"""Gathers the evidence about a job from its rows, and reads its recorded bytes again. Changes nothing."""

from msgspec import structs

from tenuto.db.database import Database, Transaction
from tenuto.errors import OperatorError
from tenuto.features.evidence import store
from tenuto.features.evidence.evidence import (
    Evidence,
    attempt_evidence,
    chunk_evidence,
    event_evidence,
    exits_of,
    job_evidence,
    money_evidence,
)
from tenuto.file import operations as artifacts
from tenuto.file.blob import BlobRecord, BlobStore
from tenuto.job import recover
from tenuto.money import read as ledger


def evidence(tx: Transaction, job_id: str, *, now_ms: int) -> Evidence:
    """All that is recorded about a job, and what each exit would do. OperatorError: there is no such job."""
    job_and_more = store.whole_job(tx, job_id)
    if job_and_more is None:
        raise OperatorError(
            f"there is no job {job_id!r}; `tenuto admin recover list` shows the jobs that wait"
        )
    job, beside = job_and_more
    attempts = store.attempts(tx, job_id)
    return Evidence(
        job=job_evidence(job, beside),
        money=money_evidence(job, beside, ledger.lines_of_job(tx, job_id)),
        attempts=[attempt_evidence(attempt, more) for attempt, more in attempts],
        segments=store.segments_by_attempt(tx, job_id),
        parts=[chunk_evidence(row) for row in store.chunks(tx, job_id)],
        events=[event_evidence(row) for row in store.events(tx, job_id)],
        exits=exits_of(job, [attempt for attempt, _ in attempts], now_ms),
    )


def examine(database: Database, blobs: BlobStore, job_id: str, *, now_ms: int) -> Evidence:
    """The evidence, with every recorded result read to see whether it is intact, damaged or missing."""
    known = database.read(lambda tx: evidence(tx, job_id, now_ms=now_ms))
    attempt_ids = [attempt.id for attempt in known.attempts if attempt.result is not None]
    blob_records = database.read(lambda tx: _recorded(tx, attempt_ids))
    attempts = []
    for attempt in known.attempts:
        result = attempt.result
        if result is not None:
            result = structs.replace(result, bytes=recover.condition(blobs, blob_records[attempt.id]))
        attempts.append(structs.replace(attempt, result=result))
    return structs.replace(known, attempts=attempts)


def _recorded(tx: Transaction, attempt_ids: list[str]) -> dict[str, BlobRecord | None]:
    return {attempt_id: artifacts.recorded_blob(tx, attempt_id) for attempt_id in attempt_ids}
