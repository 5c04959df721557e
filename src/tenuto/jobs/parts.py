"""Finished parts of a job that is done part by part: kept over attempts, so that a crash loses one at most.

Every write is fenced: only the attempt that the job names adds a part. What a part says is its kind's matter.
"""

import json
from dataclasses import dataclass
from typing import Any

from tenuto.db.database import Transaction
from tenuto.errors import Stale
from tenuto.jobs import attempt_store, part_store
from tenuto.jobs.states import RUNNING


@dataclass(frozen=True, slots=True)
class Place:
    """Which part: of whose transcript, of which span of samples, and by which engine."""

    role: str
    number: int
    start_frame: int
    end_frame: int
    model_id: str
    model_revision: str


def add(tx: Transaction, attempt_id: str, place: Place, transcript: dict[str, Any], *, now_ms: int) -> None:
    """Keep a finished part. Stale: the attempt is not the job's any more."""
    attempt = attempt_store.locked_attempt(tx, attempt_id)
    if attempt is None or attempt["job_attempt_id"] != attempt_id or attempt["job_state"] != RUNNING:
        raise Stale
    part_store.add(
        tx,
        job_id=attempt["job_id"],
        attempt_id=attempt_id,
        role=place.role,
        number=place.number,
        start_frame=place.start_frame,
        end_frame=place.end_frame,
        model_id=place.model_id,
        model_revision=place.model_revision,
        transcript=json.dumps(transcript, ensure_ascii=False, separators=(",", ":")),
        now_ms=now_ms,
    )


def finished(tx: Transaction, job_id: str) -> dict[Place, dict[str, Any]]:
    """The parts that are there, of this attempt and of earlier ones."""
    return {
        Place(
            role=row["role"],
            number=row["number"],
            start_frame=row["start_frame"],
            end_frame=row["end_frame"],
            model_id=row["model_id"],
            model_revision=row["model_revision"],
        ): json.loads(row["transcript"])
        for row in part_store.of_job(tx, job_id)
    }


def forget_final(tx: Transaction) -> int:
    """Remove the parts of jobs that are final: their results hold what there is to keep."""
    return part_store.remove_of_final(tx)
