"""Erasing what jobs were asked and what they made: the owner's wish, or the operator's retention.

Records, keys and the ledger stay, so replays are still answered. What is erased is condemned in the same
transaction; the caller removes the bytes when it has been committed, and upkeep what was left.
"""

from tenuto.artifacts import erasure as artifacts
from tenuto.db.database import Transaction
from tenuto.errors import InvalidRequest, NotFound
from tenuto.jobs import erasure_store as store
from tenuto.jobs.states import FINAL

RETENTION_BATCH = 100
INPUT_LANE = "recognition"
"""The lane whose jobs have inputs."""


def erase_content(tx: Transaction, *, account_id: str, job_id: str, now_ms: int) -> list[str]:
    """The request, the result and the segments of a final job; gives the blobs to remove. Again: nothing."""
    job = store.owned(tx, job_id, account_id)
    if job is None:
        raise NotFound
    if job["state"] not in FINAL:
        raise InvalidRequest(
            message=f"the job is {job['state']}; its content can be erased when it has ended, so cancel it"
            " or wait",
            param="operation_id",
        )
    shown = [row["blob_id"] for row in store.segment_blobs(tx, job_id)]
    store.erase_segments(tx, job_id)
    return [*_erase(tx, job_id, now_ms=now_ms), *artifacts.condemn(tx, shown, now_ms=now_ms)]


def erase_artifact(tx: Transaction, *, account_id: str, artifact_id: str, now_ms: int) -> list[str]:
    """A result's bytes, or an input's that no open job needs; gives the blobs to remove. Again: nothing."""
    artifact = artifacts.find(tx, account_id=account_id, artifact_id=artifact_id)
    if artifact is None:
        raise NotFound
    if artifact["erased_at"] is not None:
        return []
    if artifact["job_id"] is not None:
        store.forget_blob(tx, artifact["job_id"], artifact["blob_id"])
    elif store.is_needed(tx, account_id, INPUT_LANE, artifact_id):
        raise InvalidRequest(
            message="a job that has not ended needs this input; cancel it or wait until it has ended",
            param="artifact_id",
        )
    artifacts.erase(tx, artifact_id, now_ms=now_ms)
    return artifacts.condemn(tx, [artifact["blob_id"]], now_ms=now_ms)


def retain_jobs(tx: Transaction, *, ended_before: int, now_ms: int) -> tuple[int, list[str]]:
    """Erase requests and results of jobs that ended earlier, some at a time; segments are kept.

    Gives how many jobs there were, and the blobs to remove.
    """
    rows = store.ended_before(tx, ended_before, RETENTION_BATCH)
    return len(rows), [blob_id for row in rows for blob_id in _erase(tx, row["id"], now_ms=now_ms)]


def retain_inputs(
    tx: Transaction, *, created_before: int, after: str, now_ms: int
) -> tuple[str | None, list[str]]:
    """Erase inputs that were uploaded earlier and that no open job needs, some at a time, from an id on.

    Gives the id to go on from (None: that was all) and the blobs to remove.
    """
    found = artifacts.old_inputs(tx, created_before=created_before, after=after, limit=RETENTION_BATCH)
    blobs: list[str] = []
    for artifact_id, account_id in found:
        try:
            blobs += erase_artifact(tx, account_id=account_id, artifact_id=artifact_id, now_ms=now_ms)
        except InvalidRequest:
            continue
    return found[-1][0] if len(found) == RETENTION_BATCH else None, blobs


def _erase(tx: Transaction, job_id: str, *, now_ms: int) -> list[str]:
    blobs = artifacts.erase_results(tx, job_id, now_ms=now_ms)
    blobs += [row["blob_id"] for row in store.recorded_blobs(tx, job_id)]
    store.erase_attempts(tx, job_id)
    store.remove_parts(tx, job_id)
    store.erase_job(tx, job_id, now_ms)
    return artifacts.condemn(tx, blobs, now_ms=now_ms)
