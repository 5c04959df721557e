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


def test_each_check_comes_before_the_next(caller: Caller) -> None:
    """401, 415, 413 (what is too large is not parsed), JSON, Idempotency-Key, conflict, model."""
    key = str(uuid.uuid4())
    caller.post_job(job(), key=key)
    unknown = job(model="none/such")
    no_number = json.dumps(job(" ", top_k=0)).encode().replace(b"0}", b"NaN}")

    assert [
        (401, "invalid_api_key"),
        (415, "unsupported_media_type"),
        (413, "payload_too_large"),
        (409, "idempotency_conflict"),
    ] == [
        error_code(answer)
        for answer in (
            caller.post_job(job(), headers=NO_JSON | {"Authorization": "Bearer x"}),
            caller.post_job(LARGE, headers=NO_JSON),
            caller.post_job(LARGE),
            caller.post_job(unknown, key=key),
        )
    ]
    assert [("body", "invalid_json")] == faults(caller.post_job(b"{", headers=NO_KEY))
    assert [("Idempotency-Key", "invalid_idempotency_key")] == faults(
        caller.post_job(unknown, headers=NO_KEY)
    )
    # A body that is not strict JSON is not checked any further.
    assert [("parameters.top_k", "not_a_number")] == faults(caller.post_job(no_number))


def test_the_models_visibility_comes_before_the_parameters(operator: Operator) -> None:
    """403 before the faults of parameters, of the top level, and of parameters that are missing; 400 for a
    model that does not exist before it."""
    caller = operator.caller(models=[METERED])
    bodies = [job(" ", top_k=0), {**job(), "extra": 1}, {"model": "fake/speech"}]

    assert [(403, "model_not_allowed")] * 3 == [error_code(caller.post_job(body)) for body in bodies]
    assert [("model", "unknown_model")] == faults(caller.post_job(job(model="none/such")))
