"""What OpenAI's routes have in common: they read bodies leniently, run durable jobs, and wait for their end.

Each request becomes one job, or several of one group, submitted as `POST /v1/jobs` submits them. A retry,
with the same `Idempotency-Key` or declared as a retry by OpenAI's SDKs, joins the jobs that the request made
before. What a client has lost can be read under the ids in `X-Service-Job`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct

from tenuto import failpoints, strict_json
from tenuto.account.caller import Caller
from tenuto.api.answers import REPLAYED, Answer, Headers
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.api.errors import error_body
from tenuto.api.jobs import changed
from tenuto.api.service import Service
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest, TenutoError
from tenuto.features.openai.idempotency_keys import find_earlier, has_left, request_key
from tenuto.features.openai.requests import OpenRequests
from tenuto.features.openai.settings import OpenAISettings
from tenuto.file import operations as artifacts
from tenuto.file.operations import Opened
from tenuto.job import finish, read
from tenuto.job.read import Job
from tenuto.job.states import CANCELLED, RECOVERY_REQUIRED, SUCCEEDED
from tenuto.job.submit import Request, submit_all_async
from tenuto.logs import get_logger
from tenuto.money.rules import cny, parse_cny

ABANDON_S = 60.0
"""A job without a caller's idempotency key is cancelled if still queued this long after its client left."""
CHECK_S = 1.0
"""Between two polls of a job when no more requests may wait for changes."""
STILL_RUNNING_S = 2
"""`Retry-After` for a job that is not ready in time."""
CALLERS_FAULT = frozenset({"nothing_to_speak", "segment_limit", "input_unreadable"})
"""Codes of failed jobs for which sending the same again cannot help."""

NO_RETRY = (b"x-should-retry", b"false")
RETRY = (b"x-should-retry", b"true")
_log = get_logger("tenuto.api")


class Lenient(Struct, frozen=True):
    """A body without the fields that have no meaning here."""

    values: dict[str, Any]
    ignored: tuple[str, ...]
    """The names of those fields."""


def lenient(value: Any, known: Mapping[str, Any]) -> Lenient:
    """The fields that are known and not null. InvalidRequest: the body is not an object."""
    if type(value) is not dict:
        raise InvalidRequest(message="the body must be a JSON object")
    values = {name: item for name, item in value.items() if name in known and item is not None}
    return Lenient(
        values, tuple(name for name, item in value.items() if name not in known and item is not None)
    )


def ignored_header(ignored: Sequence[str]) -> Headers:
    """`X-Service-Ignored`: the names as far as a header can hold them."""
    names = [name for name in ignored if name.isascii() and name.isprintable() and len(name) <= 64]
    return [(b"x-service-ignored", ", ".join(names[:16]).encode())] if names else []


class Submitted(Struct, frozen=True):
    """The jobs of one request."""

    job_ids: tuple[str, ...]
    is_replay: bool
    has_key: bool
    """Whether the caller chose the idempotency key: then the jobs continue without their client."""


async def submit(
    call: Call,
    route: str,
    sent: Mapping[str, Any],
    resolve: Callable[[Transaction], Sequence[Mapping[str, Any]]],
) -> Submitted:
    """Accept the jobs of a request, all or none; they are durable when this returns.

    `sent` identifies the request (see `request_key`); `resolve` makes its jobs' bodies, with what names stand
    for now, and is not needed for a retry. Raises what `submit` raises, and what `resolve` does.
    """
    caller = _caller(call)
    async with request_key(call, route, sent) as first:
        accepted = await find_earlier(call, first, sent)
        if not accepted:
            digest, requests = strict_json.body_sha256(sent), []
            for number, body in enumerate(await call.service.database.read_async(resolve)):
                text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
                key, join = first.of(number), first.join(number)
                requests.append(Request(caller, key, text, digest, body, call.origin(), join))
            accepted = await submit_all_async(call.service.submitting, requests)
    call.job_ids = [each.job_id for each in accepted]
    failpoints.hit("openai.accepted")
    replayed = all(each.replayed for each in accepted)
    return Submitted(tuple(call.job_ids), replayed, first.is_callers)


def wait_end(call: Call) -> float:
    """When a request stops waiting, in the event loop's time; call it once its jobs are accepted."""
    return asyncio.get_running_loop().time() + call.service.settings.of(OpenAISettings).openai_wait_s


async def wait(call: Call, submitted: Submitted, end: float) -> list[Job]:
    """The jobs when all are final, or at `end`, of the event loop's time. Raises ClientGone.

    If the client leaves and had sent no idempotency key, its jobs are cancelled if they are still queued a
    minute later and nobody else waits for them: a closed page leaves no jobs for others to queue behind.
    """
    async with waiting(call, submitted):
        jobs = [await _until_final(call, job_id, end) for job_id in submitted.job_ids]
    failpoints.hit("openai.finished")
    return jobs


def not_succeeded(call: Call, jobs: Sequence[Job]) -> Answer | None:
    """The answer if a job has not succeeded; None if all have."""
    bad = next((each for each in jobs if each.is_final() and each.state != SUCCEEDED), None)
    if bad is None:
        bad = next((each for each in jobs if not each.is_final()), None)
    if bad is None:
        return None
    if bad.is_final() and not call.is_gone():
        call.service.part(OpenRequests).note_answered([each.id for each in jobs])
    status, error, headers = _refusal(bad)
    headers.append((b"x-service-job", ", ".join(each.id for each in jobs).encode()))
    return Answer(status, error_body(error, call.request_id, status), headers)


def job_headers(jobs: Sequence[Job], submitted: Submitted) -> Headers:
    """What every answer says about its jobs: their ids, the SHA-256 of each artifact, what was charged."""
    charged = sum(parse_cny(each.billing.charged) for each in jobs)
    shas = [artifact.sha256 for each in jobs for artifact in each.artifacts]
    headers = [
        (b"x-service-job", ", ".join(each.id for each in jobs).encode()),
        (b"x-service-sha256", ", ".join(shas).encode()),
        (b"x-service-charged", f"{cny(charged)} CNY".encode()),
    ]
    return [*headers, REPLAYED] if submitted.is_replay else headers


def in_their_words(error: InvalidRequest, names: Mapping[str, str]) -> InvalidRequest:
    """The same refusal, with parameters under the names that the client sent."""
    faults = []
    for fault in error.faults:
        name = fault.param.removeprefix("parameters.")
        faults.append(Fault(names.get(name, name), fault.code, fault.message))
    return InvalidRequest(faults) if faults else error


class JobEnded(TenutoError):
    """The job of this request ended without a result."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code  # type: ignore[misc]
        super().__init__(message)


def _refusal(job: Job) -> tuple[int, TenutoError, Headers]:
    if not job.is_final():
        again = f"send the same request again, or poll GET /v1/jobs/{job.id}"
        message = f"{job.id} is {job.state}; {again}"
        retry_after = (b"retry-after", b"%d" % STILL_RUNNING_S)
        location = (b"location", f"/v1/jobs/{job.id}".encode())
        return 503, JobEnded("still_running", message), [retry_after, RETRY, location]
    if job.state == CANCELLED:
        return 400, JobEnded("cancelled", f"{job.id} was cancelled."), [NO_RETRY]
    if job.state == RECOVERY_REQUIRED:
        message = f"The outcome of {job.id} is unknown; its operator decides. Do not send the request again."
        return 500, JobEnded("recovery_required", message), [NO_RETRY]
    assert job.error is not None, "a failed job says why"
    status = 400 if job.error.code in CALLERS_FAULT else 500
    return status, JobEnded(job.error.code, f"{job.error.message} ({job.id})"), [NO_RETRY]


async def _until_final(call: Call, job_id: str, end: float) -> Job:
    loop = asyncio.get_running_loop()

    def find(tx: Transaction, who: Caller) -> tuple[int, Job]:
        # Sequence first, so that a change between the two reads is noticed.
        return read.sequence(tx, job_id), read.for_caller(tx, who, job_id)

    seen = None
    while True:
        began = loop.time()
        sequence, job = await call.read_again(find)
        if job.is_final() or began >= end or has_left(call):
            return job
        if sequence == seen:
            # Too many wait already, or the service is stopping: `changed` returned at once.
            await call.wait(asyncio.Event(), min(CHECK_S, end - began))
        seen = sequence
        job, _ = await changed(call, job, sequence, end - began)
        if job.is_final():
            return job


@asynccontextmanager
async def waiting(call: Call, submitted: Submitted) -> AsyncIterator[None]:
    """Surrounds a client's wait for its jobs; if it leaves and sent no key, they are cancelled later."""
    requests = call.service.part(OpenRequests)
    requests.waiting.update(submitted.job_ids)
    for job_id in submitted.job_ids:
        requests.left.pop(job_id, None)
    try:
        if submitted.is_replay and not submitted.has_key:
            await _take_over(call.service, _caller(call), submitted.job_ids)
        yield
    except (ClientGone, asyncio.CancelledError):
        if not submitted.has_key:
            task = asyncio.get_running_loop().create_task(
                _abandon(call.service, _caller(call), submitted.job_ids)
            )
            requests.tasks.add(task)
            requests.left.update(dict.fromkeys(submitted.job_ids, task))
            task.add_done_callback(requests.tasks.discard)
        raise
    finally:
        requests.waiting.subtract(submitted.job_ids)
        for job_id in submitted.job_ids:
            if not requests.waiting[job_id]:
                del requests.waiting[job_id]


async def _take_over(service: Service, caller: Caller, job_ids: Sequence[str]) -> None:
    """Record for other API processes that this one waits for the jobs; else they might cancel them."""
    waiter = service.part(OpenRequests).process
    try:
        await service.database.write_async(
            lambda tx: finish.take_over(tx, job_ids, waiter=waiter), account_id=caller.account_id
        )
    except TenutoError as error:
        _log.warning("openai.not_taken_over", job_id=", ".join(job_ids), reason=error.message)


async def _abandon(service: Service, caller: Caller, job_ids: Sequence[str]) -> None:
    """After a while, cancel what is still queued, unless a client has come back to it since."""
    await asyncio.sleep(ABANDON_S)
    requests = service.part(OpenRequests)
    for job_id in job_ids:
        if requests.left.get(job_id) is asyncio.current_task():
            del requests.left[job_id]
            if not requests.waiting[job_id]:
                await _cancel_queued(service, caller, job_id)


async def _cancel_queued(service: Service, caller: Caller, job_id: str) -> None:
    """Cancel a job that nobody waits for, unless it has started; a failure is only logged."""

    def cancel(tx: Transaction) -> bool:
        waiter, now_ms = service.part(OpenRequests).process, service.clock()
        return finish.cancel_abandoned(tx, service.ids, caller, job_id=job_id, waiter=waiter, now_ms=now_ms)

    try:
        if await service.database.write_async(cancel, account_id=caller.account_id):
            service.database.wake("changes")
            _log.info("openai.abandoned", job_id=job_id)
    except TenutoError as error:
        _log.warning("openai.not_cancelled", job_id=job_id, reason=error.message)


async def opened_results(call: Call, jobs: Sequence[Job]) -> list[Opened]:
    """The result of each job, opened for sending. NotFound, Erased, ArtifactUnavailable."""
    account_id = _caller(call).account_id
    ids = [job.artifacts[0].id for job in jobs]
    return await call.read_patiently(
        lambda tx: [artifacts.open_artifact(tx, account_id=account_id, artifact_id=each) for each in ids]
    )


def _caller(call: Call) -> Caller:
    assert call.caller is not None, "requests are authenticated first"
    return call.caller
