"""No work for a caller who could not pay for it, over the whole route table, the studio and `/mcp`.

Work is what decodes, asks an upstream or an engine, or stores bytes: it shows in the log, at the upstream,
and as rows.
"""

import base64
import itertools
import json
import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from client.test_mcp_over_http import calling
from servers import chats, recordings, voices
from servers.accounts import now_ms
from servers.callers import SPEECH, Caller, Operator, error_code, job
from servers.processes import until
from servers.recordings import DUAL, recording
from servers.service import RunningService
from servers.upstream import UpstreamServer
from tenuto import config
from tenuto.api.app import routes_of
from tenuto.db.database import Transaction
from tenuto.features.studio import people_operations as people
from tenuto.features.studio import sessions
from tenuto.features.studio.app import ROUTES as STUDIO_ROUTES
from tenuto.features.studio.sessions import Times
from tenuto.ids import Ids

CHAT, VECTORS = "there/priced", "there/vectors"
OTHER = "fake/metered-speech"
"""The one model of a restricted key."""
CONFIG = """
[models."fake/speech"]
price = "0.5"

[models."fake/image"]
price = "0.5"

[models."there/priced"]
upstream = "{url}"
input_price = "2"
connections = 1

[models."there/vectors"]
upstream = "{url}"
serves = "embeddings"
input_price = "2"
"""

Route = tuple[str, str]
Ask = Callable[["Service", Caller], tuple[int, str]]


@dataclass
class Service:
    """A running service, whoever owns it, and the upstream of its chats."""

    running: RunningService
    operator: Operator
    upstream: UpstreamServer

    def work(self) -> tuple[int, ...]:
        """How much work has begun: decoders, requests to the upstream, inputs, jobs."""
        decoders = self.running.log_path.read_text().count("tenuto.features.recognition.to_flac")
        inputs = self.operator.row("select count(*) as number from artifact where media_type = 'audio/flac'")[
            "number"
        ]
        jobs = self.operator.row("select count(*) as number from job")["number"]
        return decoders, len(self.upstream.seen.bodies), inputs, jobs

    def ask(self, head: str) -> int:
        """The status of a request whose body is announced and never sent."""
        with socket.create_connection(("127.0.0.1", self.running.port), timeout=60) as link:
            link.sendall(f"{head}\r\nHost: studio.test\r\nContent-Length: 1000\r\n\r\n".encode())
            return int(link.makefile("rb").readline().split()[1])


def _post(path: str, document: Any, caller: Caller) -> tuple[int, str]:
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    answer = caller.request("POST", path, headers=headers, content=json.dumps(document).encode())
    assert answer.status_code != 200, (path, answer.text)
    return error_code(answer)


def _json(path: str, document: Any) -> Ask:
    return lambda service, caller: _post(path, document, caller)


def _transcription(service: Service, caller: Caller) -> tuple[int, str]:
    return error_code(_send_form(caller, recording(), {}))


def _send_form(caller: Caller, sound: bytes, headers: dict[str, str]) -> httpx2.Response:
    url = f"{caller.http.base_url}/v1/audio/transcriptions"
    form = httpx2.Request("POST", url, files={"file": ("a.flac", sound)}, data={"model": DUAL})
    own = {"Content-Type": form.headers["content-type"]}
    return caller.request("POST", "/v1/audio/transcriptions", headers=own | headers, content=form.read())


def _tool(name: str, **arguments: Any) -> Ask:
    def ask(service: Service, caller: Caller) -> tuple[int, str]:
        [result] = calling(service.running, caller.key, (name, {**arguments, "wait_s": 0}))
        assert result.is_error and result.structured_content is not None
        code: str = result.structured_content["error"]
        return {"insufficient_balance": 403, "model_not_allowed": 403}.get(code, 429), code

    return ask


def _transcribe(service: Service, caller: Caller) -> tuple[int, str]:
    return _tool("transcribe", recording=base64.b64encode(recording()).decode(), model=DUAL)(service, caller)


def routes_in(table: str) -> set[Route]:
    """Of each line, the method and its paths."""
    return {
        (method, path)
        for line in table.split("\n")
        for method, *paths in [line.split() or [""]]
        for path in paths
    }


MESSAGES = [{"role": "user", "content": "Hold the note."}]
PAID: dict[Route, Ask] = {
    ("POST", "/v1/jobs"): _json("/v1/jobs", job()),
    ("POST", "/v1/audio/speech"): _json(
        "/v1/audio/speech", {"model": SPEECH, "input": "Hold the note.", "voice": "alloy"}
    ),
    ("POST", "/v1/audio/transcriptions"): _transcription,
    ("POST", "/v1/images/generations"): _json(
        "/v1/images/generations", {"model": "fake/image", "prompt": "A note.", "n": 2}
    ),
    ("POST", "/v1/chat/completions"): _json(
        "/v1/chat/completions", {"model": CHAT, "messages": MESSAGES, "stream": True}
    ),
    ("POST", "/v1/responses"): _json("/v1/responses", {"model": CHAT, "input": "Hold the note."}),
    ("POST", "/v1/embeddings"): _json("/v1/embeddings", {"model": VECTORS, "input": "Hold the note."}),
    ("TOOL", "say"): _tool("say", text="Hold the note.", model=SPEECH),
    ("TOOL", "transcribe"): _transcribe,
    ("TOOL", "draw"): _tool("draw", prompt="A note.", model="fake/image"),
}
"""What a job or a priced call pays for, and a request of each that would be accepted."""
BOUNDED = routes_in(
    """
    POST /v1/input-artifacts /v1/voices /v1/webhooks/{webhook_id}/test
    GET /v1/artifacts/{artifact_id}/rendition /v1/usage /v1/jobs /v1/account/ledger
    POST /web/setup /web/register /web/invitations/accept /web/login /web/password
    GET /web/usage /web/ledger.csv /web/operator/statistics
    """
)
"""Costly and free: bounded by limits of the account or the address (docs/operations/limits.md)."""
LITTLE = routes_in(
    """
    GET /v1/jobs/{job_id} /v1/jobs/{job_id}/events /v1/jobs/{job_id}/request /v1/events
    GET /v1/jobs/{job_id}/audio-segments /v1/jobs/{job_id}/audio-segments/{segment_id}/content
    POST /v1/jobs/{job_id}/cancel
    DELETE /v1/jobs/{job_id}/content /v1/artifacts/{artifact_id} /v1/voices/{voice_id}
    GET /v1/artifacts/{artifact_id}/content /v1/voices /v1/voices/{voice_id}
    GET /v1/voices/{voice_id}/content /v1/voice-preference /v1/models /v1/account/balance
    PATCH /v1/voices/{voice_id} /v1/webhooks/{webhook_id}
    PUT /v1/voice-preference
    GET /v1/webhooks /v1/webhooks/{webhook_id} /v1/webhooks/{webhook_id}/deliveries
    POST /v1/webhooks /v1/webhooks/{webhook_id}/rotate
    POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver
    DELETE /v1/webhooks/{webhook_id}
    GET /v1/models/{model} /v1/models/{owner}/{model} /v1/audio/voices /v1/audio/models
    POST /v1/audio/translations /web/logout /web/keys /web/keys/{key_id}/rotation
    GET /livez /readyz /web/session /web/keys /web/jobs/{job_id}/ledger
    DELETE /web/keys/{key_id}
    TOOL job voices models balance
    """
)
"""A few rows, or a body of some KiB. All other routes of the operator are, too."""
OF_NOBODY = {
    *("/livez", "/readyz", "/web/session", "/web/setup", "/web/register"),
    *("/web/invitations/accept", "/web/login", "/web/logout"),
}
"""Answered without a key and without a session."""
TABLE: set[Route] = {
    (method, path)
    for table in (routes_of(config.load({})), STUDIO_ROUTES)
    for path, methods in table.items()
    for method in methods
}
DECODING = {route: PAID[route] for route in (("POST", "/v1/audio/transcriptions"), ("TOOL", "transcribe"))}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with `/mcp`, priced chats, and room for one queued job and three files of an account."""
    folder, url = tmp_path_factory.mktemp("admission"), None
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        server.run("create database admission")
        url = server.url("admission")
    upstream = UpstreamServer()
    (folder / "tenuto.toml").write_text(CONFIG.format(url=upstream.url))
    variables = {"TENUTO_MCP": "on", "TENUTO_REQUESTS_PER_SECOND": "0", "TENUTO_QUEUED_JOBS": "1"}
    variables |= {"TENUTO_STORED_FILES": "3", "TENUTO_RECOGNITION_SLOTS": "1"}
    variables |= {"TENUTO_CONFIG": str(folder / "tenuto.toml"), "TENUTO_DRAIN_S": "0"}
    running = RunningService(folder / "data", url, variables=variables)
    running.start()
    operator = Operator(running)
    yield Service(running, operator, upstream)
    operator.cancel_all()
    operator.close()
    running.stop()
    upstream.close()
    if url is not None:
        server.run("drop database admission with (force)")


def test_every_route_and_tool_says_what_it_costs() -> None:
    """A new one has to be put into one of the tables above; then the tests below cover it."""
    from tenuto_mcp.hosted import TOOLS

    of_operator = {route for route in TABLE if route[1].startswith("/web/operator/")}
    told = [set(PAID), BOUNDED, LITTLE]

    assert TABLE | {("TOOL", name) for name in TOOLS} == set.union(*told) | of_operator
    assert not any(one & other for one, other in itertools.combinations(told, 2))


def test_an_account_without_money_begins_no_work(service: Service) -> None:
    """403 before anything is decoded, stored or sent on."""
    caller, before = service.operator.caller(), service.work()
    refused = {route: ask(service, caller) for route, ask in PAID.items()}

    assert dict.fromkeys(PAID, (403, "insufficient_balance")) == refused
    assert before == service.work()


def test_a_key_for_other_models_begins_no_work(service: Service) -> None:
    """403, however much money its account has."""
    caller, before = service.operator.caller(credit="100", models=[OTHER]), service.work()
    refused = {route: ask(service, caller) for route, ask in PAID.items()}

    assert dict.fromkeys(PAID, (403, "model_not_allowed")) == refused
    assert before == service.work()


def test_a_full_queue_begins_no_decoding(service: Service) -> None:
    """429 for a recording that its account could not queue."""
    caller = service.operator.caller(credit="100")
    endless = [recordings.upload(caller, recording(directive=1199)) for _ in range(2)]
    first = caller.post_job(recordings.body(endless[0])).json()["id"]
    caller.wait(first, ("running",))
    second = caller.post_job(recordings.body(endless[1]))
    before = service.work()
    refused = {route: ask(service, caller) for route, ask in DECODING.items()}
    service.operator.cancel_all()

    assert 202 == second.status_code
    assert dict.fromkeys(DECODING, (429, "rate_limited")) == refused
    assert before == service.work()


def test_an_account_that_may_store_nothing_more_begins_no_work(service: Service) -> None:
    """429 before a recording is decoded, and before the body of an upload is read."""
    caller = service.operator.caller(credit="100")
    for _ in range(3):
        recordings.upload(caller)
    before = service.work()
    refused = {route: ask(service, caller) for route, ask in DECODING.items()}
    input_head = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": "0" * 64}
    unread = {
        path: service.ask(_head("POST", path, {"Authorization": f"Bearer {caller.key}"} | headers))
        for path, headers in {
            "/v1/voices": voices.headers_of(voices.recording()),
            "/v1/input-artifacts": input_head,
        }.items()
    }

    assert dict.fromkeys(DECODING, (429, "rate_limited")) == refused
    assert {"/v1/voices": 429, "/v1/input-artifacts": 429} == unread
    assert before == service.work()


def test_a_chat_without_money_takes_no_place_in_the_queue(service: Service) -> None:
    """It is refused while the model is busy: in the queue it might displace a chat of somebody who pays."""
    payer, caller = service.operator.caller(credit="100"), service.operator.caller()
    before = len(service.upstream.seen.bodies)
    document = {"model": CHAT, "messages": [{"role": "user", "content": "[up:gate] Hold the note."}]}
    with ThreadPoolExecutor(1) as threads:
        paid = threads.submit(chats.post, payer, document)
        until(lambda: len(service.upstream.seen.bodies) > before, 60, "the model is busy")
        try:
            refused = PAID["POST", "/v1/chat/completions"](service, caller)
        finally:
            service.upstream.seen.gate.set()

    assert (403, "insufficient_balance") == refused
    assert 200 == paid.result().status_code


def test_a_recording_that_was_sent_before_is_not_decoded_again(service: Service) -> None:
    """With a retry's money gone as well: the tool answers with the job that there is."""
    caller = service.operator.caller(credit="6")
    arguments = {"recording": base64.b64encode(recording()).decode(), "model": DUAL, "wait_s": 30}
    [first] = calling(service.running, caller.key, ("transcribe", arguments))
    before = service.work()
    [again] = calling(service.running, caller.key, ("transcribe", arguments))

    assert first.structured_content is not None and not first.is_error
    assert first.structured_content == again.structured_content
    assert before == service.work()


def test_tries_of_one_request_do_not_take_the_money_from_each_other(service: Service) -> None:
    """With money for one job, several at once with one key, and several calls of a tool, are one job each."""
    sound = recording()

    def transcribe(caller: Caller) -> str:
        answer = _send_form(caller, sound, {"Idempotency-Key": "the same"})
        assert 200 == answer.status_code, answer.text
        return answer.headers["x-service-job"]

    def call(caller: Caller) -> str:
        arguments = {"recording": base64.b64encode(sound).decode(), "model": DUAL, "wait_s": 30}
        [result] = calling(service.running, caller.key, ("transcribe", arguments))
        assert result.structured_content is not None and not result.is_error, result
        return str(result.structured_content["job_id"])

    for ask in (transcribe, call):
        caller = service.operator.caller(credit="6")
        with ThreadPoolExecutor(4) as threads:
            assert 1 == len(set(threads.map(ask, [caller] * 4)))


def test_a_suspended_account_begins_nothing_anywhere(service: Service) -> None:
    """Neither its keys nor its sessions: each route refuses before the body of the request is read."""
    caller, token = _person(service)
    service.operator.database.write(
        lambda tx: people.suspend(tx, account_id=caller.account_id, now_ms=now_ms())
    )
    asked = {
        (method, path): service.ask(_head(method, path, _credentials(path, caller, token)))
        for method, path in TABLE | {("POST", "/mcp")}
        if path not in OF_NOBODY
    }

    assert {401} == set(asked.values())


def test_the_operators_routes_refuse_everybody_else_unread(service: Service) -> None:
    """403 before the body of the request is read."""
    caller, token = _person(service)
    asked = {
        (method, path): service.ask(_head(method, path, _credentials(path, caller, token)))
        for method, path in TABLE
        if path.startswith("/web/operator/")
    }

    assert dict.fromkeys(asked, 403) == asked


def _person(service: Service) -> tuple[Caller, str]:
    """Somebody with a key and a session; its token."""
    token, times = sessions.new_token(), Times(3_600_000, 3_600_000)

    def register(tx: Transaction) -> str:
        account_id = people.register(
            tx, Ids(now_ms), name=f"person-{uuid.uuid4()}", password_hash="none", now_ms=now_ms()
        )
        sha256 = sessions.token_sha256(token)
        sessions.begin(tx, sha256, account_id=account_id, times=times, now_ms=now_ms())
        return account_id

    return service.operator.key(service.operator.database.write(register)), token


def _credentials(path: str, caller: Caller, token: str) -> dict[str, str]:
    if path.startswith("/web/"):
        return {"Cookie": f"tenuto_session={token}", "Origin": "http://studio.test"}
    return {"Authorization": f"Bearer {caller.key}"}


def _head(method: str, path: str, headers: dict[str, str]) -> str:
    filled = path.format_map(dict.fromkeys(_names(path), "x"))
    own = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())} | headers
    return "\r\n".join([f"{method} {filled} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())])


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]
