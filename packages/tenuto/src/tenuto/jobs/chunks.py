"""Finished chunks of a job that is done in chunks: kept over attempts, so that a crash loses one at most.

Every write is fenced: only the attempt that the job names adds a chunk. What it says is its kind's matter.
"""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tenuto.db.database import Transaction
from tenuto.errors import Stale
from tenuto.jobs import attempt_store, chunk_store
from tenuto.jobs.states import RUNNING


@dataclass(frozen=True, slots=True)
class ChunkKey:
    """Which chunk: of whose transcript, of which span of samples, and by which engine."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str


def add(tx: Transaction, attempt_id: str, key: ChunkKey, transcript: dict[str, Any], *, now_ms: int) -> None:
    """Keep a finished chunk. Stale: the attempt is not the job's any more."""
    attempt = attempt_store.locked_attempt(tx, attempt_id)
    if attempt is None or attempt.job_attempt_id != attempt_id or attempt.job_state != RUNNING:
        raise Stale
    chunk_store.add(
        tx,
        job_id=attempt.job_id,
        attempt_id=attempt_id,
        role=key.role,
        number=key.number,
        start_frame=key.start_frame,
        end_frame=key.end_frame,
        model_id=key.model_id,
        model_revision=key.model_revision,
        transcript=json.dumps(transcript, ensure_ascii=False, separators=(",", ":")),
        now_ms=now_ms,
    )


def finished(tx: Transaction, job_id: str) -> dict[ChunkKey, dict[str, Any]]:
    """The chunks that are there, of this attempt and of earlier ones; one that is damaged is made again."""
    chunks = {}
    for row in chunk_store.of_job(tx, job_id):
        key = ChunkKey(
            role=row.role,
            number=row.number,
            start_frame=row.start_frame,
            end_frame=row.end_frame,
            model_id=row.model_id,
            model_revision=row.model_revision,
        )
        with suppress(ValueError):
            row.transcript.encode()
            chunks[key] = json.loads(row.transcript)
    return chunks


def forget_final(tx: Transaction) -> int:
    """Remove the chunks of jobs that are final: their results hold what there is to keep."""
    return chunk_store.remove_of_final(tx)
