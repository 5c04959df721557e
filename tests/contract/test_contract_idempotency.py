"""Idempotency keys: one job however often it is sent, a conflict for any other body, bound for ever."""

import http.client
import json
import threading
import uuid

import httpx2
import pytest

from servers import lying
from servers.callers import Caller, Operator, error_code, job

THREADS = 32


def test_a_replay_gives_the_original_operation(caller: Caller) -> None:
    """The same key and body give 202, the same place and the operation as it is now (R16, R19)."""
    key = str(uuid.uuid4())
    first = caller.post_job(job(), key=key)
    finished = caller.wait(first.json()["id"])
    again = caller.post_job(job(), key=key)

    assert (202, first.headers["location"], "true") == (
        again.status_code,
        again.headers["location"],
        again.headers["idempotent-replayed"],
    )
    assert finished == again.json()
    assert "succeeded" == finished["state"]
    assert [finished["id"]] == caller.newest()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (
            b'{"model":"fake/speech","parameters":{"text":"x","top_k":1}}',
            b' { "parameters" : {"top_k": 1, "text": "\\u0078"}, "model": "fake\\/speech" }\n',
        ),
        (
            b'{"model":"fake/speech","parameters":{"text":"x","top_p":1.0,"temperature":10e-1}}',
            b'{"model":"fake/speech","parameters":{"text":"x","top_p":1,"temperature":1}}',
        ),
    ],
)
def test_the_same_value_is_the_same_body(caller: Caller, first: bytes, second: bytes) -> None:
    """Order of names, spaces, escapes and the writing of a number do not make another body (R19)."""
    key = str(uuid.uuid4())
    accepted, again = caller.post_job(first, key=key), caller.post_job(second, key=key)

    assert accepted.json()["id"] == again.json()["id"]
    assert "true" == again.headers["idempotent-replayed"]


def test_another_body_is_a_conflict(caller: Caller) -> None:
    """Another body, an explicit default or another form of a character too, is 409 and changes nothing (R20,
    R210)."""
    key = str(uuid.uuid4())
    accepted = caller.post_job(job("\u00e9", top_p=1), key=key).json()["id"]
    for other in (
        {"text": "y"},
        {"text": "e\u0301", "top_p": 1},
        {"text": "\u00e9", "top_p": 0.9999999999999999},
        {"text": "\u00e9"},
        {"text": "\u00e9", "top_p": 1, "lang": "zh"},
        {"text": " \u00e9", "unknown": 1},
        {},
    ):
        conflict = caller.post_job({"model": "fake/speech", "parameters": other}, key=key)
        assert (409, "idempotency_conflict") == error_code(conflict)
        assert "false" == conflict.headers["x-should-retry"]

    assert [accepted] == caller.newest()
    assert "succeeded" == caller.wait(accepted)["state"]


def test_keys_are_the_api_keys_own(operator: Operator, caller: Caller) -> None:
    """The same idempotency key of another API key, of another account or of this one, is new; so is one that
    differs in case or in a space inside (R10, R19, R22)."""
    key = str(uuid.uuid4())
    callers = [caller, operator.key(caller.account_id), operator.caller()]
    answers = [each.post_job(job(), key=key) for each in callers]
    others = [caller.post_job(job(), key=other) for other in (key + "a", key + "A", f"{key} a")]
    answers += others

    assert 6 == len({answer.json()["id"] for answer in answers})
    assert [None] * 6 == [answer.headers.get("idempotent-replayed") for answer in answers]


def test_a_rotated_key_keeps_its_idempotency_keys(operator: Operator, caller: Caller) -> None:
    """A new secret under the same key id replays what the old one submitted (R19, R202)."""
    key = str(uuid.uuid4())
    first = caller.post_job(job(), key=key).json()["id"]
    made = operator.service.command_json("admin", "keys", "rotate", caller.key_id, "--grace", "0s")
    rotated = Caller(caller.http, caller.account_id, caller.key_id, made["key"])
    again = rotated.post_job(job(), key=key)

    assert (first, "true") == (again.json()["id"], again.headers["idempotent-replayed"])
    assert 401 == caller.get("/v1/jobs").status_code


def test_blanks_around_a_key_are_none_of_it(caller: Caller) -> None:
    """A retry through a proxy that drops blanks at the ends of a field has the same key (R19, R21)."""
    key = str(uuid.uuid4())
    body = json.dumps(job()).encode()
    connection = http.client.HTTPConnection(caller.http.base_url.host, caller.http.base_url.port)
    ids = []
    for value in (f"{key} ", key, f"  {key}\t "):
        headers = {"Authorization": f"Bearer {caller.key}\t", "Content-Type": "application/json "}
        connection.request("POST", "/v1/jobs", body, {**headers, "Idempotency-Key": value})
        ids.append(json.loads(connection.getresponse().read())["id"])
    connection.close()

    assert caller.newest() * 3 == ids


def test_concurrent_duplicates_make_one_job(caller: Caller) -> None:
    """Thirty-two clients that send the same at once get one job between them (R19, R21)."""
    key, answers = str(uuid.uuid4()), []
    together = threading.Barrier(THREADS)

    def send() -> None:
        with httpx2.Client(
            base_url=caller.http.base_url, timeout=120, verify=False, transport=lying.transport()
        ) as http:
            own = Caller(http, caller.account_id, caller.key_id, caller.key)
            together.wait()
            answers.append(own.post_job(job(), key=key))

    threads = [threading.Thread(target=send) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [202] * THREADS == [answer.status_code for answer in answers]
    assert 1 == len({answer.json()["id"] for answer in answers})
    assert 1 == sum("idempotent-replayed" not in answer.headers for answer in answers)
    assert 1 == len(caller.newest())


def test_a_replay_is_answered_when_the_model_is_out_of_sight(operator: Operator, caller: Caller) -> None:
    """A replay starts nothing, so it is answered although the account may no longer use the model (R19)."""
    key = str(uuid.uuid4())
    first = caller.post_job(job(), key=key).json()["id"]
    operator.restrict(caller, [])
    again = caller.post_job(job(), key=key)

    assert (202, first) == (again.status_code, again.json()["id"])
    assert (403, "model_not_allowed") == error_code(caller.post_job(job()))
