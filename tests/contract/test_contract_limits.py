"""Limits of rate and queue, a model that is down, and the last pairs in the order of checks.

The service of these tests lets five requests a second through for each key (a burst of ten), one job wait for
each account, and has an engine of fake/speech that can't be started; its metered model costs 0.05.
"""

import hashlib
import time

import httpx2
import pytest

from servers.callers import METERED, SPEECH, Caller, Operator, error_code, faults, job
from servers.recordings import post, recording
from servers.speed import HANG_S

PATIENCE_S = 120.0


@pytest.fixture(scope="session")
def waiting(poor: Operator) -> Caller:
    """A caller without money whose job for fake/speech waits for ever, the model being down by then."""
    caller = poor.caller()
    assert 202 == caller.post_job(job(), key="first").status_code
    until = time.monotonic() + PATIENCE_S
    while entry(poor)["callable"]:
        assert time.monotonic() < until
        time.sleep(0.1)
    return caller


def entry(poor: Operator, model: str = SPEECH) -> dict[str, object]:
    """A model of the catalog, as a new account sees it."""
    listed = poor.caller().get("/v1/models").json()["data"]
    found: dict[str, object] = next(each for each in listed if each["id"] == model)
    return found


def test_more_requests_than_the_rate_are_429(poor: Operator) -> None:
    """After the burst a key has 429 with Retry-After; another key does not; waiting helps (R212)."""
    caller = poor.caller()
    answers: list[httpx2.Response] = []
    refused: list[httpx2.Response] = []
    while len(refused) < 10 and len(answers) < 300:
        answers.append(caller.get("/v1/jobs"))
        refused += answers[-1:] if answers[-1].status_code != 200 else []

    assert {200} == {answer.status_code for answer in answers[:10]}
    assert len(refused) >= 10
    assert {(429, "rate_limited")} == {error_code(answer) for answer in refused}
    assert all(1 <= int(answer.headers["retry-after"]) <= 120 for answer in refused)
    other = caller.post_job(job(), headers={"Authorization": "Bearer x", "Content-Type": "text/plain"})
    assert (401, "invalid_api_key") == error_code(other)
    assert 200 == poor.key(caller.account_id).get("/v1/jobs").status_code
    time.sleep(int(refused[0].headers["retry-after"]))
    assert 200 == caller.get("/v1/jobs").status_code


def test_a_model_whose_engine_fails_to_start_says_so(poor: Operator, waiting: Caller) -> None:
    """After three failures `callable` is false with a reason; the other model stays callable (R189)."""
    down, up = entry(poor), entry(poor, METERED)

    assert (False, "its engine fails to start") == (down["callable"], down["callable_reason"])
    assert (True, None) == (up["callable"], up["callable_reason"])


def test_no_new_job_for_a_model_that_is_down(poor: Operator, waiting: Caller) -> None:
    """503 model_unavailable with Retry-After; nothing is stored; the job that was there waits (R24, R213)."""
    caller = poor.caller(credit="1")
    refused = caller.post_job(job(), key="again")

    assert (503, "model_unavailable") == error_code(refused)
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    assert [] == caller.newest()
    assert 202 == caller.post_job(job(model=METERED), key="again").status_code
    assert ["queued"] == [operation["state"] for operation in waiting.get("/v1/jobs").json()["data"]]


def test_an_engine_that_does_not_start_shows_callers_no_path(poor: Operator, waiting: Caller) -> None:
    """Where an interpreter is, and why it does not start, is the operator's to know (R34)."""
    [job_id] = [operation["id"] for operation in waiting.get("/v1/jobs").json()["data"]]
    events = waiting.get(f"/v1/jobs/{job_id}/events").json()["data"]

    assert "the model's engine did not start" in [event["detail"] for event in events]
    assert "/bin/false" not in str(events)
    assert "engine" in poor.service.command("admin", "evidence", job_id).stdout


def test_a_service_without_webhooks_says_so(poor: Operator) -> None:
    """They are off unless the operator allows them."""
    caller = poor.caller()

    assert (403, "forbidden") == error_code(caller.get("/v1/webhooks"))
    assert (403, "forbidden") == error_code(caller.request("POST", "/v1/webhooks"))


def test_an_account_stores_so_much(poor: Operator) -> None:
    """What would not fit any more is refused with 429, by its length or by its bytes; nothing of it stays."""
    caller, large = poor.caller(), recording(words=150)
    assert 201 == post(caller, recording(words=10)).status_code
    declared = post(caller, large)
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": hashlib.sha256(large).hexdigest()}
    chunked = httpx2.post(
        f"{poor.service.url}/v1/input-artifacts",
        headers=headers | {"Authorization": f"Bearer {caller.key}"},
        content=iter([large]),
    )
    stored = poor.row("select count(*) as n from artifact where account_id = :id", id=caller.account_id)["n"]

    assert len(large) > 1 << 20
    assert [(429, "rate_limited")] * 2 == [error_code(declared), error_code(chunked)]
    assert 1 == stored


def test_a_replay_is_answered_while_the_model_is_down(waiting: Caller) -> None:
    """The replay of a waiting job is its operation, however full the queue and empty the purse (R19)."""
    again = waiting.post_job(job(), key="first")

    assert (202, "true") == (again.status_code, again.headers["idempotent-replayed"])
    assert "queued" == again.json()["state"]


def test_the_parameters_come_before_callable(waiting: Caller) -> None:
    """400 before 503, and 503 before the 429 of a queue that is full."""
    assert [("parameters.top_k", "out_of_range")] == faults(waiting.post_job(job(top_k=0)))
    assert (503, "model_unavailable") == error_code(waiting.post_job(job()))


def test_the_queue_comes_before_the_balance(poor: Operator, waiting: Caller) -> None:
    """The 429 of a full queue, with Retry-After, before the 403 of an empty purse (R212)."""
    full = waiting.post_job(job(model=METERED))
    empty = poor.caller().post_job(job(model=METERED))

    assert (429, "rate_limited") == error_code(full)
    assert 1 <= int(full.headers["retry-after"]) <= 120
    assert (403, "insufficient_balance") == error_code(empty)


def test_a_full_queue_takes_the_next_job_when_one_has_gone(poor: Operator) -> None:
    """The cap counts what waits, for each account by itself; a refused key stays free (R212, R214)."""
    caller, other = poor.caller(credit="1"), poor.caller(credit="1")
    running = caller.post_job(job("[fake:sleep=3] x", model=METERED)).json()["id"]
    until = time.monotonic() + HANG_S
    while caller.read(running)["state"] != "running":
        assert time.monotonic() < until
        time.sleep(0.3)
    queued = caller.post_job(job(model=METERED)).json()["id"]
    refused = caller.post_job(job(model=METERED), key="third")
    others = other.post_job(job(model=METERED))
    caller.cancel(queued)
    accepted = caller.post_job(job(model=METERED), key="third")

    assert (429, "rate_limited") == error_code(refused)
    assert (202, 202) == (others.status_code, accepted.status_code)
