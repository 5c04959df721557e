"""Accepting a job: parsing by kind, then one transaction for key, hold, job and event.

Everything that can be decided without the lock is decided before it. HTTP is not known here.
"""

import json
from dataclasses import dataclass
from typing import Any

from tenuto.accounts.rules import Caller
from tenuto.billing import operations as billing
from tenuto.catalog import operations as catalog
from tenuto.catalog.rules import Model
from tenuto.db.database import Asked, Transaction
from tenuto.errors import (
    Fault,
    IdempotencyConflict,
    InvalidRequest,
    ModelNotAllowed,
    ModelUnavailable,
    RateLimited,
)
from tenuto.ids import Ids
from tenuto.jobs import binding, read, store
from tenuto.jobs.read import Operation
from tenuto.jobs.states import DEADLINE_MS
from tenuto.jobs.store import NewJob
from tenuto.kinds import envelope
from tenuto.kinds.envelope import Envelope
from tenuto.kinds.every import CHECKS


@dataclass(frozen=True, slots=True)
class Request:
    """One submission as it arrived: the key's words, the body, and the parsed value's digest."""

    caller: Caller
    idempotency_key: str
    body: str
    body_sha256: str
    value: Any


@dataclass(frozen=True, slots=True)
class Parsed:
    """A submission as far as it can be judged without the database."""

    envelope: Envelope
    model: Model
    parameters: Any
    """In the struct of the model's kind."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The operation behind a submission; `replayed` when it was there before."""

    job_id: str
    replayed: bool
    operation: Operation | None = None
    """What is shown of a job made just now. One that was there before may have gone on: it is to be read."""


@dataclass(frozen=True, slots=True)
class Room:
    """What may refuse a valid job just now, as asked: a model that is down, a queue that is full."""

    model: str
    max_queued: int
    offer: Asked
    queued: Asked | None

    def check(self) -> int | None:
        """How many jobs the account may still queue, this one included; None when nothing was counted because
        `max_queued` is 0. Raises ModelUnavailable (503) and RateLimited (429).
        """
        if self.offer.one() is None:
            raise ModelUnavailable(
                f"{self.model} is temporarily unavailable; GET /v1/models shows `callable`. "
                "Nothing was stored."
            )
        if self.queued is None:
            return None
        counted = self.queued.one()
        assert counted is not None, "a count is always one row"
        left = self.max_queued - int(counted["queued"])
        if left <= 0:
            raise RateLimited(
                f"this account has {self.max_queued} jobs queued, as many as it may; submit again when some "
                "have run",
                retry_after_s=10,
                limit="queued_jobs",
            )
        return left


def find_replay(tx: Transaction, request: Request) -> Accepted | None:
    """The job that this key and body made before. IdempotencyConflict: the key belongs to another body."""
    row = store.bound(tx, request.caller.key_id, request.idempotency_key)
    if row is None:
        return None
    if row["body_sha256"] != request.body_sha256:
        raise IdempotencyConflict
    return Accepted(row["job_id"], replayed=True)


def parse(request: Request, models: dict[str, Model]) -> Parsed:
    """Check model, envelope and parameters, in that order; raises with all faults of a step at once."""
    parsed, faults = envelope.check(request.value)
    if type(request.value) is not dict or any(fault.param == "model" for fault in faults):
        raise InvalidRequest(faults)
    name = request.value["model"]
    model = models.get(name)
    if model is None or model.interface != "jobs":
        is_chat = model is not None and request.caller.may_use(name)
        message = "is a chat model; POST /v1/chat/completions asks it" if is_chat else _unknown_model(name)
        raise InvalidRequest([*faults, Fault("model", "unknown_model", message)])
    if not request.caller.may_use(model.name):
        raise ModelNotAllowed
    if parsed is None:
        raise InvalidRequest(faults)
    parameters, more = CHECKS[model.kind](parsed)
    if faults or more:
        raise Unfit(parsed, model, _together(faults, more))
    return Parsed(parsed, model, parameters)


def _together(faults: list[Fault], more: list[Fault]) -> list[Fault]:
    """All faults; what a kind misses is not told of a field that could not be read."""
    faulty = {fault.param.partition("[")[0] for fault in faults}
    return [*faults, *(fault for fault in more if fault.param not in faulty)]


class Unfit(InvalidRequest):
    """The parameters are faulty; what they refer to may be as well, which only the database knows."""

    def __init__(self, envelope: Envelope, model: Model, faults: list[Fault]) -> None:
        super().__init__(faults)
        self.envelope = envelope
        self.model = model


def with_unknown_references(tx: Transaction, caller: Caller, unfit: Unfit) -> InvalidRequest:
    """The refusal of a faulty body with the faults of its references too, so that all are named at once."""
    more = binding.reference_faults(tx, caller, unfit.model.kind, unfit.envelope)
    return InvalidRequest([*unfit.faults, *more])


def ask_room(tx: Transaction, caller: Caller, model: Model, *, max_queued: int, now_ms: int) -> Room:
    """Asks whether there is room for a job; `Room.check` judges. `max_queued` 0: jobs are not counted."""
    offer = catalog.ask_callable(tx, model.name, now_ms=now_ms)
    queued = None
    if max_queued:
        queued = store.queued_of_account(tx, caller.account_id, model.lane, max_queued)
    return Room(model.name, max_queued, offer, queued)


def bind(tx: Transaction, caller: Caller, parsed: Parsed) -> dict[str, Any]:
    """What the engine will get, frozen: every parameter with its value, and what it refers to.

    Raises InvalidRequest for a reference to something that the caller has not (a voice, an input).
    """
    faults = binding.reference_faults(tx, caller, parsed.model.kind, parsed.envelope)
    if faults:
        raise InvalidRequest(faults)
    resolve = binding.BINDINGS[parsed.model.kind]
    return resolve(tx, caller, parsed.envelope, parsed.parameters, parsed.model.entry.defaults)


def accept(
    tx: Transaction, ids: Ids, request: Request, parsed: Parsed, bound: dict[str, Any], *, now_ms: int
) -> Accepted:
    """One transaction: idempotency key → job → event → hold. A key that is bound by now is answered so."""
    model = parsed.model
    new = NewJob(
        job_id=ids.new("job"),
        account_id=request.caller.account_id,
        key_id=request.caller.key_id,
        idempotency_key=request.idempotency_key,
        body_sha256=request.body_sha256,
        kind=model.kind,
        model=model.name,
        lane=model.lane,
        body=request.body,
        parameters=_json(bound),
        metadata=_json(dict(parsed.envelope.metadata)),
        input_artifact_ids=_json(list(parsed.envelope.input_artifact_ids or ())),
        characters=len(bound.get("text", "")),
        rerunnable=model.rerunnable,
        hold_micros=model.price.hold_micros,
        price_micros=model.price.price_micros,
        price_unit=model.price.unit,
        created_at=now_ms,
        deadline_at=now_ms + DEADLINE_MS,
    )
    if not store.bind_key(tx, new):
        replay = find_replay(tx, request)
        assert replay is not None, "a key that is bound stays bound"
        return replay
    store.insert_job(tx, new)
    for blob_id in binding.recordings(bound):
        store.add_recording(tx, new.job_id, blob_id)
    store.add_event(tx, new.job_id, 0, "queued", now_ms=now_ms)
    position = read.ask_position(tx, new.lane, new.job_id)
    # The last, because it is the one that waits for its answer: on PostgreSQL all the above travels with it.
    billing.hold(
        tx,
        ids,
        account_id=new.account_id,
        job_id=new.job_id,
        amount_micros=new.hold_micros,
        now_ms=now_ms,
    )
    return Accepted(new.job_id, replayed=False, operation=read.accepted(new, read.position(position)))


def _unknown_model(name: str) -> str:
    shown = name if len(name) <= 100 else name[:100] + "…"
    return f"there is no model {shown!r}; GET /v1/models lists the full names"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
