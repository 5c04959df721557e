"""Jobs over HTTP: submit, show, list, cancel."""

import re

import msgspec

from tenuto import failpoints, strict_json
from tenuto.accounts.rules import Caller
from tenuto.api import query, uploads
from tenuto.api.body import read_body
from tenuto.api.call import Answer, Call
from tenuto.api.service import Service
from tenuto.db.database import Transaction
from tenuto.errors import (
    CommitUnknown,
    Fault,
    InvalidRequest,
    TenutoError,
    Unavailable,
    UnsupportedMediaType,
)
from tenuto.jobs import read, submit, waiting
from tenuto.jobs.read import Operation
from tenuto.jobs.states import ALL, FINAL
from tenuto.jobs.submit import Request

MAX_WAIT_S = 30
KINDS = ("speech", "recognition", "image")

_SHOW = {"wait": query.integer(0, MAX_WAIT_S)}
_LIST = {
    "state": query.choice(*ALL),
    "kind": query.choice(*KINDS),
    "model": query.text("the full name of a model"),
    "after": query.cursor("job"),
    "limit": query.limit,
}
_IDEMPOTENCY_KEY = re.compile(rb"[\x20-\x7e]{1,255}\Z")
_encode = msgspec.json.Encoder().encode


async def create(call: Call) -> Answer:
    """POST /v1/jobs: 202 when the job is durable. The order of checks is the order of these lines."""
    caller = await call.authenticate()
    if uploads.media_type(call) != b"application/json":
        raise UnsupportedMediaType("the body must be application/json")
    body = await read_body(
        call.receive,
        call.scope["headers"],
        limit_bytes=call.service.settings.job_body_kib << 10,
        limits=call.service.http,
    )
    value = strict_json.parse(body)
    request = Request(
        caller=caller,
        idempotency_key=_idempotency_key(call),
        body=body.decode(),
        body_sha256=strict_json.body_sha256(value),
        value=value,
    )
    operation, replayed = await _accept(call, request)
    if not replayed:
        call.service.database.wake("jobs")
    answer = _operation(operation, 202)
    answer.headers.append((b"location", f"/v1/jobs/{operation.id}".encode()))
    if replayed:
        answer.headers.append((b"idempotent-replayed", b"true"))
    return answer


async def show(call: Call) -> Answer:
    """GET /v1/jobs/{id}; with `wait`, when its state changes or so many seconds are over."""
    finals = call.service.finals
    wait_s = 0

    def look(tx: Transaction, who: Caller) -> tuple[Operation, int] | bytes:
        nonlocal wait_s
        wait_s = int(query.read_some(call, _SHOW).get("wait", 0)) if call.scope["query_string"] else 0
        job_id = call.path_id("job_id", "job")
        kept = finals.get(who.account_id, job_id)
        # The sequence first: what changes between the two reads is then seen as a change.
        sequence = read.sequence(tx, job_id) if wait_s and kept is None else 0
        return kept or (read.get(tx, account_id=who.account_id, job_id=job_id), sequence)

    found = await call.read(look)
    if isinstance(found, bytes):
        return Answer(200, found)
    operation, sequence = found
    if wait_s and not operation.is_final():
        operation = await _changed(call, operation, sequence, wait_s)
    answer = _operation(operation)
    if operation.state in FINAL:
        finals.keep(_caller(call).account_id, operation.id, answer.body)
    return answer


async def index(call: Call) -> Answer:
    """GET /v1/jobs, newest first."""

    def look(tx: Transaction, who: Caller) -> tuple[list[Operation], str | None]:
        asked = query.read_query(call, _LIST)
        return read.list_jobs(
            tx,
            account_id=who.account_id,
            state=asked.get("state"),
            kind=asked.get("kind"),
            model=asked.get("model"),
            after=asked.get("after"),
            limit=query.limit_of(asked),
        )

    operations, cursor = await call.read(look)
    page = {"object": "list", "data": operations}
    return Answer(200, _encode(page if cursor is None else page | {"next_cursor": cursor}))


async def events(call: Call) -> Answer:
    """GET /v1/jobs/{id}/events: the job's life, oldest first."""

    def look(tx: Transaction, who: Caller) -> list[read.Event]:
        return read.events(tx, account_id=who.account_id, job_id=call.path_id("job_id", "job"))

    return Answer(200, _encode({"object": "list", "data": await call.read(look)}))


async def request(call: Call) -> Answer:
    """GET /v1/jobs/{id}/request: the accepted body, as it arrived."""

    def look(tx: Transaction, who: Caller) -> str:
        return read.request_body(tx, account_id=who.account_id, job_id=call.path_id("job_id", "job"))

    return Answer(200, (await call.read(look)).encode())


async def cancel(call: Call) -> Answer:
    """POST /v1/jobs/{id}/cancel: 200 with the operation as it is now."""
    service = call.service
    caller = await call.authenticate()
    await read_body(call.receive, call.scope["headers"], limit_bytes=64 * 1024, limits=service.http)
    job_id = call.path_id("job_id", "job")
    now_ms = service.clock()

    def note(tx: Transaction) -> bool:
        tell = waiting.cancel(tx, service.ids, account_id=caller.account_id, job_id=job_id, now_ms=now_ms)
        failpoints.hit("cancel.before_commit")
        return tell

    tell = await service.database.write_async(note)
    failpoints.hit("cancel.after_commit")
    if tell:
        service.database.wake("cancel")
    service.database.wake("changes")
    return _operation(
        await service.database.read_async(
            lambda tx: read.get(tx, account_id=caller.account_id, job_id=job_id)
        )
    )


async def _accept(call: Call, request: Request) -> tuple[Operation, bool]:
    """The operation, and whether it was there before. All that needs the database is one transaction: on
    SQLite the writer has the pages at hand that a reader has to fetch again after every commit.
    """
    service = call.service
    try:
        parsed = submit.parse(request, service.models)
    except TenutoError as error:
        return await _refuse(service, request, error)
    account_id, lane = request.caller.account_id, parsed.model.lane
    max_queued = 0 if service.rooms.take(account_id, lane) else service.settings.queued_jobs
    now_ms = service.clock()

    def accept(tx: Transaction) -> tuple[Operation, bool, int | None]:
        # Asked before it is known whether it matters: the answers come together.
        room = submit.ask_room(tx, request.caller, parsed.model, max_queued=max_queued, now_ms=now_ms)
        replay = _replay(tx, request)
        if replay is not None:
            return *replay, None
        bound = submit.bind(tx, request.caller, parsed)
        left = room.check()
        accepted = submit.accept(tx, service.ids, request, parsed, bound, now_ms=now_ms)
        operation = accepted.operation or read.get(tx, account_id=account_id, job_id=accepted.job_id)
        failpoints.hit("accept.before_commit")
        return operation, accepted.replayed, left

    try:
        operation, replayed, left = await service.database.write_async(accept)
    except CommitUnknown as unknown:
        # Looked up before it is answered: the key is found, or the job is made now. Only one can be.
        try:
            operation, replayed, left = await service.database.write_async(accept)
        except Unavailable:
            raise unknown from None
        service.database.wake("jobs")
    failpoints.hit("accept.after_commit")
    if left is not None:
        service.rooms.counted(account_id, lane, left - 1)
    return operation, replayed


async def _refuse(service: Service, request: Request, error: TenutoError) -> tuple[Operation, bool]:
    """Raise the refusal, unless this was accepted before: that is answered again, also when it would not be
    accepted any more.
    """

    def look(tx: Transaction) -> tuple[Operation, bool] | TenutoError:
        replay = _replay(tx, request)
        if replay is not None:
            return replay
        if isinstance(error, submit.Unfit):
            return submit.with_unknown_references(tx, request.caller, error)
        return error

    answer = await service.database.read_async(look)
    if isinstance(answer, TenutoError):
        raise answer from error
    return answer


def _replay(tx: Transaction, request: Request) -> tuple[Operation, bool] | None:
    accepted = submit.find_replay(tx, request)
    if accepted is None:
        return None
    return read.get(tx, account_id=request.caller.account_id, job_id=accepted.job_id), True


async def _changed(call: Call, operation: Operation, sequence: int, wait_s: int) -> Operation:
    """The operation when it has changed, or when the time is over; at once when too many wait already.

    Raises ClientGone. A waiting request costs neither a thread nor a connection to the database.
    """
    service, account_id = call.service, _caller(call).account_id
    waiter = service.waits.enter(account_id, operation.id, sequence)
    if waiter is None:
        return operation
    try:
        # What changed before we were known to wait is told to nobody.
        if await service.database.read_async(lambda tx: read.sequence(tx, operation.id)) == sequence:
            await call.wait(waiter.changed, wait_s)
    finally:
        service.waits.leave(waiter)
    return await service.database.read_async(
        lambda tx: read.get(tx, account_id=account_id, job_id=operation.id)
    )


def _caller(call: Call) -> Caller:
    assert call.caller is not None, "whoever read something is known"
    return call.caller


def _operation(operation: Operation, status: int = 200) -> Answer:
    answer = Answer(status, _encode(operation))
    retry_after_s = read.retry_after_s(operation)
    if retry_after_s is not None:
        answer.headers.append((b"retry-after", b"%d" % retry_after_s))
    return answer


def _idempotency_key(call: Call) -> str:
    values = [value for name, value in call.scope["headers"] if name == b"idempotency-key"]
    if len(values) != 1 or _IDEMPOTENCY_KEY.match(values[0]) is None:
        message = (
            "the header is required once: 1 to 255 printable ASCII characters, new for each new piece of work"
        )
        raise InvalidRequest([Fault("Idempotency-Key", "invalid_idempotency_key", message)])
    found: bytes = values[0]
    return found.decode("ascii")
