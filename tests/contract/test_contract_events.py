"""The history of a job, its request, and waiting for it to change."""

import socket
import threading
import time
from typing import Any

import httpx2

from servers.callers import METERED, ON_ONE_DATABASE, Caller, Operator, error_code, faults
from servers.speed import HANG_S, at_least


def events(caller: Caller, job_id: str) -> list[dict[str, Any]]:
    answer = caller.get(f"/v1/jobs/{job_id}/events")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def was_held(answer: httpx2.Response) -> bool:
    """Whether it says that it was held back for all of the time that was asked for."""
    return "preference-applied" in answer.headers


# --- events and the request -----------------------------------------------------------------------


def test_events_tell_every_transition_in_order(caller: Caller) -> None:
    """From queued to succeeded, numbered without gaps, each with its moment and attempt (R7, R30)."""
    job_id = caller.submit()
    operation = caller.wait(job_id)
    told = events(caller, job_id)

    assert ["queued", "running", "succeeded"] == [event["type"] for event in told]
    assert [0, 1, 2] == [event["sequence"] for event in told]
    assert {"object", "sequence", "at", "type", "attempt_id", "detail"} == set(told[0])
    assert operation["created_at"] == told[0]["at"] <= told[1]["at"] <= told[2]["at"]
    assert [None, 1] == [told[0]["attempt_id"], len({event["attempt_id"] for event in told[1:]})]


@ON_ONE_DATABASE
def test_the_request_is_given_back_as_it_was_sent(caller: Caller) -> None:
    """Byte for byte, with its spaces and its order: text is stored verbatim (R101)."""
    body = (
        '{ "parameters": {"text" : "行<行|xing2>\\u4f60, 1.0", "top_p":0.80},"model":"fake/speech" }'.encode()
    )
    job_id = caller.post_job(body).json()["id"]
    answer = caller.get(f"/v1/jobs/{job_id}/request")

    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"])
    assert body == answer.content
    caller.wait(job_id)


# --- waiting --------------------------------------------------------------------------------------


def test_waiting_hears_of_the_start_too(caller: Caller) -> None:
    """queued → running is a change; so is the cancel of the job in front (R7)."""
    blocking = caller.block_lane()
    waiting = caller.submit("[fake:sleep=5] x")
    threading.Timer(0.3, caller.cancel, [blocking]).start()
    answer = caller.get(f"/v1/jobs/{waiting}?wait=20")
    caller.cancel(waiting)

    assert ("running", False) == (answer.json()["state"], was_held(answer))


@ON_ONE_DATABASE
def test_waiting_ends_with_its_time(caller: Caller) -> None:
    """Nothing changes: the operation as it is, after that many seconds, with Retry-After; it says that it was
    held (R28).
    """
    job_id = caller.block_lane()
    with at_least(1):
        answer = caller.get(f"/v1/jobs/{job_id}?wait=1")
    caller.cancel(job_id)

    assert ("running", "1") == (answer.json()["state"], answer.headers["retry-after"])
    assert "wait=1" == answer.headers["preference-applied"]


def test_a_key_that_is_revoked_while_it_waits_gets_no_answer(operator: Operator, caller: Caller) -> None:
    """The key is looked at again before the answer: revoked means from then on (R164)."""
    job_id = caller.block_lane()
    other = operator.key(caller.account_id)
    threading.Timer(0.3, operator.revoke, [other]).start()
    answer = other.get(f"/v1/jobs/{job_id}?wait=1")
    caller.cancel(job_id)

    assert (401, "invalid_api_key") == error_code(answer)


def test_what_is_over_is_not_waited_for(caller: Caller, paid: Operator) -> None:
    """Final jobs, and those that wait for an operator, are answered at once (R38)."""
    done = caller.submit()
    caller.wait(done)
    payer = paid.caller(credit="1")
    recovering = payer.submit("[fake:unknown] x", model=METERED)
    payer.wait(recovering)

    for who, job_id in ((caller, done), (caller, done), (payer, recovering)):
        answer = who.get(f"/v1/jobs/{job_id}?wait=30")
        assert (False, answer.json()["state"]) == (was_held(answer), who.read(job_id)["state"])
    paid.service.command("admin", "recover", "void", recovering)


def test_who_goes_away_frees_the_place(operator: Operator, caller: Caller) -> None:
    """More clients than may wait come and hang up: places are free again, and the service answers (R7)."""
    job_id = caller.block_lane()
    for _ in range(3):
        gone = [_ask(operator, caller, f"/v1/jobs/{job_id}?wait=30") for _ in range(60)]
        time.sleep(0.1)
        for connection in gone:
            connection.close()
    until = time.monotonic() + HANG_S
    while not was_held(caller.get(f"/v1/jobs/{job_id}?wait=1")):
        assert time.monotonic() < until
    caller.cancel(job_id)


@ON_ONE_DATABASE
def test_a_time_that_is_none_is_refused(caller: Caller) -> None:
    """`wait` is a whole number of seconds from 0 to 30 (R207)."""
    job_id = caller.submit()

    for value in ("31", "1.5", "", "٣"):
        assert [("wait", "out_of_range")] == faults(caller.get(f"/v1/jobs/{job_id}?wait={value}"))
    assert caller.wait(job_id) == caller.get(f"/v1/jobs/{job_id}?wait=0").json()


def _ask(operator: Operator, caller: Caller, path: str) -> socket.socket:
    """A connection on which a request was sent; the test may read from it or close it."""
    connection = socket.create_connection(("127.0.0.1", operator.service.port), timeout=40)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {caller.key}\r\n\r\n"
    connection.sendall(head.encode())
    return connection
