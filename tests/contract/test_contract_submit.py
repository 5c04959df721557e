"""POST /v1/jobs: what is accepted, what the answer says, and what is kept of the request."""

import json
import uuid
from typing import Any

import pytest

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
@pytest.mark.parametrize(
    "key", ["a", "~" * 255, "order 17 / line 3", "0d3f2b52-5b0e-4f5e-9a6c-7d6b1b8f3c11", "{}\"'\\%00"]
)
def test_any_printable_string_is_a_key(caller: Caller, key: str) -> None:
    """An idempotency key is any string of 1 to 255 printable ASCII characters, a UUID too (R10)."""
    assert 202 == caller.post_job(job(), key=key).status_code
    assert "true" == caller.post_job(job(), key=key).headers["idempotent-replayed"]


@ON_ONE_DATABASE
@pytest.mark.parametrize("key", [None, "", "~" * 256, "tab\there"])
def test_without_a_key_nothing_is_accepted(caller: Caller, key: str | None) -> None:
    """A missing, empty, too long or unprintable idempotency key is a 400 that names the header (R9)."""
    answer = caller.request(
        "POST",
        "/v1/jobs",
        headers={"Content-Type": "application/json"} | ({} if key is None else {"Idempotency-Key": key}),
        content=json.dumps(job()).encode(),
    )

    assert [("Idempotency-Key", "invalid_idempotency_key")] == faults(answer)
    assert [] == caller.newest()


@ON_ONE_DATABASE
def test_two_keys_are_none(caller: Caller) -> None:
    """A request with two idempotency keys is refused: a resend might have either one (R9)."""
    headers = [
        ("Authorization", f"Bearer {caller.key}"),
        ("Content-Type", "application/json"),
        ("Idempotency-Key", "one"),
        ("Idempotency-Key", "two"),
    ]
    answer = caller.http.post("/v1/jobs", headers=headers, content=json.dumps(job()).encode())

    assert [("Idempotency-Key", "invalid_idempotency_key")] == faults(answer)
    assert [] == caller.newest()


def test_the_same_body_under_a_new_key_is_a_new_job(caller: Caller) -> None:
    """Two keys make two jobs of one body (R22)."""
    first, second = caller.submit("Twice."), caller.submit("Twice.")

    assert [second, first] == caller.newest()


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
@pytest.mark.parametrize(
    "text",
    ["<行|hang2>", "e\u0301 ≠ \u00e9", 'a\n\tb  c \u200bmarked\u200b "\\/\b مرحبا \U0001f600'],
)
def test_the_text_is_never_rewritten(caller: Caller, operator: Operator, text: str) -> None:
    """The text is kept character by character, annotations too, not composed or trimmed (R97, R101)."""
    job_id = caller.submit(text)
    row = operator.row("select body from job where id = :id", id=job_id)

    assert text == operator.parameters(job_id)["text"]
    assert text == json.loads(row["body"])["parameters"]["text"]


@ON_ONE_DATABASE
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, [("body", "wrong_type")]),
        ({}, [("model", "required"), ("parameters", "required")]),
        (job(model="fake/none"), [("model", "unknown_model")]),
        ({"model": "fake/speech", "parameters": {}}, [("parameters.text", "required")]),
        ({**job(), "text": "x"}, [("text", "unknown_name")]),
        ({**job(), "input_artifact_ids": ["artifact_1"]}, [("input_artifact_ids", "not_allowed")]),
        ({**job(), "metadata": {"a" * 65: "x"}}, [("metadata." + "a" * 40 + "…", "too_long")]),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_the_top_level_is_checked(caller: Caller, body: Any, expected: list[tuple[str, str]]) -> None:
    """The body is one object with a known model, parameters, nothing unknown (R4, R11–R14, R98, R207)."""
    assert expected == caller.refused(body)


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


def test_a_refused_body_leaves_its_key_free(caller: Caller) -> None:
    """After a 400 the same key takes the mended body as if nothing had been (R9, R20)."""
    key = str(uuid.uuid4())
    faults(caller.post_job(job(" x"), key=key))
    answer = caller.post_job(job("x"), key=key)

    assert (202, None) == (answer.status_code, answer.headers.get("idempotent-replayed"))
    assert [answer.json()["id"]] == caller.newest()


@ON_ONE_DATABASE
def test_every_name_of_the_catalog_is_a_model(caller: Caller) -> None:
    """Every name of the catalog's speech models, slashes and all, is taken as `model`; the name decides what
    kind of job it is (R3, R4).
    """
    listed = caller.get("/v1/models").json()["data"]
    kinds = {entry["id"]: entry["kind"] for entry in listed if entry["interface"] == "jobs"}
    spoken = [name for name, kind in kinds.items() if kind == "speech"]
    others = {
        name: caller.post_job({"model": name, "parameters": {}}).json()["error"]["details"][0]["param"]
        for name, kind in kinds.items()
        if kind != "speech"
    }
    needs = {"recognition": "input_artifact_ids", "image": "parameters.prompt"}

    assert ["succeeded"] * len(spoken) == [caller.wait(caller.submit(model=name))["state"] for name in spoken]
    assert {name: needs[kind] for name, kind in kinds.items() if kind != "speech"} == others
