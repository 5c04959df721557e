"""Keys: authentication before a byte of the body is read, and what a restricted key may do."""

import uuid

from servers.callers import METERED, ON_ONE_DATABASE, SPEECH, Caller, Operator, error_code, job

NO_KEYS = [
    "",
    "Bearer",
    "Bearer tn_",
    "Bearer tn_" + "0" * 49,
    "Bearer tn_" + "0" * 5000,
    "Basic dXNlcjpwYXNz",
    "Bearer " + "x" * 100,
]


@ON_ONE_DATABASE
def test_a_key_that_is_none_is_refused(caller: Caller) -> None:
    """Missing, mistyped, truncated, extended or given twice: the same answer in the same words; every other
    route is in test_contract_every_route.py (R8, R200, R203)."""
    key = caller.key
    assert 200 == caller.get("/v1/models", headers={"Authorization": f"BEARER {key}"}).status_code
    wrong = [key[:-1], key + "0", key.swapcase(), key[:10] + ("a" if key[10] != "a" else "b") + key[11:]]
    values = [*NO_KEYS, *(f"Bearer {each}" for each in wrong)]
    given = [[], *([("Authorization", value)] for value in values), [("Authorization", f"Bearer {key}")] * 2]
    answers = [caller.http.get("/v1/models", headers=headers) for headers in given]

    assert {(401, "invalid_api_key")} == {error_code(answer) for answer in answers}
    assert {"Bearer"} == {answer.headers["www-authenticate"] for answer in answers}
    assert 1 == len({answer.json()["error"]["message"] for answer in answers})


def test_a_revoked_key_is_refused_from_the_next_request_on(operator: Operator, caller: Caller) -> None:
    """After `keys revoke` the next request is 401; another key of the account still reads its jobs (R203)."""
    job_id = caller.submit()
    operator.service.command("admin", "keys", "revoke", caller.key_id)

    assert (401, "invalid_api_key") == error_code(caller.get(f"/v1/jobs/{job_id}"))
    assert (401, "invalid_api_key") == error_code(caller.post_job(job()))
    assert job_id == operator.key(caller.account_id).wait(job_id)["id"]


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
