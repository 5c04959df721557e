"""Erasing content over HTTP: what is answered was durable, and its bytes are gone from the disk."""

from collections.abc import Callable
from functools import partial

import msgspec

from tenuto import failpoints
from tenuto.accounts.rules import Caller
from tenuto.api.body import read_body
from tenuto.api.call import Answer, Call
from tenuto.artifacts.erasure import remove
from tenuto.catalog.kinds import kinds
from tenuto.db.database import Transaction
from tenuto.errors import Unavailable
from tenuto.jobs import erasure, read
from tenuto.logs import get_logger

MAX_BODY_BYTES = 64 * 1024

_encode = msgspec.json.Encoder().encode
_log = get_logger("tenuto.api")


async def job_content(call: Call) -> Answer:
    """DELETE /v1/jobs/{id}/content: request, result and segments; 200 with the operation, which stays."""
    caller = await _caller(call)
    job_id = call.path_id("job_id", "job")
    now_ms = call.service.clock()
    await _erase(
        call,
        lambda tx: erasure.erase_content(tx, caller, job_id=job_id, now_ms=now_ms),
    )
    operation = await call.service.database.read_async(lambda tx: read.for_caller(tx, caller, job_id))
    return Answer(200, _encode(operation))


async def artifact(call: Call) -> Answer:
    """DELETE /v1/artifacts/{id}: a result's bytes, or an input's that no open job needs."""
    caller = await _caller(call)
    artifact_id = call.path_id("artifact_id", "artifact")
    models = [model for model in call.service.models.values() if model.interface == "jobs"]
    with_inputs = [model.name for model in models if kinds()[model.kind].takes_inputs]
    now_ms = call.service.clock()
    await _erase(
        call,
        lambda tx: erasure.erase_artifact(
            tx, caller, artifact_id=artifact_id, input_models=with_inputs, now_ms=now_ms
        ),
    )
    return Answer(200, _encode({"id": artifact_id, "object": "artifact", "erased": True}))


async def _caller(call: Call) -> Caller:
    caller = await call.authenticate()
    await read_body(call.receive, call.scope["headers"], limit_bytes=MAX_BODY_BYTES, limits=call.service.http)
    return caller


async def _erase(call: Call, operation: Callable[[Transaction], list[str]]) -> None:
    """Commit the erasure, then remove the bytes; what can't be removed now is upkeep's."""
    service = call.service

    def erase(tx: Transaction) -> list[str]:
        blobs = operation(tx)
        failpoints.hit("erase.before_commit")
        return blobs

    blobs = await service.database.write_async(erase)
    failpoints.hit("erase.after_commit")
    if not blobs:
        return
    try:
        stuck = await call.beside(service.readers, partial(remove, service.database, service.blobs, blobs))
    except Unavailable:
        stuck = blobs
    for blob_id in stuck:
        _log.error("blob.not_removed", blob_id=blob_id)
