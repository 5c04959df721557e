"""Jobs over HTTP: submit, show, list, cancel."""

from functools import partial

from tenuto import failpoints, strict_json
from tenuto.account.caller import Caller
from tenuto.api import json_body, query, retry_after
from tenuto.api.answers import REPLAYED, Answer, json_answer, json_list
from tenuto.api.call import Call
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest
from tenuto.job import finish, read
from tenuto.job.read import Job
from tenuto.job.states import ALL, FINAL
from tenuto.job.submit import Request, submit_async
from tenuto.kind.kinds import kinds
from tenuto.rules import Choice, Integer

MAX_WAIT_S = 30


_SHOW = {"wait": Integer(0, MAX_WAIT_S)}
PAGE: query.Rules = {"after": query.cursor("job"), "limit": query.LIMIT}


def filters() -> query.Rules:
    """What a list of jobs can be asked for. The kinds are not known yet on import."""
    model = query.text("the full name of a model")
    return {"state": Choice(ALL), "kind": Choice(tuple(kinds())), "model": model}


async def create(call: Call) -> Answer:
    """POST /v1/jobs: 202 when the job is durable. Checks run in the order of these lines."""
    caller = await call.authenticate()
    body, value = await json_body.read_json(call, call.service.settings.job_body_kib << 10)
    request = Request(
        caller=caller,
        idempotency_key=_idempotency_key(call),
        body=body.decode(),
        body_sha256=await json_body.beside_large(call, body, partial(strict_json.body_sha256, value)),
        value=value,
        origin=call.origin(),
    )
    accepted = await submit_async(call.service.submitting, request)
    answer = _answer(accepted.job, 202)
    answer.headers.append((b"location", f"/v1/jobs/{accepted.job_id}".encode()))
    if accepted.replayed:
        answer.headers.append(REPLAYED)
    return answer


async def show(call: Call) -> Answer:
    """GET /v1/jobs/{id}; with `wait`, answered once its state changes or that many seconds have passed."""
    finals = call.service.final_jobs
    caller = await call.authenticate()
    wait_s = 0
    if call.scope["query_string"]:
        wait_s = int(query.read_query(call, _SHOW, tolerant=True).get("wait", 0))
    job_id = call.path_id("job_id", "job")
    cached = finals.get(caller, job_id)
    if cached is not None:
        return Answer(200, cached)

    def find(tx: Transaction) -> tuple[int, Job]:
        # Sequence first, so that a change between the two reads is noticed.
        return read.sequence(tx, job_id) if wait_s else 0, read.for_caller(tx, caller, job_id)

    sequence, job = await call.service.database.read_async(find)
    was_held = False
    if wait_s and not job.is_final():
        job, was_held = await changed(call, job, sequence, wait_s)
    answer = _answer(job)
    if was_held:
        answer.headers.append((b"preference-applied", b"wait=%d" % wait_s))
    if job.state in FINAL:
        finals.keep(caller.account_id, job, answer.body)
    return answer


async def index(call: Call) -> Answer:
    """GET /v1/jobs, newest first."""

    def find(tx: Transaction, who: Caller) -> tuple[list[Job], str | None]:
        asked = query.read_query(call, {**filters(), **PAGE})
        return read.list_jobs(
            tx,
            who,
            state=asked.get("state"),
            kind=asked.get("kind"),
            model=asked.get("model"),
            after=asked.get("after"),
            limit=query.limit_of(asked),
        )

    return json_list(*await call.read(find))


async def request(call: Call) -> Answer:
    """GET /v1/jobs/{id}/request: the accepted body, as it arrived."""

    def find(tx: Transaction, who: Caller) -> str:
        return read.request_body(tx, who, call.path_id("job_id", "job"))

    return Answer(200, (await call.read(find)).encode())


async def cancel(call: Call) -> Answer:
    """POST /v1/jobs/{id}/cancel: 200 with the job as it is now."""
    service = call.service
    caller = await call.authenticate()
    await call.read_body()
    job_id = call.path_id("job_id", "job")
    now_ms = service.clock()

    def note(tx: Transaction) -> bool:
        tell = finish.cancel(tx, service.ids, caller, job_id=job_id, now_ms=now_ms)
        failpoints.hit("cancel.before_commit")
        return tell

    tell = await service.database.write_async(note, account_id=caller.account_id)
    failpoints.hit("cancel.after_commit")
    if tell:
        service.database.wake("cancel")
    service.database.wake("changes")
    return _answer(await service.database.read_async(lambda tx: read.for_caller(tx, caller, job_id)))


async def changed(call: Call, job: Job, sequence: int, wait_s: float) -> tuple[Job, bool]:
    """The job once it has changed or `wait_s` has passed; at once when too many wait already.

    Also returns whether the answer was held back for the whole of `wait_s`: only then may a client poll again
    without a pause of its own. Raises ClientGone. A waiting request occupies neither a thread nor a
    connection to the database.
    """
    service, caller = call.service, _caller(call)
    waiter = service.long_polls.enter(caller.account_id, job.id, sequence)
    if waiter is None:
        return job, False
    was_held = False
    try:
        # A change before we entered does not wake us.
        if await call.read_patiently(lambda tx: read.sequence(tx, job.id)) == sequence:
            was_held = await call.wait(waiter.changed, wait_s)
    finally:
        service.long_polls.leave(waiter)
    return await call.read_again(lambda tx, who: read.for_caller(tx, who, job.id)), was_held


def _caller(call: Call) -> Caller:
    assert call.caller is not None, "whoever read something is known"
    return call.caller


def _answer(job: Job, status: int = 200) -> Answer:
    answer = json_answer(status, job)
    seconds = retry_after.of_job(job)
    if seconds is not None:
        answer.headers.append((b"retry-after", b"%d" % seconds))
    return answer


def _idempotency_key(call: Call) -> str:
    values = call.header_values(b"idempotency-key")
    if len(values) != 1 or json_body.IDEMPOTENCY_KEY.match(values[0]) is None:
        message = (
            "the header is required once: 1 to 255 printable ASCII characters, new for each new piece of work"
        )
        raise InvalidRequest([Fault("Idempotency-Key", "invalid_idempotency_key", message)])
    return values[0].decode("ascii")
