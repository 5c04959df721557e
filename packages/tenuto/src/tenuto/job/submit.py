"""Submitting a job: `submit` takes it from a parsed body to a durable row; only this module knows the order.

What can be checked without the database is checked first (`prepare`); the rest is one transaction for the
idempotency key, what the job refers to, the queue's limit, the job, its event and its hold. Knows nothing
of HTTP.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.db.database import Database, Deferred, Transaction
from tenuto.db.retrying import write_known, write_known_async
from tenuto.errors import (
    Fault,
    IdempotencyConflict,
    InvalidRequest,
    ModelNotAllowed,
    ModelUnavailable,
    TenutoError,
)
from tenuto.file import inputs
from tenuto.file.blob import BlobStore
from tenuto.ids import Clock, Ids
from tenuto.job import events, jobs_sql, queue, read
from tenuto.job.jobs_sql import NewestKey, NewJob
from tenuto.job.queue import FullQueues, Quota
from tenuto.job.read import Job
from tenuto.job.states import DEADLINE_MS, QUEUED
from tenuto.job.titles import title_and_search_text
from tenuto.kind import envelope
from tenuto.kind import operations as catalog
from tenuto.kind.envelope import Envelope
from tenuto.kind.kinds import Binding, kinds
from tenuto.kind.model import Model, at_price
from tenuto.kind.presence import Presence
from tenuto.logs import tell
from tenuto.money import operations as billing

T = TypeVar("T")
_encode = msgspec.json.Encoder(enc_hook=float).encode

PATIENCE_S = 10.0
"""How long `submit` tries to determine the outcome of a commit whose response was lost."""


class SubmitContext(msgspec.Struct, frozen=True):
    """What `submit` needs from its process. Made once, at startup."""

    database: Database
    blobs: BlobStore
    models: Mapping[str, Model]
    ids: Ids
    clock: Clock
    presence: Presence
    """Workers that it considers lost do not make a model callable, whatever their rows say."""
    max_queued: int
    """How many jobs an account may have queued in a lane; 0: any number."""
    full_queues: FullQueues = msgspec.field(default_factory=FullQueues)


class Origin(msgspec.Struct, frozen=True):
    """The request that a submission came with, for whoever observes it."""

    request_id: str
    began_s: float
    """On the clock of `time.perf_counter`."""
    traceparent: str | None
    """The caller's, checked, in the form that is stored with the job."""


class Request(msgspec.Struct, frozen=True):
    """One submission as it arrived: the idempotency key, the parsed body and its digest."""

    caller: Caller
    idempotency_key: str
    body: str
    body_sha256: str
    value: Any
    origin: Origin | None = None
    """None: nobody observes it."""
    join: Callable[[Transaction], str | None] | None = None
    """Finds, with the account locked, the key under which another try of this request was accepted."""


class Accepted(msgspec.Struct, frozen=True):
    """The job behind a submission; `replayed` if it already existed."""

    job: Job
    replayed: bool
    traceparent: str | None = None
    """Of the job, where the request has an origin."""

    @property
    def job_id(self) -> str:
        return self.job.id


def submit(context: SubmitContext, request: Request) -> Accepted:
    """Accept a job, or return the one that this key and body made before; it is durable when this returns.

    Raises the refusal, after which nothing is stored: InvalidRequest with all faults, ModelNotAllowed,
    IdempotencyConflict, ModelUnavailable, QueueFull, InsufficientBalance; Unavailable when nothing can be
    stored just now, CommitUnknown if the outcome of the commit cannot be determined.
    """
    try:
        transaction = prepare(context, request)
    except TenutoError as refusal:
        return context.database.read(partial(_replay_or_refuse, request, refusal))
    with context.full_queues.noting():
        try:
            accepted = write_known(context.database, transaction, patience_s=PATIENCE_S)
        except _BoundMeanwhile:
            accepted = write_known(context.database, transaction, patience_s=PATIENCE_S)
    return _announced(context, request, accepted)


async def submit_async(context: SubmitContext, request: Request) -> Accepted:
    """`submit` for the event loop; if the outcome stays unknown, the client has to retry."""
    try:
        transaction = prepare(context, request)
    except TenutoError as refusal:
        return await context.database.read_async(partial(_replay_or_refuse, request, refusal))
    accepted = await _write_async(context, transaction, request.caller.account_id)
    return _announced(context, request, accepted)


async def submit_all_async(context: SubmitContext, requests: Sequence[Request]) -> list[Accepted]:
    """`submit_async` for the jobs of one group: in one transaction, so all of them or none."""
    try:
        transactions = [prepare(context, request) for request in requests]
    except TenutoError as refusal:
        replays = [partial(_replay_or_refuse, request, refusal) for request in requests]
        return await context.database.read_async(lambda tx: [replay(tx) for replay in replays])
    accepted = await _write_async(
        context, lambda tx: [each(tx) for each in transactions], requests[0].caller.account_id
    )
    return [_announced(context, each, job) for each, job in zip(requests, accepted, strict=True)]


async def find_accepted_async(context: SubmitContext, request: Request) -> Accepted | None:
    """The job that this key and body made before. IdempotencyConflict: the key belongs to another body."""
    accepted = await context.database.read_async(lambda tx: _find_replay(tx, request))
    return None if accepted is None else _announced(context, request, accepted)


async def submit_with_input_async(
    context: SubmitContext, request: Request, add_input: Callable[[Transaction], None]
) -> Accepted:
    """`submit_async` of a job and the input that it names, in one transaction: both are durable, or neither.

    `add_input` records the input. It has no effect for a job that already exists, which has its input.
    """
    transaction = prepare(context, request)

    def with_input(tx: Transaction) -> Accepted:
        replay = _find_replay(tx, _joined(tx, request))
        if replay is not None:
            return replay
        add_input(tx)
        accepted = transaction(tx)
        if accepted.replayed:  # Its input would be one too many.
            raise _BoundMeanwhile
        inputs.send_with_job(tx, request.value["input_artifact_ids"], job_id=accepted.job_id)
        return accepted

    return _announced(context, request, await _write_async(context, with_input, request.caller.account_id))


class _BoundMeanwhile(Exception):
    """Another submission bound the key after this one looked. This one is rolled back and finds that job when
    it runs again, because a bound key stays bound."""


async def _write_async(context: SubmitContext, transaction: Callable[[Transaction], T], account_id: str) -> T:
    with context.full_queues.noting():
        try:
            return await write_known_async(context.database, transaction, account_id=account_id)
        except _BoundMeanwhile:
            return await write_known_async(context.database, transaction, account_id=account_id)


def newest_key(tx: Transaction, caller: Caller, since: str, until: str) -> NewestKey | None:
    """The last idempotency key of the caller's API key from `since` to `until`, of letters and digits."""
    return jobs_sql.newest_key(tx, caller.key_id, since, until)


def check_admission(context: SubmitContext, request: Request) -> Callable[[Transaction], None]:
    """A read that refuses what a submission would be refused for now, before work that it would begin with.

    Raises every refusal that needs no database; the read raises ModelUnavailable, QueueFull and
    InsufficientBalance. It reserves nothing, and does not know of replays: find them first.
    """
    caller, parsed = request.caller, _parse(request, context.models)
    lane, limit = parsed.model.lane, context.max_queued
    was_full = context.full_queues.was_full(caller.account_id, lane)

    def check(tx: Transaction) -> None:
        offer = catalog.ask_callable(tx, parsed.model.name, away=context.presence.away)
        model = _offered(parsed.model, offer)
        if limit:
            queue.refuse_full(tx, caller.account_id, lane, limit=limit, was_full=was_full)
        billing.refuse_uncovered(tx, caller.account_id, model.price.hold_micros, "job")

    return check


def prepare(context: SubmitContext, request: Request) -> Callable[[Transaction], Accepted]:
    """The transaction of a submission, which may be run again. Raises every refusal that needs no database.

    The same transaction also does the reading: on SQLite the writer has pages cached that a reader would
    have to fetch again after every commit.
    """
    caller, parsed = request.caller, _parse(request, context.models)
    was_full = context.full_queues.was_full(caller.account_id, parsed.model.lane)
    now_ms = context.clock()

    def transaction(tx: Transaction) -> Accepted:
        # Sent before it is known whether it is needed, so that the responses arrive together.
        availability = _ask_availability(tx, context, caller, parsed.model, was_full=was_full)
        replay = _find_replay(tx, _joined(tx, request))
        if replay is not None:
            return replay
        context.blobs.check_location()
        bound = _bind(tx, caller, parsed)
        priced = replace(parsed, model=availability.take())
        accepted = _accept(tx, context.ids, request, priced, bound, now_ms=now_ms)
        failpoints.hit("accept.before_commit")
        return accepted

    return transaction


def _announced(context: SubmitContext, request: Request, accepted: Accepted) -> Accepted:
    """The job is durable: wake the workers. For a replay too: the first process may have died here."""
    failpoints.hit("accept.after_commit")
    if accepted.job.state == QUEUED:
        queue.wake(context.database, accepted.job.kind)
    if request.origin is not None:
        tell(
            "job.accepted",
            origin=request.origin,
            job=accepted.job,
            is_replay=accepted.replayed,
            traceparent=accepted.traceparent,
            ended_ms=context.clock(),
        )
    return accepted


def _replay_or_refuse(request: Request, refusal: TenutoError, tx: Transaction) -> Accepted:
    """Answer with the job that was accepted before, even if it would be refused today; else refuse.

    The refusal of a faulty body also names the faults of its references, so that all are named at once.
    """
    replay = _find_replay(tx, request)
    if replay is not None:
        return replay
    if isinstance(refusal, Unfit):
        more = kinds()[refusal.model.kind].references(tx, request.caller, refusal.envelope)
        raise InvalidRequest([*refusal.faults, *more]) from refusal
    raise refusal


def _joined(tx: Transaction, request: Request) -> Request:
    """The request under the key of its other try, if that was accepted, by any process on any machine."""
    if request.join is None:
        return request
    queue.lock_account(tx, request.caller.account_id)
    key = request.join(tx)
    return request if key is None else replace(request, idempotency_key=key)


def _find_replay(tx: Transaction, request: Request) -> Accepted | None:
    """The job that this key and body made before. IdempotencyConflict: the key belongs to another body."""
    bound = jobs_sql.bound(tx, request.caller.key_id, request.idempotency_key)
    if bound is None:
        return None
    if bound.body_sha256 != request.body_sha256:
        raise IdempotencyConflict
    job = read.get(tx, account_id=request.caller.account_id, job_id=bound.job_id)
    traceparent = None if request.origin is None else jobs_sql.traceparent(tx, bound.job_id)
    return Accepted(job, replayed=True, traceparent=traceparent)


# --- what can be checked without the database -------------------------------------------------------


class _Parsed(msgspec.Struct, frozen=True):
    """A submission as far as it can be checked without the database."""

    envelope: Envelope
    model: Model
    parameters: Any
    """In the struct of the model's kind."""


class Unfit(InvalidRequest):
    """The parameters are faulty; what they refer to may be as well, which only the database knows."""

    def __init__(self, envelope: Envelope, model: Model, faults: list[Fault]) -> None:
        super().__init__(faults)
        self.envelope = envelope
        self.model = model


def _parse(request: Request, models: Mapping[str, Model]) -> _Parsed:
    """Check model, envelope and parameters, in that order; raises with all faults of a step at once."""
    parsed, faults = envelope.check(request.value)
    if type(request.value) is not dict or any(fault.param == "model" for fault in faults):
        raise InvalidRequest(faults)
    name = request.value["model"]
    model = models.get(name)
    if model is None or model.interface != "jobs":
        is_chat = model is not None and request.caller.may_use(name)
        message = "is a chat model; use POST /v1/chat/completions" if is_chat else _unknown_model(name)
        raise InvalidRequest([*faults, Fault("model", "unknown_model", message)])
    if not request.caller.may_use(model.name):
        raise ModelNotAllowed
    if parsed is None:
        raise InvalidRequest(faults)
    parameters, more = kinds()[model.kind].check(parsed)
    if faults or more:
        raise Unfit(parsed, model, _together(faults, more))
    return _Parsed(parsed, model, parameters)


def _together(faults: list[Fault], more: list[Fault]) -> list[Fault]:
    """All faults; a field that could not be read is not also reported as missing."""
    faulty = {fault.param.partition("[")[0] for fault in faults}
    return [*faults, *(fault for fault in more if fault.param not in faulty)]


def _unknown_model(name: str) -> str:
    short = name if len(name) <= 100 else name[:100] + "…"
    return f"there is no model {short!r}; GET /v1/models lists the full names"


# --- the steps of the transaction -------------------------------------------------------------------


class _Availability(msgspec.Struct, frozen=True):
    """Why a valid job may be refused at the moment: its model is down, or the queue is full."""

    model: Model
    offer: Deferred
    quota: Quota | None

    def take(self) -> Model:
        """Reserve a place in the queue for one job; returns the model at its current price.

        Raises ModelUnavailable (503) and QueueFull (429).
        """
        model = _offered(self.model, self.offer)
        if self.quota is not None:
            self.quota.take()
        return model


def _offered(model: Model, asked: Deferred) -> Model:
    """The model at its current price. ModelUnavailable if no worker offers it, or the operator does not."""
    offer = asked.one()
    if offer is None or not offer["is_enabled"]:
        why = "temporarily unavailable" if offer is None else "switched off by the operator"
        raise ModelUnavailable(f"{model.name} is {why}; GET /v1/models shows `callable`. Nothing was stored.")
    return at_price(model, offer["price_micros"])


def _ask_availability(
    tx: Transaction, context: SubmitContext, caller: Caller, model: Model, *, was_full: bool
) -> _Availability:
    """Asks if a worker offers the model and the account may queue one more. `was_full`: see `ask_quota`."""
    offer = catalog.ask_callable(tx, model.name, away=context.presence.away)
    if not context.max_queued:
        return _Availability(model, offer, None)
    limited = queue.ask_quota(tx, caller.account_id, model.lane, limit=context.max_queued, was_full=was_full)
    return _Availability(model, offer, limited)


def _bind(tx: Transaction, caller: Caller, parsed: _Parsed) -> Binding:
    """What the engine will get, frozen: every parameter with its value, and what it refers to.

    Raises InvalidRequest for a reference to something that the caller does not have (a voice, an input).
    """
    kind = kinds()[parsed.model.kind]
    faults = kind.references(tx, caller, parsed.envelope)
    if faults:
        raise InvalidRequest(faults)
    return kind.bind(tx, caller, parsed.envelope, parsed.parameters, parsed.model.entry.defaults)


def _accept(
    tx: Transaction, ids: Ids, request: Request, parsed: _Parsed, bound: Binding, *, now_ms: int
) -> Accepted:
    """Idempotency key → job → event → hold. All is sent before any response is read, because on PostgreSQL
    that is one round trip; a refusal rolls all of it back. Raises _BoundMeanwhile.
    """
    new = _new_job(ids.new("job"), request, parsed, bound, now_ms=now_ms)
    key = jobs_sql.ask_bind_key(
        tx,
        new.key_id,
        request.idempotency_key,
        body_sha256=request.body_sha256,
        job_id=new.job_id,
        now_ms=now_ms,
    )
    jobs_sql.insert_job(tx, new)
    for blob_id in bound.recordings:
        jobs_sql.add_recording(tx, new.job_id, blob_id)
    events.add_event(tx, new.job_id, 0, "queued", now_ms=now_ms)
    position = read.ask_position(tx, new.lane, new.job_id)
    hold = billing.hold(
        tx,
        ids,
        account_id=new.account_id,
        job_id=new.job_id,
        amount_micros=new.hold_micros,
        now_ms=now_ms,
    )
    if not key.changed():
        raise _BoundMeanwhile
    hold.check()
    job = read.accepted(new, read.position(position))
    return Accepted(job, replayed=False, traceparent=new.traceparent)


def _new_job(job_id: str, request: Request, parsed: _Parsed, bound: Binding, *, now_ms: int) -> NewJob:
    model = parsed.model
    title, search_text = title_and_search_text(bound.text)
    return NewJob(
        job_id=job_id,
        account_id=request.caller.account_id,
        key_id=request.caller.key_id,
        kind=model.kind,
        model=model.name,
        lane=model.lane,
        body=request.body,
        parameters=_json(bound.parameters),
        metadata=_json(dict(parsed.envelope.metadata)),
        input_artifact_ids=_json(list(parsed.envelope.input_artifact_ids or ())),
        characters=bound.characters,
        rerunnable=int(model.rerunnable),
        hold_micros=model.price.hold_micros,
        price_micros=model.price.price_micros,
        price_unit=model.price.unit,
        created_at=now_ms,
        deadline_at=now_ms + DEADLINE_MS,
        title=title,
        search_text=search_text,
        voice_id=bound.voice_id,
        traceparent=None if request.origin is None else request.origin.traceparent,
    )


def _json(value: Any) -> str:
    """As stored, by msgspec: `json` takes six times the processor time."""
    return _encode(value).decode()
