"""Erasing the requests and results of jobs, by their owner or by the operator's retention.

Records, keys and the ledger stay, so replays are still answered. Erased blobs are condemned in the same
transaction; the caller removes their bytes after the commit, and upkeep removes any that are left.
"""

from collections.abc import Collection

from msgspec import Struct

from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.errors import InvalidRequest, ModelNotAllowed, NotFound
from tenuto.feature import features
from tenuto.file import erasure as artifacts
from tenuto.file.rows import HeldArtifactRow
from tenuto.job import jobs_sql, read_store
from tenuto.job.states import FINAL

RETENTION_BATCH = 100


class Erased(Struct, frozen=True):
    """What is erased, for the features that keep something of it: the content of one job."""

    job_id: str


def erase_content(tx: Transaction, caller: Caller, *, job_id: str, now_ms: int) -> list[str]:
    """Erase the request, result and segments of a final job; returns the blobs to remove. Repeatable.

    NotFound; ModelNotAllowed: the key is for other models; InvalidRequest: the job has not ended.
    """
    job = jobs_sql.owned(tx, job_id, caller.account_id)
    if job is None:
        raise NotFound
    caller.check_job(job.model)
    if job.state not in FINAL:
        raise InvalidRequest(
            message=f"the job is {job.state}; its content can be erased when it has ended, so cancel it"
            " or wait",
            param="operation_id",
        )
    segment_blobs = jobs_sql.segment_blobs(tx, job_id)
    jobs_sql.erase_segments(tx, job_id)
    return [*_erase(tx, job_id, now_ms=now_ms), *artifacts.condemn(tx, segment_blobs, now_ms=now_ms)]


def erase_artifact(
    tx: Transaction, caller: Caller, *, artifact_id: str, input_models: Collection[str], now_ms: int
) -> list[str]:
    """Erase a result, or an input that no open job needs; returns the blobs to remove. Repeatable.

    A restricted key may erase results of its own models, and inputs if one of them takes inputs (is in
    `input_models`). NotFound; ModelNotAllowed; InvalidRequest: a job needs the input.
    """
    artifact = artifacts.find(tx, account_id=caller.account_id, artifact_id=artifact_id)
    if artifact is None:
        raise NotFound
    if artifact.job_id is not None:
        model = read_store.model(tx, artifact.job_id, caller.account_id)
        assert model is not None, "a result has a job"
        caller.check_job(model)
    elif caller.key_models is not None and not caller.key_models.intersection(input_models):
        raise ModelNotAllowed("this key is restricted to models that take no inputs")
    return _erase_artifact(tx, artifact, account_id=caller.account_id, now_ms=now_ms)


def _erase_artifact(tx: Transaction, artifact: HeldArtifactRow, *, account_id: str, now_ms: int) -> list[str]:
    artifact_id = artifact.id
    if artifact.erased_at is not None:
        return []
    blob_ids = [] if artifact.blob_id is None else [artifact.blob_id]
    if artifact.job_id is not None:
        for blob_id in blob_ids:
            jobs_sql.forget_blob(tx, artifact.job_id, blob_id)
    elif jobs_sql.is_needed(tx, account_id, f'["{artifact_id}"]'):
        raise InvalidRequest(
            message="a job that has not ended needs this input; cancel it or wait until it has ended",
            param="artifact_id",
        )
    artifacts.erase(tx, artifact_id, now_ms=now_ms)
    return artifacts.condemn(tx, blob_ids, now_ms=now_ms)


def retain_jobs(tx: Transaction, *, ended_before: int, now_ms: int) -> tuple[int, list[str]]:
    """Erase requests and results of a batch of jobs that ended before a given time; segments are kept.

    Returns the number of jobs and the blobs to remove.
    """
    jobs = jobs_sql.final_before(tx, ended_before, RETENTION_BATCH)
    return len(jobs), [blob_id for job_id in jobs for blob_id in _erase(tx, job_id, now_ms=now_ms)]


def retain_inputs(
    tx: Transaction, *, created_before: int, after: str, now_ms: int
) -> tuple[str | None, list[str]]:
    """Erase a batch of inputs, by id, that were uploaded before a given time and that no open job needs.

    Returns the id to continue from (None: that was all) and the blobs to remove.
    """
    inputs = artifacts.old_inputs(tx, created_before=created_before, after=after, limit=RETENTION_BATCH)
    return _erase_inputs(tx, inputs, now_ms=now_ms)


def retain_inputs_of_ended(
    tx: Transaction, *, ended_before: int, after: str, now_ms: int
) -> tuple[str | None, list[str]]:
    """The same for inputs that were sent with jobs, if those ended before a given time."""
    inputs = artifacts.inputs_of_ended(tx, ended_before=ended_before, after=after, limit=RETENTION_BATCH)
    return _erase_inputs(tx, inputs, now_ms=now_ms)


def _erase_inputs(
    tx: Transaction, inputs: list[tuple[str, str]], *, now_ms: int
) -> tuple[str | None, list[str]]:
    """Erase these inputs, except those that an open job needs."""
    blobs: list[str] = []
    for artifact_id, account_id in inputs:
        artifact = artifacts.find(tx, account_id=account_id, artifact_id=artifact_id)
        assert artifact is not None, "records of artifacts stay"
        try:
            blobs += _erase_artifact(tx, artifact, account_id=account_id, now_ms=now_ms)
        except InvalidRequest:
            continue
    return inputs[-1][0] if len(inputs) == RETENTION_BATCH else None, blobs


def _erase(tx: Transaction, job_id: str, *, now_ms: int) -> list[str]:
    blobs = artifacts.erase_results(tx, job_id, now_ms=now_ms)
    blobs += jobs_sql.recorded_blobs(tx, job_id)
    jobs_sql.erase_attempts(tx, job_id)
    jobs_sql.remove_chunks(tx, job_id)
    jobs_sql.remove_kept_result(tx, job_id)
    for feature in features().values():
        if feature.erase:
            feature.part(feature.erase)(tx, Erased(job_id))
    jobs_sql.erase_job(tx, job_id, now_ms)
    return artifacts.condemn(tx, blobs, now_ms=now_ms)
