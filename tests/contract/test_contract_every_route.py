"""Rules for every route of the document, including new ones: authentication and restriction to models."""

import json
import socket
import uuid
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code
from servers.document import Route, routes
from servers.recordings import upload as upload_recording
from servers.service import RunningService
from servers.voices import headers_of, recording
from tenuto.ids import Ids

pytestmark = pytest.mark.variant("database", only="postgresql")

GUARDED = [route for route in routes() if route.wants_key]
SPEECH, METERED = "fake/speech", "fake/metered-speech"
BODIES: dict[str, Any] = {
    SPEECH: {"parameters": {"text": "Hold."}},
    METERED: {"parameters": {"text": "Hold."}},
    "fake/segment-text": {"parameters": {}},
    "fake/word-timestamps": {"parameters": {}},
    "fake/dual-recognition": {"parameters": {}},
    "fake/image": {"parameters": {"prompt": "A note."}},
    "fake/chat": {"messages": [{"role": "user", "content": "Hold."}]},
}
"""What starts work on each model of the fake catalog, but for the model's name and the input."""


@pytest.mark.parametrize("framing", ["Content-Length: 10485760", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("key", ["", "Authorization: Bearer tn_nobody\r\n"])
def test_a_stranger_is_refused_before_the_body(service: RunningService, key: str, framing: str) -> None:
    """Whatever else is wrong with a request to any route, its head alone is answered with 401 (P15)."""
    answers = {route.name: _head_alone(service, route, key, framing) for route in GUARDED}

    assert not [name for name, answer in answers.items() if not answer.startswith(b"HTTP/1.1 401 ")]
    assert not [name for name, answer in answers.items() if b'"code":"invalid_api_key"' not in answer]
    assert not [name for name, answer in answers.items() if b" 100 " in answer]


def _head_alone(service: RunningService, route: Route, key: str, framing: str) -> bytes:
    """What is answered to a head whose body does not come."""
    path = route.at(**dict.fromkeys(route.path_names, "no%00id")) + "?nonsense=1&nonsense=2"
    lines = f"{route.method} {path} HTTP/1.1\r\nHost: tenuto\r\n{key}Content-Type: text/nonsense\r\n"
    with socket.create_connection(("127.0.0.1", service.port), timeout=120) as line:
        line.sendall(f"{lines}Expect: 100-continue\r\n{framing}\r\n\r\n".encode())
        answer = b""
        while piece := line.recv(65536):
            answer += piece
    return answer


def test_every_model_is_tried_below(operator: Operator, caller: Caller) -> None:
    """A model that is added to the fake catalog is added to these tests."""
    assert set(BODIES) == {entry["id"] for entry in caller.get("/v1/models").json()["data"]}


@pytest.mark.parametrize("way", ["key", "account", "narrowed"])
@pytest.mark.parametrize("allowed", BODIES)
def test_no_path_starts_work_on_another_model(operator: Operator, allowed: str, way: str) -> None:
    """By a key's restriction, the account's, or one that comes later: 403, and nothing was stored (P13).

    The catalog names the one model; a model that is made of others opens none of them, nor they it. Lists of
    an account with other work are in test_contract_restricted_keys.py.
    """
    caller = operator.caller(credit="100", models=[allowed] if way == "key" else None)
    recording_id = upload_recording(caller)
    if way != "key":
        if way == "narrowed":
            # It may be all of them for a while.
            assert len(BODIES) == len(caller.get("/v1/models").json()["data"])
        operator.restrict(caller, [allowed])
    answers = {model: _start(caller, model, recording_id) for model in BODIES}
    others = {model: error_code(answer) for model, answer in answers.items() if model != allowed}

    assert dict.fromkeys(others, (403, "model_not_allowed")) == others
    assert answers[allowed].status_code in (200, 202)
    assert [allowed] == [entry["id"] for entry in caller.get("/v1/models").json()["data"]]
    assert {allowed} >= {operation["model"] for operation in caller.get("/v1/jobs").json()["data"]}
    assert {allowed} >= {line["model"] for line in caller.get("/v1/usage").json()["data"]}


@pytest.mark.parametrize(
    "route", [route for route in GUARDED if "voice" in route.path], ids=lambda route: route.name
)
def test_voices_are_for_those_who_may_make_speech(operator: Operator, route: Route) -> None:
    """Without a speech model in the key's sight all routes of voices answer 403 (P13, R177, R178)."""
    caller = operator.caller(models=["fake/image", "fake/chat", "fake/dual-recognition"])
    voice_id = Ids(lambda: 0).new("voice")
    content = recording()
    known = headers_of(content) if route.body_type == "audio/wav" else {"Content-Type": route.body_type or ""}
    headers = known if route.body_type else {}
    answers = [
        caller.request(
            route.method,
            route.at(**dict.fromkeys(route.path_names, each)),
            headers=headers,
            content=(content if route.body_type == "audio/wav" else b"{}") if route.body_type else None,
        )
        for each in (voice_id, "no-id")
    ]

    assert [(403, "model_not_allowed")] * 2 == [error_code(answer) for answer in answers]


def _start(caller: Caller, model: str, recording_id: str) -> httpx2.Response:
    body = {"model": model, **BODIES[model]}
    headers = {"Content-Type": "application/json"}
    if model == "fake/chat":
        return caller.request(
            "POST", "/v1/chat/completions", headers=headers, content=json.dumps(body).encode()
        )
    if "recognition" in model or "text" in model or "word" in model:
        body["input_artifact_ids"] = [recording_id]
    return caller.post_job(body, key=str(uuid.uuid4()))
