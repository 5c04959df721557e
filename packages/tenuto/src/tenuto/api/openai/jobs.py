"""What OpenAI's routes have in common: lenient bodies in, durable jobs inside, the end of the jobs out.

Each request becomes one job, or several of one group, submitted as `POST /v1/jobs` submits them. A request
that is sent again, with its `Idempotency-Key` or declared as a retry by OpenAI's SDKs, joins the jobs that it
made before. What a client has lost is under the ids in `X-Service-Job`.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tenuto import failpoints, strict_json
from tenuto.accounts.restrictions import Caller
from tenuto.api import request_body
from tenuto.api.answers import REPLAYED, Answer, Headers
from tenuto.api.body import ClientGone
from tenuto.api.call import Call
from tenuto.api.errors import error_body
from tenuto.api.jobs import changed
from tenuto.api.service import Service
from tenuto.billing.rules import cny, parse_cny
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InsufficientBalance, InvalidRequest, TenutoError
from tenuto.jobs import lifecycle, read
from tenuto.jobs.read import Operation
from tenuto.jobs.states import CANCELLED, QUEUED, RECOVERY_REQUIRED, SUCCEEDED
from tenuto.jobs.submit import Request, newest_key, submit_all_async
from tenuto.logs import get_logger

JOIN_MS = 15 * 60_000
"""For so long a declared retry without a key joins the job of the same body."""
ABANDON_S = 60.0
"""A job without a key of the caller's that is still queued this long after its client left is cancelled."""
LOOK_S = 1.0
"""Between two looks at a job where no more requests may wait for changes."""
STILL_RUNNING_S = 2
"""`Retry-After` of a job that is not ready in time."""
CALLERS_FAULT = frozenset({"nothing_to_speak", "segment_limit", "input_unreadable"})
"""Codes of failed jobs that sending the same again cannot help."""

NO_RETRY = (b"x-should-retry", b"false")
RETRY = (b"x-should-retry", b"true")
_log = get_logger("tenuto.api")


@dataclass(frozen=True, slots=True)
class Lenient:
    """A body without what its client need not have sent."""

    values: dict[str, Any]
    ignored: tuple[str, ...]
    """Names of fields that have no meaning here."""


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


@dataclass(frozen=True, slots=True)
class Submitted:
    """The jobs of one request."""

    job_ids: tuple[str, ...]
    is_replay: bool
    has_key: bool
    """Whether the caller chose the idempotency key: then the jobs go on without their client."""


async def submit(call: Call, route: str, bodies: Sequence[Mapping[str, Any]]) -> Submitted:
    """Accept the jobs of a request, all or none; they are durable when this returns.

    Raises what `submit` raises.
    """
    given = _given_key(call)
    if given is not None:
        return await _accept(call, f"{route}:{given}", bodies, has_key=True)
    stem, is_retry = _stem(route, [_work(body) for body in bodies]), _is_declared_retry(call)
    async with call.service.openai.accepting(f"{_caller(call).key_id} {stem}", after_others=is_retry):
        key = await _own_key(call, stem, is_retry=is_retry)
        if has_left(call):
            # Its retry may be here already, and could not know this job.
            raise ClientGone
        return await _accept(call, key, bodies, has_key=False)


async def _accept(call: Call, first: str, bodies: Sequence[Mapping[str, Any]], *, has_key: bool) -> Submitted:
    caller = _caller(call)
    requests = []
    for number, body in enumerate(bodies):
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        key = f"{first}/{number}" if number else first
        requests.append(Request(caller, key, text, strict_json.body_sha256(_work(body)), body))
    try:
        accepted = await submit_all_async(call.service.submitting, requests)
    except InsufficientBalance as error:
        error.is_for_a_program = True
        raise
    failpoints.hit("openai.accepted")
    replayed = all(each.replayed for each in accepted)
    return Submitted(tuple(each.job_id for each in accepted), replayed, has_key)


async def wait(call: Call, submitted: Submitted, seconds: float) -> list[Operation]:
    """The jobs when all are final, or when the time is over. Raises ClientGone.

    The jobs of a client that has left without having named a key are cancelled if they are still queued a
    minute later and nobody else waits for them: a page that was closed does not leave its queue to others.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    async with waiting(call, submitted):
        operations = [await _until_final(call, job_id, end) for job_id in submitted.job_ids]
    failpoints.hit("openai.finished")
    return operations


def not_succeeded(call: Call, operations: Sequence[Operation]) -> Answer | None:
    """The answer where a job has not succeeded; None if all have."""
    bad = next((each for each in operations if each.is_final() and each.state != SUCCEEDED), None)
    if bad is None:
        bad = next((each for each in operations if not each.is_final()), None)
    if bad is None:
        return None
    status, error, headers = _refusal(bad)
    headers.append((b"x-service-job", ", ".join(each.id for each in operations).encode()))
    return Answer(status, error_body(error, call.request_id, status), headers)


def job_headers(operations: Sequence[Operation], submitted: Submitted) -> Headers:
    """What every answer says of its jobs: their ids, the SHA-256 of each artifact, what was charged."""
    charged = sum(parse_cny(each.billing.charged) for each in operations)
    shas = [artifact.sha256 for each in operations for artifact in each.artifacts]
    headers = [
        (b"x-service-job", ", ".join(each.id for each in operations).encode()),
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


def _refusal(operation: Operation) -> tuple[int, TenutoError, Headers]:
    if not operation.is_final():
        again = f"send the same request again, or poll GET /v1/jobs/{operation.id}"
        message = f"{operation.id} is {operation.state}; {again}"
        retry_after = (b"retry-after", b"%d" % STILL_RUNNING_S)
        location = (b"location", f"/v1/jobs/{operation.id}".encode())
        return 503, JobEnded("still_running", message), [retry_after, RETRY, location]
    if operation.state == CANCELLED:
        return 400, JobEnded("cancelled", f"{operation.id} was cancelled."), [NO_RETRY]
    if operation.state == RECOVERY_REQUIRED:
        message = (
            f"The outcome of {operation.id} is unknown; its operator decides. Do not send the request again."
        )
        return 500, JobEnded("recovery_required", message), [NO_RETRY]
    assert operation.error is not None, "a failed job says why"
    status = 400 if operation.error.code in CALLERS_FAULT else 500
    return status, JobEnded(operation.error.code, f"{operation.error.message} ({operation.id})"), [NO_RETRY]


def _given_key(call: Call) -> str | None:
    faults: list[Any] = []
    key = request_body.idempotency_key(call, faults)
    if faults:
        raise InvalidRequest(faults)
    return key


def _work(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a job's key is bound to: whether its segments are kept belongs to the form of an answer."""
    parameters = {name: value for name, value in body["parameters"].items() if name != "stream"}
    return {**body, "parameters": parameters}


def has_left(call: Call) -> bool:
    """Whether the client has left, or closed its half, which may be the same."""
    closed: asyncio.Event | None = call.scope.get("half_closed")
    return call.is_gone() or (closed is not None and closed.is_set())


def _stem(route: str, bodies: Sequence[Mapping[str, Any]]) -> str:
    """How the keys of all requests for the same begin, of one API key."""
    digest = hashlib.sha256(f"{route}\n{json.dumps(bodies, sort_keys=True)}".encode()).digest()
    return f"openai{int.from_bytes(digest[:16], 'big'):039d}"


async def _own_key(call: Call, stem: str, *, is_retry: bool) -> str:
    """The key of a request without one: a new one, or of the job that a declared retry means.

    Made of digits, so that every database's collation orders keys of one body by their moment.
    """
    service = call.service
    now_ms = service.clock()
    if is_retry:
        caller, since = _caller(call), f"{stem}{now_ms - JOIN_MS:013d}"
        bound = await service.database.read_async(
            lambda tx: newest_key(tx, caller, since, f"{stem}{'9' * 23}")
        )
        if bound is not None and not service.openai.was_answered(bound.job_id):
            # The jobs of one request have keys that begin with that of its first.
            return bound.idempotency_key.partition("/")[0]
    return f"{stem}{now_ms:013d}{secrets.randbelow(10**10):010d}"


def _is_declared_retry(call: Call) -> bool:
    """Whether OpenAI's SDK says that it has sent this request before."""
    count = call.header(b"x-stainless-retry-count") or b"0"
    return count.isdigit() and int(count[:9]) > 0


async def _until_final(call: Call, job_id: str, end: float) -> Operation:
    loop = asyncio.get_running_loop()

    def look(tx: Transaction, who: Caller) -> tuple[int, Operation]:
        # The sequence first: what changes between the two reads is then seen as a change.
        return read.sequence(tx, job_id), read.for_caller(tx, who, job_id)

    seen = None
    while True:
        began = loop.time()
        sequence, operation = await call.read_again(look)
        if operation.is_final() or began >= end or has_left(call):
            return operation
        if sequence == seen:
            # Too many wait already, or the service stops: `changed` came back at once.
            await call.wait(asyncio.Event(), min(LOOK_S, end - began))
        seen = sequence
        operation, _ = await changed(call, operation, sequence, end - began)
        if operation.is_final():
            return operation


@asynccontextmanager
async def waiting(call: Call, submitted: Submitted) -> AsyncIterator[None]:
    """While a client waits for its jobs; one that leaves without a key has them cancelled later on."""
    requests = call.service.openai
    requests.waiting.update(submitted.job_ids)
    for job_id in submitted.job_ids:
        requests.left.pop(job_id, None)
    try:
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


async def _abandon(service: Service, caller: Caller, job_ids: Sequence[str]) -> None:
    """Cancel what is still queued in a while, unless somebody has come back to it since."""
    await asyncio.sleep(ABANDON_S)
    requests = service.openai
    for job_id in job_ids:
        if requests.left.get(job_id) is asyncio.current_task():
            del requests.left[job_id]
            if not requests.waiting[job_id]:
                await _cancel_queued(service, caller, job_id)


async def _cancel_queued(service: Service, caller: Caller, job_id: str) -> None:
    """Cancel a job that nobody waits for, unless it has been started; what fails is logged and left."""

    def cancel(tx: Transaction) -> bool:
        if read.for_caller(tx, caller, job_id).state != QUEUED:
            return False
        lifecycle.cancel(tx, service.ids, caller, job_id=job_id, now_ms=service.clock())
        return True

    try:
        if await service.database.write_async(cancel):
            service.database.wake("changes")
            _log.info("openai.abandoned", job_id=job_id)
    except TenutoError as error:
        _log.warning("openai.not_cancelled", job_id=job_id, reason=error.message)


def _caller(call: Call) -> Caller:
    assert call.caller is not None, "requests are authenticated first"
    return call.caller
