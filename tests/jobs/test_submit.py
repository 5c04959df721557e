"""Accepting a job: one key one operation, all faults at once, the order of checks, the hold."""

import pytest

from jobs.world import EVERY_MODEL, METERED, PRICE_MICROS, SPEECH, World, at_once, offered, request_of
from tenuto.accounts.rules import Caller
from tenuto.config import Price
from tenuto.errors import (
    IdempotencyConflict,
    InsufficientBalance,
    InvalidRequest,
    ModelUnavailable,
    RateLimited,
    TenutoError,
)
from tenuto.jobs import submit
from tenuto.jobs.states import DEADLINE_MS
from tenuto.jobs.submit import Accepted

MANY = 50


def test_an_accepted_job_is_all_there(world: World) -> None:
    """Key, job, hold and event are one transaction; what the job needs is frozen in its row (P1)."""
    caller = world.caller()
    body = {"model": SPEECH, "parameters": {"text": "你好。"}, "metadata": {"mine": "1"}}
    accepted = world.send(request_of(caller, "key", body))
    job = world.job(accepted.job_id)

    assert not accepted.replayed
    assert ("queued", "speech", "speech", 1) == (job["state"], job["kind"], job["lane"], job["rerunnable"])
    assert (PRICE_MICROS, PRICE_MICROS, "job") == (
        job["hold_micros"],
        job["price_micros"],
        job["price_unit"],
    )
    assert (world.now_ms, world.now_ms + DEADLINE_MS) == (job["created_at"], job["deadline_at"])
    assert '{"mine":"1"}' == job["metadata"]
    assert '"text":"你好。"' in job["parameters"]
    assert '"temperature":0.8' in job["parameters"]
    assert ["queued"] == world.events(accepted.job_id)
    assert (99 * PRICE_MICROS, PRICE_MICROS) == world.balance(caller.account_id)


def test_a_new_job_is_shown_as_it_is_read(world: World) -> None:
    """What the 202 shows is what the next poll shows, though no row was read for it."""
    caller = world.caller()
    body = {"model": SPEECH, "parameters": {"text": "你好。"}, "metadata": {"mine": "1"}}
    shown = [world.send(request_of(caller, f"key {number}", body)).operation for number in range(3)]

    assert [0, 1, 2] == [operation and operation.queue_position for operation in shown]
    assert shown == [operation and world.operation(caller.account_id, operation.id) for operation in shown]


def test_the_price_of_acceptance_stays(world: World) -> None:
    """A job is charged what its model cost when it was accepted, whatever it costs later."""
    claim = world.running()
    world.models = offered(Price("job", 9 * PRICE_MICROS, 9 * PRICE_MICROS))
    world.finish(claim.attempt_id)

    assert PRICE_MICROS == world.job(claim.job_id)["charged_micros"]


def test_the_same_again_is_the_same_job(world: World) -> None:
    """A replay makes nothing: one job, one hold (P2)."""
    caller = world.caller()
    first = world.submit(caller, "key")
    before = world.everything()
    second = world.submit(caller, "key")

    assert Accepted(first.job_id, replayed=True) == second
    assert before == world.everything()


def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    """An explicit default is another body than an omitted field; nothing is written (P2)."""
    caller = world.caller()
    world.submit(caller, "key")
    before = world.everything()
    explicit = {"model": SPEECH, "parameters": {"text": "你好。", "lang": "zh"}}

    with pytest.raises(IdempotencyConflict):
        world.send(request_of(caller, "key", explicit))
    assert before == world.everything()


def test_two_keys_of_one_account_are_two_namespaces(world: World) -> None:
    """The same idempotency key under two API keys makes two jobs."""
    first = world.caller()
    second = world.key(first.account_id)

    assert world.submit(first, "key").job_id != world.submit(second, "key").job_id


def test_a_replay_is_answered_when_nothing_new_could_start(world: World) -> None:
    """No model, no credit, a narrowed key: the job that is there is there (P2)."""
    caller = world.caller(PRICE_MICROS)
    first = world.submit(caller, "key")
    world.models = {}
    narrowed = Caller(caller.key_id, caller.account_id, frozenset(), frozenset())

    assert (0, PRICE_MICROS) == world.balance(caller.account_id)
    assert Accepted(first.job_id, replayed=True) == world.submit(narrowed, "key")


def test_an_idempotency_key_is_bound_for_ever(world: World) -> None:
    """Also when its job has ended, and years later."""
    caller = world.caller()
    first = world.submit(caller, "key")
    claim = world.claim()
    assert claim is not None
    world.finish(claim.attempt_id)
    world.now_ms += 10 * 365 * 24 * 3600 * 1000

    assert Accepted(first.job_id, replayed=True) == world.submit(caller, "key")
    with pytest.raises(IdempotencyConflict):
        world.submit(caller, "key", text="another")


def test_a_refused_job_binds_no_key(world: World) -> None:
    """After credit came, the same key makes the job."""
    caller = world.caller(PRICE_MICROS - 1)
    before = world.everything()
    with pytest.raises(InsufficientBalance):
        world.submit(caller, "key")

    assert before == world.everything()
    world.credit(caller.account_id, 1)
    assert not world.submit(caller, "key").replayed


def test_many_at_once_with_one_key_and_body_make_one_job(world: World) -> None:
    """50 threads: one job, one hold, every other answer a replay of it (P2)."""
    caller = world.caller()
    answers = at_once(MANY, lambda _: world.submit(caller, "key"))
    accepted = [answer for answer in answers if isinstance(answer, Accepted)]

    assert MANY == len(accepted), answers
    assert 1 == len({answer.job_id for answer in accepted})
    assert MANY - 1 == sum(answer.replayed for answer in accepted)
    assert (99 * PRICE_MICROS, PRICE_MICROS) == world.balance(caller.account_id)
    assert 1 == len(world.all("select id from job"))


def test_many_at_once_with_one_key_and_other_bodies(world: World) -> None:
    """50 threads: exactly one body wins, the rest conflict, and one hold stands (P2)."""
    caller = world.caller()
    answers = at_once(MANY, lambda number: world.submit(caller, "key", text=f"Text {number}."))

    assert 1 == sum(isinstance(answer, Accepted) for answer in answers), answers
    assert MANY - 1 == sum(isinstance(answer, IdempotencyConflict) for answer in answers)
    assert (99 * PRICE_MICROS, PRICE_MICROS) == world.balance(caller.account_id)


def test_parallel_submissions_never_overdraw(world: World) -> None:
    """With credit for N-1 of N exactly N-1 are accepted, and `available` is 0 (P4)."""
    caller = world.caller((MANY - 1) * PRICE_MICROS)
    answers = at_once(MANY, lambda number: world.submit(caller, f"key {number}"))

    assert MANY - 1 == sum(isinstance(answer, Accepted) for answer in answers), answers
    assert 1 == sum(isinstance(answer, InsufficientBalance) for answer in answers)
    assert (0, (MANY - 1) * PRICE_MICROS) == world.balance(caller.account_id)


def test_all_faults_are_named_at_once(world: World) -> None:
    """Of the envelope, the parameters, the inputs and the voices together."""
    body = {
        "model": SPEECH,
        "parameters": {"text": "", "lang": "xx", "top_k": 0, "voice_id": "voice_none", "more": 1},
        "input_artifact_ids": [],
        "metadata": {"a": 1},
        "extra": True,
    }
    caller = world.caller()
    with pytest.raises(submit.Unfit) as caught:
        submit.parse(request_of(caller, "key", body), world.models)
    refusal = world.read(lambda tx: submit.with_unknown_references(tx, caller, caught.value))

    assert {
        "parameters.text",
        "parameters.lang",
        "parameters.top_k",
        "parameters.voice_id",
        "parameters.more",
        "input_artifact_ids",
        "metadata.a",
        "extra",
    } == {fault.param for fault in refusal.faults}


def test_model_then_entitlement_then_parameters(world: World) -> None:
    """An unknown model is 400 for everybody; a model out of sight is 403 before its parameters are read."""
    caller = world.caller()
    narrow = Caller(caller.key_id, caller.account_id, None, frozenset({METERED}))
    bad = {"text": ""}

    assert "unknown_model" in codes(world, caller, {"model": "no/model", "parameters": bad})
    assert "unknown_model" in codes(world, narrow, {"model": "no/model", "parameters": bad})
    assert ["model_not_allowed"] == codes(world, narrow, {"model": SPEECH, "parameters": bad})
    assert "model_not_allowed" not in codes(world, narrow, {"model": METERED, "parameters": bad})
    assert "model_not_allowed" not in codes(world, narrow, {"parameters": bad})


def test_a_long_name_is_not_repeated_whole(world: World) -> None:
    """An error's size has a bound."""
    with pytest.raises(InvalidRequest) as caught:
        request = request_of(world.caller(), "key", {"model": "m" * 200, "parameters": {}})
        submit.parse(request, world.models)

    assert len(str(caught.value)) < 400


def test_room_is_checked_in_order(world: World) -> None:
    """A model that is down is 503 before a full queue is 429; other accounts are not in the way."""
    caller, other = world.caller(), world.caller()

    def check(who: Caller, max_queued: int) -> None:
        model = world.models[SPEECH]
        world.read(
            lambda tx: submit.ask_room(tx, who, model, max_queued=max_queued, now_ms=world.now_ms).check()
        )

    for number in range(2):
        world.submit(caller, f"key {number}")
    with pytest.raises(ModelUnavailable):
        check(caller, 2)
    world.register("worker_a", EVERY_MODEL)
    with pytest.raises(RateLimited):
        check(caller, 2)
    check(caller, 3)
    check(caller, 0)
    check(other, 2)


def test_a_price_of_nothing_needs_no_credit(world: World) -> None:
    """Zero amounts write their entries, so that every job has a hold and a resolution."""
    world.models = offered(Price("job", 0, 0))
    caller = world.caller(0)
    accepted = world.submit(caller, "key")
    claim = world.claim()
    assert claim is not None
    world.finish(claim.attempt_id)

    assert ["hold", "settle"] == world.entries(accepted.job_id)
    assert (0, 0) == world.balance(caller.account_id)


def codes(world: World, caller: Caller, body: object) -> list[str]:
    """The codes of everything that is wrong with a body."""
    try:
        submit.parse(request_of(caller, "key", body), world.models)
    except InvalidRequest as error:
        return [fault.code for fault in error.faults]
    except TenutoError as error:
        return [error.code]
    return []
