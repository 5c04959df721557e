"""Keys: authentication before a byte of the body is read, and what a restricted key may do."""

import json
import socket
import uuid

import httpx2
import pytest

from servers.accounts import now_ms
from servers.callers import METERED, ON_ONE_DATABASE, SPEECH, Caller, Operator, error_code, job
from servers.service import RunningService

PATHS = [
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/job_00000000000000000000000000"),
    ("POST", "/v1/jobs/job_00000000000000000000000000/cancel"),
    ("GET", "/v1/artifacts/artifact_00000000000000000000000000/content"),
    ("GET", "/v1/models"),
    ("POST", "/v1/jobs"),
]
NO_KEYS = [
    None,
    "",
    "Bearer",
    "Bearer tn_",
    "Bearer tn_" + "0" * 49,
    "Bearer tn_" + "0" * 5000,
    "Basic dXNlcjpwYXNz",
    "Bearer " + "x" * 100,
]


@ON_ONE_DATABASE
@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_path_wants_a_key(caller: Caller, method: str, path: str) -> None:
    """Without a key that exists every path of the API answers 401 in the same words (R8, R200, R203)."""
    answers = [
        caller.http.request(method, path, headers={} if value is None else {"Authorization": value})
        for value in NO_KEYS
    ]

    assert {(401, "invalid_api_key")} == {error_code(answer) for answer in answers}
    assert {"Bearer"} == {answer.headers["www-authenticate"] for answer in answers}
    assert 1 == len({answer.json()["error"]["message"] for answer in answers})


@ON_ONE_DATABASE
def test_a_key_with_any_character_changed_is_wrong(caller: Caller) -> None:
    """A mistyped, truncated or extended key is refused with the same answer as any wrong key (R8, R203)."""
    key = caller.key
    assert 200 == caller.get("/v1/models", headers={"Authorization": f"BEARER {key}"}).status_code
    wrong = [key[:-1], key + "0", key.swapcase(), key[:10] + ("a" if key[10] != "a" else "b") + key[11:]]

    for value in wrong:
        answer = caller.get("/v1/models", headers={"Authorization": f"Bearer {value}"})
        assert (401, "invalid_api_key") == error_code(answer)


@ON_ONE_DATABASE
def test_two_keys_are_none(caller: Caller) -> None:
    """A request that a proxy might attribute to another caller is refused (R8)."""
    twice = [("Authorization", f"Bearer {caller.key}"), ("Authorization", f"Bearer {caller.key}")]
    answer = httpx2.get(f"{caller.http.base_url}/v1/models", headers=twice)

    assert (401, "invalid_api_key") == error_code(answer)


def test_a_revoked_key_is_refused_from_the_next_request_on(operator: Operator, caller: Caller) -> None:
    """After `keys revoke` the next request is 401; another key of the account still reads its jobs (R203)."""
    job_id = caller.submit()
    operator.service.command("admin", "keys", "revoke", caller.key_id)

    assert (401, "invalid_api_key") == error_code(caller.get(f"/v1/jobs/{job_id}"))
    assert (401, "invalid_api_key") == error_code(caller.post_job(job()))
    assert job_id == operator.key(caller.account_id).wait(job_id)["id"]


def test_an_expired_key_is_refused(operator: Operator, caller: Caller) -> None:
    """A key lives until its moment, not longer (R203)."""
    expired = operator.key(caller.account_id, expires_at=now_ms() - 1)
    alive = operator.key(caller.account_id, expires_at=now_ms() + 3_600_000)

    assert (401, "invalid_api_key") == error_code(expired.get("/v1/models"))
    assert 200 == alive.get("/v1/models").status_code


def test_a_restricted_key_may_use_its_models_only(operator: Operator) -> None:
    """A key made for one model may not submit to another, and lists only its own (R187, R202, R203, R209)."""
    caller = operator.caller(models=[METERED])
    refused = caller.post_job(job(model=SPEECH))

    assert (403, "model_not_allowed") == error_code(refused)
    assert [METERED] == [entry["id"] for entry in caller.get("/v1/models").json()["data"]]
    assert 202 == caller.post_job(job(model=METERED)).status_code
    assert 1 == len(caller.newest())


def test_a_restriction_made_at_the_command_line_holds(operator: Operator, caller: Caller) -> None:
    """`keys create --models` restricts; an account's own narrowing comes on top, from now on (R202)."""
    made = operator.service.command_json(
        "admin", "keys", "create", "--account", caller.account_id, "--models", f"{SPEECH},{METERED}"
    )
    restricted = Caller(caller.http, caller.account_id, made["id"], made["key"])
    before = [entry["id"] for entry in restricted.get("/v1/models").json()["data"]]
    operator.restrict(caller, [METERED, "other/model"])
    after = [entry["id"] for entry in restricted.get("/v1/models").json()["data"]]

    assert ([SPEECH, METERED], [METERED]) == (before, after)
    assert (403, "model_not_allowed") == error_code(restricted.post_job(job()))


def test_every_key_of_the_account_reads_its_jobs(operator: Operator, caller: Caller) -> None:
    """Jobs are read by any key of the account that may use their model; artifacts by any (R29, R50, R204)."""
    operation = caller.wait(caller.submit())
    other = operator.key(caller.account_id)
    content = operator.key(caller.account_id, models=[METERED]).get(
        f"/v1/artifacts/{operation['artifacts'][0]['id']}/content"
    )

    assert operation == other.read(operation["id"])
    assert [operation["id"]] == other.newest()
    assert 200 == content.status_code


def test_a_refusal_stores_nothing(operator: Operator) -> None:
    """After a 401 or 403 there is no job, and the idempotency key is free (R203)."""
    caller, key = operator.caller(models=[METERED]), str(uuid.uuid4())
    caller.post_job(job(), key=key)
    caller.post_job(job(), key=key, headers={"Authorization": "Bearer tn_wrong"})

    assert [] == caller.newest()
    assert 202 == caller.post_job(job(model=METERED), key=key).status_code


def test_keys_are_listed_without_their_secret(operator: Operator, caller: Caller) -> None:
    """`keys list` shows prefix and last four characters, never the key (R205)."""
    listed = operator.service.command_json("admin", "keys", "list", "--account", caller.account_id)

    assert [f"{caller.key[:7]}…{caller.key[-4:]}"] == [line["key"] for line in listed]
    assert caller.key not in json.dumps(listed)


@ON_ONE_DATABASE
@pytest.mark.parametrize("framing", ["Content-Length: 1048577000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("key", ["tn_" + "0" * 49, "revoked"])
def test_an_unknown_caller_is_answered_before_the_body(
    operator: Operator, service: RunningService, key: str, framing: str
) -> None:
    """With the head alone sent, a caller without a valid key has the 401: no body is waited for (R8)."""
    if key == "revoked":
        caller = operator.caller()
        operator.revoke(caller)
        key = caller.key
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: tenuto\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nIdempotency-Key: {uuid.uuid4()}\r\n{framing}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", service.port), timeout=120) as connection:
        connection.sendall(head.encode())
        answer = b""
        while piece := connection.recv(65536):
            answer += piece

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b'"code":"invalid_api_key"' in answer
