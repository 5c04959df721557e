"""The running service against `openapi.yaml`: every answer follows the document.

The document is written by hand and knows nothing of the code; schemathesis makes right and wrong requests.
"""

import hashlib
import os
import time
import uuid
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis.builder import InvalidHeadersExampleMark, MissingPathParameters
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.specs.openapi import checks

from servers.service import PLAIN
from tenuto.features.decoding.wav import pcm16_wav

DOCUMENT = Path(__file__).parents[2] / "openapi.yaml"
PATIENCE_S = 60.0
EXAMPLES = int(os.environ.get("TENUTO_OPENAPI_EXAMPLES", "0"))
"""Requests to each operation; 0: what a test run sends. `make soak-tests` sets it; they differ then."""
LONGEST_MODEL = 200
"""Characters of a model's name, by the document."""
RECORDING = pcm16_wav(bytes(2 * 8_000), 8_000, 1)
REFUSED = [400, 401, 404, 405, 413, 415, 429]
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.missing_required_header,
    checks.unsupported_method,
    checks.ignored_auth,
]

schema = schemathesis.openapi.from_path(
    DOCUMENT,
    config=schemathesis.Config.from_dict(
        {
            "checks": {
                "negative_data_rejection": {"expected-statuses": REFUSED},
                "missing_required_header": {"expected-statuses": REFUSED},
            }
        }
    ),
)
OPERATIONS = {result.ok().label: result.ok() for result in schema.get_all_operations()}
SETTINGS = settings(
    max_examples=EXAMPLES or 3,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


class Service(Protocol):
    """What the fixture `service` gives: a running service and a key that may use its speech models."""

    url: str
    key: str


# Nearly all that is generated is refused before a database is asked; what there is to read is read on both.
@pytest.mark.parametrize("service", ["sqlite", "postgresql"] if EXAMPLES else ["sqlite"], indirect=True)
@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_the_one_that_the_document_describes(
    label: str, service: Service, pytestconfig: pytest.Config
) -> None:
    """Every request gets a documented status, type, headers and body, and a wrong one is refused."""
    seed = pytestconfig.getoption("hypothesis_seed")
    if seed is not None:  # schemathesis draws one of its own otherwise, which goes before Hypothesis's.
        schema.config.seed = int(seed)
    # `schema.parametrize` would generate all requests in every process that collects this file: 7 s each.
    operation = OPERATIONS[label]
    check = build_operation_test(
        config=schema.config,
        operation=operation,
        test_func=lambda case: send_generated(case, service),
        given_kwargs={},
        feedback=FeedbackSources(),
        explicit_settings=SETTINGS,
    )
    check()

    # What is wrong with the document's own examples; schemathesis leaves such requests out.
    assert (None, None) == (InvalidHeadersExampleMark.get(check), MissingPathParameters.get(check))


def send_generated(case: Any, service: Service) -> None:
    """Send a generated request after making it one that reaches what it is about."""
    if "Idempotency-Key" in case.headers and not case.meta.is_negative_at(ParameterLocation.HEADER):
        # Generated keys repeat, and a repeated key answers 409 before the parameters are looked at.
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    model = case.body.get("model") if isinstance(case.body, dict) else None
    if isinstance(model, str) and 1 <= len(model) <= LONGEST_MODEL:
        # A generated model never exists, and a model that does not exist hides all other faults. One that the
        # document does not allow stays: it may be all that is wrong with the request.
        chats = case.operation.path == "/v1/chat/completions"
        case.body["model"] = "fake/chat" if chats else speech_model(service)

    send(case, service)


def test_what_a_job_has_made_is_read_as_the_document_describes(service: Service) -> None:
    """The operation, which a cancel does not change; its result and a segment, whole, in part or not at all;
    events, request, segments, money and usage (R7, R46, R47, R52–R54, P8)."""
    operation = finished_job(service)
    artifact = operation["artifacts"][0]
    with client(service) as http:
        segment = http.get(f"/v1/jobs/{operation['id']}/audio-segments").json()["data"][0]
    ids = {
        "operation_id": operation["id"],
        "artifact_id": artifact["id"],
        "segment_id": segment["segment_id"],
    }
    etag = f'"{artifact["sha256"]}"'
    job, content = "/v1/jobs/{operation_id}", "/v1/artifacts/{artifact_id}/content"
    piece = job + "/audio-segments/{segment_id}/content"
    reads: list[tuple[str, str, dict[str, str], int]] = [
        ("GET", content, {}, 200),
        ("GET", content, {"Range": "bytes=0-43"}, 206),
        ("GET", content, {"Range": "bytes=999999999999-"}, 416),
        ("GET", content, {"If-None-Match": etag}, 304),
        ("GET", content, {"If-Range": etag, "Range": "bytes=1-1"}, 206),
        ("GET", piece, {}, 200),
        ("GET", piece, {"Range": "bytes=0-9"}, 206),
        *(("GET", f"{job}/{name}", {}, 200) for name in ("events", "request", "audio-segments")),
        *(("GET", f"/v1/{name}", {}, 200) for name in ("account/balance", "account/ledger", "usage")),
    ]
    for method, path, headers, status in reads:
        named = {name: value for name, value in ids.items() if name in path}
        case = schema[path][method].Case(path_parameters=named, headers=headers)
        assert status == send(case, service).status_code, (path, headers)
    for method, path in (("GET", job), ("POST", f"{job}/cancel")):
        case = schema[path][method].Case(path_parameters={"operation_id": operation["id"]})
        assert operation == send(case, service).json()


def test_a_recording_is_uploaded_as_the_document_describes(service: Service) -> None:
    """No generator makes a recording and its SHA-256, so here is one, with names right and wrong (R163)."""
    headers = {"X-Service-Content-SHA256": hashlib.sha256(RECORDING).hexdigest()}
    for name, status in (("Clara", 201), ("UTF-8''%E5%A3%B0", 201), ("x" * 81, 400), (None, 400)):
        named = headers if name is None else headers | {"X-Service-Voice-Name": name}
        case = schema["/v1/voices"]["POST"].Case(headers=named, body=RECORDING, media_type="audio/wav")
        assert status == send(case, service).status_code


@pytest.mark.parametrize("path", ["/v1/jobs/{operation_id}/content", "/v1/artifacts/{artifact_id}"])
def test_content_is_erased_as_the_document_describes(service: Service, path: str) -> None:
    """The answer, and what reading answers from then on."""
    operation = finished_job(service, key=f"tests/contract/test_openapi.py {path}")
    ids = {"operation_id": operation["id"], "artifact_id": operation["artifacts"][0]["id"]}
    named = {name: value for name, value in ids.items() if name in path}
    reading = schema["/v1/artifacts/{artifact_id}/content"]["GET"].Case(
        path_parameters={"artifact_id": ids["artifact_id"]}
    )

    assert 200 == send(schema[path]["DELETE"].Case(path_parameters=named), service).status_code
    assert 410 == send(reading, service).status_code


def test_the_document_is_valid() -> None:
    """The document itself is valid OpenAPI 3.1."""
    schema.validate()


# The decorator has no types of its own.
@schemathesis.serializer("audio/wav", "audio/flac")  # type: ignore[untyped-decorator]
def sent_as_bytes(context: Any, body: Any) -> bytes:
    """A body of sound as it is sent; what was generated in its place is none."""
    return body if isinstance(body, bytes) else repr(body).encode()


def send(case: Any, service: Service) -> Any:
    """Send one request and hold its answer against the document."""
    headers = {"Authorization": f"Bearer {service.key}"}
    return case.call_and_validate(base_url=service.url, headers=headers, checks=CHECKS, timeout=120)


def speech_model(service: Service) -> str:
    """A speech model of this service that takes jobs."""
    if service.url not in _speech_models:
        models = client(service).get("/v1/models").json()["data"]
        _speech_models[service.url] = next(m["id"] for m in models if m["kind"] == "speech" and m["callable"])
    return _speech_models[service.url]


def finished_job(service: Service, key: str = "tests/contract/test_openapi.py") -> Any:
    """The operation of a job that has succeeded, with a preview; the same one on every call with a key."""
    parameters = {"text": "Hold the note.", "lang": "en", "stream": True}
    body = {"model": speech_model(service), "parameters": parameters}
    operation = client(service).post("/v1/jobs", headers={"Idempotency-Key": key}, json=body).json()
    until = time.monotonic() + PATIENCE_S
    while operation["state"] in ("submitting", "queued", "running") and time.monotonic() < until:
        time.sleep(0.05)  # The contract knows no signal but polling.
        operation = client(service).get(f"/v1/jobs/{operation['id']}").json()
    assert operation["state"] == "succeeded"
    return operation


def client(service: Service) -> httpx2.Client:
    """A client of this service with its key."""
    return httpx2.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {service.key}"}, timeout=120, verify=PLAIN
    )


_speech_models: dict[str, str] = {}
