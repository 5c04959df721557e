"""Accepting a job: one key one operation, all faults at once, the order of checks, the hold."""

import asyncio
import threading
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from servers.postgres import THROUGH, PostgresServer
from servers.proxy import Proxy, Towards
from servers.speed import HANG_S
from servers.world import (
    EVERY_MODEL,
    METERED,
    PRICE_MICROS,
    SPEECH,
    World,
    at_once,
    offered,
    request_of,
    wait_until_somebody_waits,
)
from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Transaction
from tenuto.db.database_opening import open_database
from tenuto.errors import (
    IdempotencyConflict,
    InsufficientBalance,
    InvalidRequest,
    ModelUnavailable,
    TenutoError,
)
from tenuto.job.queue import QueueFull
from tenuto.job.states import DEADLINE_MS
from tenuto.job.submit import Accepted, check_admission, prepare, submit, submit_async
from tenuto.kind import operations as catalog
from tenuto.kind.presence import Presence

MANY = 50
COMMITTED = b"COMMIT\0"
"""What PostgreSQL says to a commit that was done."""


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
    shown = [world.send(request_of(caller, f"key {number}", body)).job for number in range(3)]

    assert [0, 1, 2] == [operation.queue_position for operation in shown]
    assert shown == [world.operation(caller.account_id, operation.id) for operation in shown]


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

    assert Accepted(first.job, replayed=True) == second
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
    again = world.submit(narrowed, "key")

    assert (0, PRICE_MICROS) == world.balance(caller.account_id)
    assert (first.job_id, True) == (again.job_id, again.replayed)


def test_an_idempotency_key_is_bound_for_ever(world: World) -> None:
    """Also when its job has ended, and years later."""
    caller = world.caller()
    first = world.submit(caller, "key")
    claim = world.claim()
    assert claim is not None
    world.finish(claim.attempt_id)
    world.now_ms += 10 * 365 * 24 * 3600 * 1000

    again = world.submit(caller, "key")
    assert (first.job_id, True, "succeeded") == (again.job_id, again.replayed, again.job.state)
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


def test_two_processes_with_one_key_at_the_same_moment_make_one_job(world: World, database_url: str) -> None:
    """The second looks before the first commits, waits for its commit, and answers with its job (P2)."""
    # With a limit, the account's place in the queue would keep the second waiting before it looks.
    world.max_queued = 0
    request = world.request(world.caller(), "key")
    transaction = prepare(world.submitting, request)
    other = replace(world.submitting, database=open_database(database_url))
    answers: list[Accepted] = []
    second = threading.Thread(target=lambda: answers.append(submit(other, request)))

    def first(tx: Transaction) -> Accepted:
        accepted = transaction(tx)
        second.start()
        wait_until_somebody_waits(world)
        return accepted

    accepted = world.write(first)
    second.join(HANG_S)
    other.database.close()

    assert [(accepted.job_id, True)] == [(answer.job_id, answer.replayed) for answer in answers]
    assert 1 == len(world.all("select id from job"))


def test_many_at_once_with_one_key_and_other_bodies(world: World) -> None:
    """50 threads: exactly one body wins, the rest conflict, and one hold stands (P2)."""
    caller = world.caller()
    answers = at_once(MANY, lambda number: world.submit(caller, "key", text=f"Text {number}."))

    assert 1 == sum(isinstance(answer, Accepted) for answer in answers), answers
    assert MANY - 1 == sum(isinstance(answer, IdempotencyConflict) for answer in answers)
    assert (99 * PRICE_MICROS, PRICE_MICROS) == world.balance(caller.account_id)


def test_another_body_with_a_key_that_is_bound_after_the_look(world: World) -> None:
    """Two look before either writes: the second is undone, finds the key bound, and is refused (P2)."""
    world.max_queued = 0  # Else the lock of the account would let the second one look later.
    caller = world.caller()
    answers: list[Accepted | Exception] = []

    def second() -> None:
        answers.extend(at_once(1, lambda _: world.submit(caller, "key", text="Another text.")))

    meanwhile = threading.Thread(target=second)
    accept = prepare(world.submitting, world.request(caller, "key"))

    def first(tx: Transaction) -> Accepted:
        accepted = accept(tx)
        if meanwhile.ident is None:  # On SQLite, it runs again with the second if that one joins its group.
            meanwhile.start()
        wait_until_somebody_waits(world)
        return accepted

    world.write(first)
    meanwhile.join(HANG_S)

    assert [IdempotencyConflict] == [type(answer) for answer in answers]
    assert (99 * PRICE_MICROS, PRICE_MICROS) == world.balance(caller.account_id)
    assert 1 == len(world.all("select id from job"))


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
    with pytest.raises(InvalidRequest) as caught:
        world.send(request_of(caller, "key", body))

    assert {
        "parameters.text",
        "parameters.lang",
        "parameters.top_k",
        "parameters.voice_id",
        "parameters.more",
        "input_artifact_ids",
        "metadata.a",
        "extra",
    } == {fault.param for fault in caught.value.faults}


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
    assert ["wrong_type"] == codes(world, caller, {"model": SPEECH, "parameters": 7})


def test_what_is_said_of_a_model_that_takes_no_jobs(world: World) -> None:
    """Who may use a chat model reads where it is; to others it is unknown. A long name is not repeated."""
    chat = "fake/chat"
    world.models = world.models | {chat: replace(world.models[SPEECH], name=chat, interface="chat")}
    caller = world.caller()
    narrow = Caller(caller.key_id, caller.account_id, None, frozenset({SPEECH}))

    def told(asking: Caller, model: str) -> str:
        with pytest.raises(InvalidRequest) as caught:
            world.send(request_of(asking, "key", {"model": model, "parameters": {}}))
        return caught.value.faults[-1].message

    assert "is a chat model; use POST /v1/chat/completions" == told(caller, chat)
    assert f"there is no model {chat!r}" in told(narrow, chat)
    assert f"there is no model '{'m' * 100}…'" in told(caller, "m" * 101)


def test_a_model_that_is_down_comes_before_a_full_queue(world: World) -> None:
    """503, then 429; other accounts are not in the way, and a replay is answered all the same."""
    caller, other, world.max_queued = world.caller(), world.caller(), 2
    for number in range(2):
        world.submit(caller, f"key {number}")
    world.run("delete from worker_model")

    with pytest.raises(ModelUnavailable):
        world.submit(caller, "one more")
    assert world.submit(caller, "key 1").replayed
    world.register("worker_a", EVERY_MODEL)
    with pytest.raises(QueueFull):
        world.submit(caller, "one more")
    assert world.submit(caller, "key 1").replayed
    assert not world.submit(other, "key").replayed
    world.max_queued = 3
    assert not world.submit(caller, "one more").replayed
    world.max_queued = 0
    assert not world.submit(caller, "and another").replayed


def test_what_a_job_would_be_refused_for_is_known_before_its_recording_is_decoded(world: World) -> None:
    """Nothing, where there is room; then the full queue, and that no worker has the model (P14)."""
    caller = world.caller()
    world.read(check_admission(world.submitting, world.request(caller, "key")))
    world.max_queued = 1
    world.submit(caller, "key")
    with pytest.raises(QueueFull):
        world.read(check_admission(world.submitting, world.request(caller, "one more")))
    world.run("delete from worker_model")
    with pytest.raises(ModelUnavailable):
        world.read(check_admission(world.submitting, world.request(caller, "one more")))


def test_a_worker_that_is_away_makes_no_model_callable(world: World) -> None:
    """Its row still offers the model; it has stood still for too long."""
    presence = Presence(away_s=0)
    presence.observe(world.read(catalog.workers), now_s=1.0)
    request = world.request(world.caller(), "key")

    with pytest.raises(ModelUnavailable):
        submit(replace(world.submitting, presence=presence), request)
    assert not submit(world.submitting, request).replayed


def test_the_event_loop_submits_as_a_thread_does(world: World) -> None:
    """The same key and body, by either way, are one job; so are the refusals."""
    caller = world.caller()
    request, faulty = world.request(caller, "key"), world.request(caller, "faulty", text="")

    async def both() -> tuple[Accepted, Accepted]:
        return await submit_async(world.submitting, request), await submit_async(world.submitting, request)

    first, second = asyncio.run(both())
    assert (False, True) == (first.replayed, second.replayed)
    assert Accepted(first.job, replayed=True) == second == submit(world.submitting, request)
    with pytest.raises(InvalidRequest) as by_loop:
        asyncio.run(submit_async(world.submitting, faulty))
    with pytest.raises(InvalidRequest) as by_thread:
        submit(world.submitting, faulty)
    assert by_thread.value.faults == by_loop.value.faults


def test_a_lost_answer_is_asked_for_again(
    world: World, database_url: str, postgres_server: PostgresServer
) -> None:
    """The commit was carried out and its answer lost: the job is found by its key, is one, and workers are
    told of it (P2).
    """
    if world.database.dialect != "postgresql":
        pytest.skip("SQLite's answers have no way on which they could be lost")
    caller, told = world.caller(), world.database.listen("jobs-speech")
    assert told.wait(10), "it hears from now on"
    link = Proxy(postgres_server.address)
    linked = open_database(THROUGH.format(port=link.port, name=urlsplit(database_url).path[1:]))
    linked.read(lambda tx: tx.one("select 1 as one"))
    link.cut_at(COMMITTED, Towards.CLIENT)
    accepted = submit(replace(world.submitting, database=linked), world.request(caller, "key"))
    was_told = told.wait(10)
    linked.close()
    link.close()
    told.close()

    assert accepted.replayed
    assert was_told
    assert ["queued"] == [row["state"] for row in world.all("select state from job")]
    assert (99 * PRICE_MICROS, PRICE_MICROS) == world.balance(caller.account_id)


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
        world.send(request_of(caller, "key", body))
    except InvalidRequest as error:
        return [fault.code for fault in error.faults]
    except TenutoError as error:
        return [error.code]
    return []
