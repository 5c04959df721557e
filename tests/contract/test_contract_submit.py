"""POST /v1/jobs: what is accepted, what the answer says, and what is kept of the request."""

import json
import uuid
from typing import Any

from servers.callers import ON_ONE_DATABASE, Caller, Operator, faults, job

DEFAULTS = {
    "stream": False,
    "voice_id": None,
    "lang": "zh",
    "duration_factor": 1,
    "emotion_voice_id": None,
    "emo_alpha": 1,
    "emo_vector": None,
    "use_emo_text": False,
    "emo_text": None,
    "use_random": False,
    "interval_silence": 200,
    "max_text_tokens_per_segment": 120,
    "text_normalization": True,
    "do_sample": True,
    "top_p": 0.8,
    "top_k": 30,
    "temperature": 0.8,
    "repetition_penalty": 10,
    # What was bound for the two ids.
    "voice": None,
    "emotion_voice": None,
}


def test_the_first_acceptance_is_202_with_the_place_of_the_operation(caller: Caller) -> None:
    """A job is answered 202, `Location: /v1/jobs/{id}`, the operation with its id (R1, R8, R11, R15–R17)."""
    answer = caller.post_job(job(), key=str(uuid.uuid4()))
    operation = answer.json()

    assert 202 == answer.status_code
    assert f"/v1/jobs/{operation['id']}" == answer.headers["location"]
    assert "application/json" == answer.headers["content-type"]
    assert "idempotent-replayed" not in answer.headers
    assert 1 <= int(answer.headers["retry-after"]) <= 120
    assert operation["state"] in ("submitting", "queued", "running", "succeeded")
    assert "succeeded" == caller.wait(operation["id"])["state"]


def test_an_operation_has_every_field_from_the_start(caller: Caller) -> None:
    """All fields of the record are there at once: times in unix seconds, lists empty, money as text (R26)."""
    operation = caller.post_job({**job(), "metadata": {"note": "上"}}).json()

    assert {
        *("id", "object", "kind", "model", "state", "created_at", "started_at", "finished_at", "attempt"),
        *("queue_position", "progress", "input_artifact_ids", "artifacts", "result", "error", "billing"),
        *("metadata", "cancel_requested", "title", "erased_at"),
    } == set(operation)
    assert ("job", "speech", "fake/speech") == tuple(operation[name] for name in ("object", "kind", "model"))
    assert ({"note": "上"}, [], False) == tuple(
        operation[name] for name in ("metadata", "input_artifact_ids", "cancel_requested")
    )
    assert isinstance(operation["created_at"], int)
    assert {"held": "0.000000", "charged": "0.000000", "currency": "CNY"} == operation["billing"]


@ON_ONE_DATABASE
def test_any_printable_string_is_a_key_and_nothing_else(caller: Caller) -> None:
    """1 to 255 printable ASCII characters; a missing, empty, longer, unprintable or second key is a 400 that
    names the header, and nothing is accepted (R9, R10)."""
    sent = {"Authorization": f"Bearer {caller.key}", "Content-Type": "application/json"}
    for keys in ([], [""], ["~" * 256], ["tab\there"], ["one", "two"]):
        headers = [*sent.items(), *(("Idempotency-Key", key) for key in keys)]
        answer = caller.http.post("/v1/jobs", headers=headers, content=json.dumps(job()).encode())
        assert [("Idempotency-Key", "invalid_idempotency_key")] == faults(answer)
    assert [] == caller.newest()
    for key in ("a", "~" * 255, "order 17 / line 3", "{}\"'\\%00"):
        assert 202 == caller.post_job(job(), key=key).status_code
        assert "true" == caller.post_job(job(), key=key).headers["idempotent-replayed"]


@ON_ONE_DATABASE
def test_a_text_alone_takes_every_default_of_the_contract(caller: Caller, operator: Operator) -> None:
    """What is left out has the contract's default and no voice is named (R3, R68, R71–R72, R74–R91, R106)."""
    job_id = caller.submit("你好")

    assert {"text": "你好", **DEFAULTS} == operator.parameters(job_id)


@ON_ONE_DATABASE
def test_explicit_values_are_kept(caller: Caller, operator: Operator) -> None:
    """Every parameter reaches the job as it was sent, a number in either form (R71–R92)."""
    sent: dict[str, Any] = {
        "stream": True,
        "lang": "en",
        "duration_factor": 1.5,
        "emo_alpha": 0,
        "emo_vector": [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 1],
        "use_random": True,
        "interval_silence": 0,
        "max_text_tokens_per_segment": 20,
        "text_normalization": False,
        "do_sample": False,
        "top_p": 1,
        "top_k": 1,
        "temperature": 2.0,
        "repetition_penalty": 0.1,
    }
    job_id = caller.submit("All of them.", **sent)

    assert {"text": "All of them.", **DEFAULTS, **sent} == operator.parameters(job_id)


@ON_ONE_DATABASE
def test_the_text_is_never_rewritten(caller: Caller, operator: Operator) -> None:
    """The text is kept character by character, annotations too, not composed or trimmed (R97, R101)."""
    text = '<行|hang2> e\u0301 ≠ \u00e9\n\tb  c \u200bmarked\u200b "\\/\b مرحبا \U0001f600'
    job_id = caller.submit(text)
    row = operator.row("select body from job where id = :id", id=job_id)

    assert text == operator.parameters(job_id)["text"]
    assert text == json.loads(row["body"])["parameters"]["text"]


@ON_ONE_DATABASE
def test_the_top_level_is_checked(caller: Caller) -> None:
    """The body is one object with a known model, parameters, nothing unknown (R4, R11–R14, R98, R207)."""
    wrong: list[tuple[Any, list[tuple[str, str]]]] = [
        (None, [("body", "wrong_type")]),
        ({}, [("model", "required"), ("parameters", "required")]),
        (job(model="fake/none"), [("model", "unknown_model")]),
        ({"model": "fake/speech", "parameters": {}}, [("parameters.text", "required")]),
        ({**job(), "text": "x"}, [("text", "unknown_name")]),
        ({**job(), "input_artifact_ids": ["artifact_1"]}, [("input_artifact_ids", "not_allowed")]),
        ({**job(), "metadata": {"a" * 65: "x"}}, [("metadata." + "a" * 40 + "…", "too_long")]),
    ]

    for body, expected in wrong:
        assert expected == caller.refused(body), body


@ON_ONE_DATABASE
def test_everything_that_is_wrong_is_named_at_once(caller: Caller) -> None:
    """One answer names the faults of the top level, of the parameters and of the voice together (R207)."""
    body = {
        **job(" x", top_k=0, voice_id="voice_none", reference="x"),
        "input_artifact_ids": [],
        "metadata": [],
        "extra": 1,
    }

    assert [
        ("extra", "unknown_name"),
        ("input_artifact_ids", "not_allowed"),
        ("metadata", "wrong_type"),
        ("parameters.reference", "unknown_name"),
        ("parameters.text", "white_space"),
        ("parameters.top_k", "out_of_range"),
        ("parameters.voice_id", "unknown_voice"),
    ] == caller.refused(body)
