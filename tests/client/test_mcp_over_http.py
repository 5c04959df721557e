"""`/mcp` as the official client sees it, and what it answers to requests that no such client sends."""

import asyncio
import base64
import hashlib
import io
import json
import select
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, EmptyResult, GetTaskRequestParams, ImageContent, ResourceLink

from client.assistant import CancelTask, Tasks, facts, task_of
from client.test_mcp import text_of
from servers.callers import Caller, Operator, job
from servers.recordings import recording, upload
from servers.service import PLAIN, RunningService
from servers.speed import HANG_S
from tenuto import config
from tenuto.errors import SettingsInvalid
from tenuto.features.mcp.routes import MAX_BODY_BYTES, MOST_CALLS
from tenuto.features.mcp.settings import McpSettings
from tenuto_mcp.arguments import MAX_FAULTS_NAMED, MAX_RECORDING_BYTES

ALLOWED = "https://app.example.com"
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "a", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with `/mcp`, for the tests of this file."""
    variables = {"TENUTO_MCP": "on", "TENUTO_REQUESTS_PER_SECOND": "0", "TENUTO_CORS_ORIGINS": ALLOWED}
    running = RunningService(tmp_path_factory.mktemp("mcp") / "data", variables=variables)
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def operator(service: RunningService) -> Iterator[Operator]:
    operator = Operator(service)
    yield operator
    operator.close()


@asynccontextmanager
async def connected(service: RunningService, key: str, *extensions: Any) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60, verify=PLAIN) as http:
        transport = streamable_http_client(f"{service.url}/mcp", http_client=http)
        async with Client(transport, extensions=list(extensions)) as client:
            yield client


def calling(service: RunningService, key: str, *calls: tuple[str, dict[str, Any]]) -> list[CallToolResult]:
    async def main() -> list[CallToolResult]:
        async with connected(service, key) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(main())


def in_form(flac: bytes, form: str) -> bytes:
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, *soundfile.read(io.BytesIO(flac)), format=form)
    return file.getvalue()


def post(caller: Caller, body: Any, **headers: str) -> httpx2.Response:
    """POST /mcp; bytes are sent as they are."""
    own = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return caller.request("POST", "/mcp", headers=own | named, content=content)


def test_every_tool_answers_with_links_and_small_previews(service: RunningService, caller: Caller) -> None:
    """A link opens with the same key, rendered if another form was asked for; sent again, it is one job."""
    results = calling(
        service,
        caller.key,
        ("say", {"text": "Hold the note."}),
        ("say", {"text": "Hold the note.", "format": "mp3", "wait_s": 40}),
        ("say", {"text": "Hold the note.", "take": 2}),
        ("draw", {"prompt": "a red sun", "width": 256, "height": 256}),
        ("transcribe", {"input_artifact_id": upload(caller)}),
        ("voices", {"lang": "en", "search": "linda"}),
        ("models", {"kind": "speech"}),
        ("balance", {}),
    )
    said, rendered, other, drawn, heard, voices, models, money = map(facts, results)
    [shown] = calling(service, caller.key, ("job", {"job_id": said["job_id"]}))
    sound, mp3, picture = (caller.get(one["url"]) for one in (said, rendered, drawn))

    assert said["job_id"] == rendered["job_id"] != other["job_id"] and said == facts(shown)
    assert said["url"].startswith(f"{service.url}/v1/artifacts/") and 200 == sound.status_code
    assert (b"RIFF", b"\x89PNG") == (sound.content[:4], picture.content[:4])
    assert "audio/mpeg" == mp3.headers["content-type"]
    assert [said["url"]] == [block.uri for block in results[0].content if isinstance(block, ResourceLink)]
    assert 1 == len([block for block in results[3].content if isinstance(block, ImageContent)])
    assert heard["text"] and heard["text"] in text_of(results[4])
    assert ["Linda"] == [one["name"] for one in voices["voices"]]
    assert {"speech"} == {one["kind"] for one in models["models"]} and "CNY" == money["currency"]
    assert 4 == len(caller.get("/v1/jobs").json()["data"])


def test_the_same_request_at_once_is_one_job_of_its_key_alone(
    service: RunningService, operator: Operator, caller: Caller
) -> None:
    """Of two processes of an assistant, too; another account neither joins nor sees it."""
    words = {"text": "[fake:sleep=1] x"}
    stranger = operator.caller(credit="100")

    async def ask() -> tuple[CallToolResult, ...]:
        async with (
            connected(service, caller.key) as one,
            connected(service, caller.key) as two,
            connected(service, stranger.key) as other,
        ):
            mine = await asyncio.gather(one.call_tool("say", words), two.call_tool("say", words))
            theirs = await other.call_tool("say", words)
            return *mine, theirs, await other.call_tool("job", {"job_id": facts(mine[0])["job_id"]})

    one, two, theirs, hidden = asyncio.run(ask())

    assert facts(one)["job_id"] == facts(two)["job_id"] != facts(theirs)["job_id"]
    assert hidden.is_error and "There is nothing under this id." in text_of(hidden)
    assert 1 == len(caller.get("/v1/jobs").json()["data"]) == len(stranger.get("/v1/jobs").json()["data"])


def test_a_request_that_would_mean_another_job_now_is_refused(
    service: RunningService, caller: Caller
) -> None:
    """Its idempotency key, which stays the same over versions, is bound; nothing is charged again."""
    key = "mcp-" + hashlib.sha256(b'["say", {"text": "Hold."}]').hexdigest()
    assert 202 == caller.post_job(job("Another."), key=key).status_code
    [refused] = calling(service, caller.key, ("say", {"text": "Hold."}))

    assert refused.is_error and "the next number as `take`" in text_of(refused)
    assert 1 == len(caller.get("/v1/jobs").json()["data"])


def test_a_key_can_do_here_what_it_can_do_elsewhere(
    service: RunningService, operator: Operator, caller: Caller
) -> None:
    narrow = operator.key(caller.account_id, models=["fake/image"])
    say = ("say", {"text": "x", "model": "fake/speech"})
    [named, listed] = calling(service, narrow.key, say, ("models", {}))
    wrong = {"text": "x", "wait_s": 46, "output": "x.wav"}
    [fault, none] = calling(service, caller.key, ("say", wrong), ("sing", {}))

    assert named.is_error and "may not use the model" in text_of(named)
    assert {"fake/image"} == {one["id"] for one in facts(listed)["models"]}
    assert none.is_error and "wait_s: input should be less than or equal to 45" in text_of(fault)
    assert [] == caller.get("/v1/jobs").json()["data"]


def test_jobs_are_tasks_for_a_client_that_has_them(service: RunningService, caller: Caller) -> None:
    """The task of a job has its result, whoever asks with the key; one that is cancelled says so."""
    tasks = Tasks()

    async def ask() -> tuple[CallToolResult, str, str]:
        async with connected(service, caller.key, tasks) as client:
            said = await client.call_tool("say", {"text": "[fake:sleep=1] x"})
            job = caller.submit("[fake:sleep=50] x")
            params = GetTaskRequestParams(task_id=job)
            await client.session.send_request(CancelTask(params=params), EmptyResult)
            caller.wait(job)
            now = await task_of(client.session, job)
            with pytest.raises(MCPError) as error:
                await task_of(client.session, "job_none")
            failed = await client.call_tool("say", {"text": "[fake:raise] x"})
            assert failed.is_error and "the next number as `take`" in text_of(failed)
            return said, now.status, error.value.message

    said, status, refused = asyncio.run(ask())

    assert facts(said)["job_id"] == tasks.created[0].task_id
    assert ("cancelled", "there is no task of this id") == (status, refused)


def test_only_a_key_and_a_post_are_let_in(service: RunningService, caller: Caller) -> None:
    """401 as everywhere, before the body; 405 for the rest of the protocol, which has sessions."""
    nobody = Caller(caller.http, "", "", "tn_nobody")
    refused = post(nobody, INITIALIZE)
    others = [caller.request(method, "/mcp") for method in ("GET", "DELETE")]

    assert (401, "Bearer") == (refused.status_code, refused.headers["www-authenticate"])
    assert [(405, "POST")] * 2 == [(one.status_code, one.headers["allow"]) for one in others]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ALLOWED}, 200),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "null"}, 403),
        # DNS rebinding: a name that leads here is not our own origin.
        ({"Origin": "http://evil.example", "Host": "evil.example"}, 403),
    ],
)
def test_pages_of_other_origins_are_refused(
    service: RunningService, caller: Caller, headers: dict[str, str], status: int
) -> None:
    named = {name: text.format(port=service.port) for name, text in headers.items()}
    answer = post(caller, INITIALIZE, **named)
    allowed = ALLOWED if ALLOWED in headers.values() else None

    assert (status, allowed) == (answer.status_code, answer.headers.get("access-control-allow-origin"))


NOT_THE_PROTOCOL = [
    b"{",
    b"[" * 60_000,
    b'{"jsonrpc": "2.0", "id": {}, "method": 7}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}',
    b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say", "arguments":'
    b' {"text": "\\ud800"}}}',
    b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "tools/list"}',
    b"\xff\xfe",
]


def test_what_is_not_the_protocol_is_the_clients_error(service: RunningService, caller: Caller) -> None:
    for body in NOT_THE_PROTOCOL:
        for headers in ({}, {"Mcp-Protocol-Version": "2026-07-28"}):
            answer = post(caller, body, **headers)
            is_error = answer.status_code >= 400 or "error" in answer.json()

            assert answer.status_code < 500 and (is_error or answer.json()["result"]["isError"]), body[:80]


def test_a_body_and_what_is_in_it_have_limits(service: RunningService, caller: Caller) -> None:
    """The longest prompt fits, however escaped; beyond the limit: 413 as everywhere. Too many values are
    JSON-RPC's refusal with the API's inside; of many faults a few are named (P14)."""
    prompt = json.dumps({"name": "draw", "arguments": {"prompt": "\u97f3" * 20_000, "width": 100}})
    names = '{"name": "say", "arguments": {' + ",".join(f'"k{each}": 0' for each in range(200_000)) + "}}"
    call = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": %s}'
    fits, many = (post(caller, (call % params).encode()) for params in (prompt, names))
    large = post(caller, b" " * (MAX_BODY_BYTES + 1))
    unknown = {f"{number}{'k' * 3000}": 0 for number in range(1_900)}
    [wrong] = calling(service, caller.key, ("say", {"text": "x"} | unknown))
    error = many.json()["error"]

    assert (200, 400, 413) == (fits.status_code, many.status_code, large.status_code)
    assert (-32700, ["too_many_values"]) == (error["code"], [one["code"] for one in error["data"]["details"]])
    assert error["data"]["request_id"] == many.headers["x-request-id"]
    assert wrong.is_error and f"and {1_900 - MAX_FAULTS_NAMED} more faults" in text_of(wrong)
    assert len(text_of(wrong)) < 8_000


def test_calls_of_a_key_have_a_limit_and_leave_with_their_clients(
    service: RunningService, caller: Caller, operator: Operator
) -> None:
    job = caller.submit("[fake:sleep=50] x")
    call = {"name": "job", "arguments": {"job_id": job, "wait_s": 45}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: tenuto\r\nAuthorization: Bearer {caller.key}\r\n"
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    lines = [
        socket.create_connection(("127.0.0.1", service.port), timeout=120) for _ in range(MOST_CALLS + 1)
    ]
    for line in lines:
        line.sendall(head.encode() + body)
    # All others wait for the job once one is refused.
    answered, _, _ = select.select(lines, [], [], 30)
    ninth = answered[0].recv(65536).split(b"\r\n")[0]
    refused = post(caller, LIST)
    other = post(operator.key(caller.account_id), LIST)
    for line in lines:
        line.close()
    end = time.monotonic() + HANG_S
    while (answer := post(caller, LIST)).status_code != 200:
        assert time.monotonic() < end, answer.text
        time.sleep(0.05)
    caller.cancel(job)

    assert (1, b"HTTP/1.1 429 Too Many Requests") == (len(answered), ninth)
    assert 429 == refused.status_code and "1" == refused.headers["retry-after"]
    assert "8 calls of tools in progress" in refused.text
    assert 200 == other.status_code


def test_a_recording_comes_with_its_call(service: RunningService, caller: Caller) -> None:
    """WAV or FLAC, alone or as a `data:` URL, of the largest size; the same bytes are the same job, and
    answers are small."""
    flac, wav = recording(3), in_form(recording(2), "WAV")
    wav += bytes(MAX_RECORDING_BYTES - len(wav))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("transcribe", {"recording": base64.b64encode(flac).decode()}),
        ("transcribe", {"recording": "data:audio/flac;base64," + base64.encodebytes(flac).decode()}),
        ("transcribe", {"recording": base64.b64encode(wav).decode(), "lang": "en"}),
    ]
    one, again, other = results = calling(service, caller.key, *calls)
    inputs = caller.get("/v1/jobs").json()["data"]

    assert facts(one)["text"] and facts(other)["text"] and not any(each.is_error for each in results)
    assert facts(one)["job_id"] == facts(again)["job_id"] != facts(other)["job_id"]
    assert 2 == len(inputs)
    assert all(len(each.model_dump_json()) < 8_000 for each in results)


def test_what_is_not_a_recording_is_an_answer_that_says_what_is(
    service: RunningService, caller: Caller
) -> None:
    secret = "bm90IGEgcmVjb3JkaW5n"
    wrong = {
        "give either": {"recording": secret, "input_artifact_id": "artifact_x"},
        "is not base64": {"recording": f"{secret}*"},
        "is not read": {"recording": secret},
        "input_artifact_id": {"recording": base64.b64encode(bytes(MAX_RECORDING_BYTES + 1)).decode()},
        "valid string": {"recording": {"secret": secret}},
    }
    calls: list[tuple[str, Any]] = [("transcribe", arguments) for arguments in wrong.values()]
    answers = [text_of(each) for each in calling(service, caller.key, *calls)]
    log = service.log_path.read_text("utf-8")

    assert [] == [one for one in zip(wrong, answers, strict=True) if one[0] not in one[1]]
    assert [] == caller.get("/v1/jobs").json()["data"]
    assert secret not in log and secret not in "".join(answers)


def test_a_call_that_waits_reports_progress(service: RunningService, caller: Caller) -> None:
    """To a client that asks for it, rising to the end, with words; one that waits no longer is told
    how to go on."""
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def ask() -> CallToolResult:
        async with connected(service, caller.key) as client:
            words = {"text": "[fake:sleep=1] Hold the note."}
            return await client.call_tool("say", words, progress_callback=note)

    said = asyncio.run(ask())
    [begun] = calling(service, caller.key, ("say", {"text": "[fake:sleep=1] x", "wait_s": 0}))
    call = {"name": "say", "arguments": {"text": "Hold."}, "_meta": {"progressToken": "mine"}}
    stream = post(caller, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    messages = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: {")]

    assert "call `job` with this id" in text_of(begun) and "state" in facts(begun)
    assert not said.is_error and len(seen) > 1 and all(message for _, _, message in seen)
    assert sorted({one for one, _, _ in seen}) == [one for one, _, _ in seen]
    assert all(one <= total == 100 for one, total, _ in seen if total is not None)
    assert "text/event-stream" in stream.headers["content-type"] and stream.headers["x-request-id"]
    assert {"mine"} == {one["params"]["progressToken"] for one in messages[:-1]}
    assert not messages[-1]["result"]["isError"]


def test_without_the_setting_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is off by default, and refused by name where the extra is missing."""
    assert "off" == config.load({}).of(McpSettings).mcp
    monkeypatch.setitem(sys.modules, "tenuto_mcp.hosted", None)
    with pytest.raises(SettingsInvalid, match=r"mcp: .* pip install 'tenuto\[mcp\]'"):
        config.load({"TENUTO_MCP": "on"})
