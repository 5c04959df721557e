"""The order of the checks of POST /v1/jobs: each neighbouring pair is broken by one request at once.

401 → 429 of the rate → 415 → 413, JSON 400 → Idempotency-Key 400 → replay or 409 → model 400, 403 →
parameters 400 → callable 503 → queue 429 → balance 403. (The pairs from 503 on, and the rate's, are in
test_contract_limits.)
"""

import json
import uuid

from servers.callers import METERED, Caller, Operator, error_code, faults, job

LARGE = b" " * (1024 * 1024 + 1)
NO_JSON = {"Content-Type": "text/plain"}
NO_KEY = {"Idempotency-Key": ""}


def test_the_key_comes_before_the_media_type(caller: Caller) -> None:
    """401 before 415."""
    answer = caller.post_job(job(), headers=NO_JSON | {"Authorization": "Bearer x"})

    assert (401, "invalid_api_key") == error_code(answer)


def test_the_media_type_comes_before_the_size(caller: Caller) -> None:
    """415 before 413."""
    assert (415, "unsupported_media_type") == error_code(caller.post_job(LARGE, headers=NO_JSON))


def test_the_size_comes_before_the_json(caller: Caller) -> None:
    """413 before 400: what is too large is not parsed."""
    assert (413, "payload_too_large") == error_code(caller.post_job(LARGE))


def test_the_json_comes_before_the_idempotency_key(caller: Caller) -> None:
    """Errors of the body come before those of the header."""
    assert [("body", "invalid_json")] == faults(caller.post_job(b"{", headers=NO_KEY))


def test_the_idempotency_key_comes_before_the_model(caller: Caller) -> None:
    """An error of the header comes before an unknown model."""
    answer = caller.post_job(job(model="none/such"), headers=NO_KEY)

    assert [("Idempotency-Key", "invalid_idempotency_key")] == faults(answer)


def test_the_conflict_comes_before_the_model(caller: Caller) -> None:
    """409 before an unknown model."""
    key = str(uuid.uuid4())
    caller.post_job(job(), key=key)

    assert (409, "idempotency_conflict") == error_code(caller.post_job(job(model="none/such"), key=key))


def test_the_replay_comes_before_the_models_visibility(operator: Operator, caller: Caller) -> None:
    """202 for a replay of a model that the caller may no longer use."""
    key = str(uuid.uuid4())
    caller.post_job(job(), key=key)
    operator.restrict(caller, [])

    assert "true" == caller.post_job(job(), key=key).headers["idempotent-replayed"]


def test_an_unknown_model_is_told_to_a_restricted_key(operator: Operator) -> None:
    """400 for a model that does not exist, before 403 for one out of sight."""
    caller = operator.caller(models=[METERED])

    assert [("model", "unknown_model")] == faults(caller.post_job(job(model="none/such")))


def test_the_models_visibility_comes_before_the_parameters(operator: Operator) -> None:
    """403 before the faults of parameters, of the top level, and of parameters that are missing."""
    caller = operator.caller(models=[METERED])
    bodies = [job(" ", top_k=0), {**job(), "extra": 1}, {"model": "fake/speech"}]

    assert [(403, "model_not_allowed")] * 3 == [error_code(caller.post_job(body)) for body in bodies]


def test_the_faults_of_json_come_alone(caller: Caller) -> None:
    """A body that is not strict JSON is not checked any further."""
    body = json.dumps(job(" ", top_k=0)).encode().replace(b"0}", b"NaN}")

    assert [("parameters.top_k", "not_a_number")] == faults(caller.post_job(body))
