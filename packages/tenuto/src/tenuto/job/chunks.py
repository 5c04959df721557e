"""Finished chunks of a job that is run in chunks. Later attempts reuse them, so a crash loses at most one.

Only the attempt that the job names adds a chunk, unless that comes late. Its kind interprets the transcript.
"""

import json
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict

from tenuto.db.database import Transaction
from tenuto.errors import Stale
from tenuto.job import attempts_sql
from tenuto.job.attempts_sql import NewChunk
from tenuto.job.rows import ChunkKey
from tenuto.job.states import FINAL, RUNNING


def add(
    tx: Transaction,
    attempt_id: str,
    key: ChunkKey,
    transcript: dict[str, Any],
    *,
    now_ms: int,
    is_late: bool = False,
) -> None:
    """Store a finished chunk. Stale: the attempt is no longer the job's; or, if `is_late` (it was paid for,
    and its worker may be gone), the job has ended. Repeatable."""
    attempt = attempts_sql.locked_attempt(tx, attempt_id)
    if attempt is None or attempt.job_state in FINAL:
        raise Stale
    if not is_late and (attempt.job_attempt_id != attempt_id or attempt.job_state != RUNNING):
        raise Stale
    attempts_sql.add_chunk(
        tx,
        NewChunk(
            **asdict(key),
            job_id=attempt.job_id,
            attempt_id=attempt_id,
            transcript=json.dumps(transcript, ensure_ascii=False, separators=(",", ":")),
            now_ms=now_ms,
        ),
    )


def finished(tx: Transaction, job_id: str) -> dict[ChunkKey, dict[str, Any]]:
    """The intact chunks of this attempt and of earlier ones; damaged ones have to be redone."""
    chunks = {}
    for row in attempts_sql.chunks(tx, job_id):
        key = ChunkKey(row.role, row.number, row.start_frame, row.end_frame, row.model_id, row.model_revision)
        with suppress(ValueError):
            row.transcript.encode()
            chunks[key] = json.loads(row.transcript)
    return chunks


def forget_final(tx: Transaction) -> int:
    """Remove the chunks of jobs that are final: their results contain all that is kept."""
    return attempts_sql.remove_final_chunks(tx)
