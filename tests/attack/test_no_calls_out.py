"""The service speaks to nobody but its callers, its database and the upstreams of its settings (P17, P18).

It runs in a network that has no way out. A call to an address outside, a name that is looked up, a
connection to a port that nobody listens on: the kernel counts each of them, whoever makes it, also native
code and the hosts of engines.
"""

import hashlib
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from servers.alone import NoNetworkOfOnesOwn, alone, knocks
from servers.recordings import body as recognition
from servers.recordings import recording as flac
from servers.service import RunningService
from servers.upstream import UpstreamServer
from servers.voices import headers_of
from servers.voices import recording as wav

UPSTREAM = """
[models."there/chat"]
upstream = "{url}"
"""
CHATS = ("fake/chat", "there/chat")


def test_nothing_is_called_but_what_was_configured(tmp_path: Path, server_url: str) -> None:
    """All kinds of work, the operator's commands, addresses in every text that a caller sends (P17, P18)."""

    def work() -> tuple[dict[str, int], int, list[str], list[str]]:
        upstream = UpstreamServer()
        config = tmp_path / "tenuto.toml"
        config.write_text(UPSTREAM.format(url=upstream.url))
        service = RunningService(tmp_path / "data", server_url, variables={"TENUTO_CONFIG": str(config)})
        with _trap() as (address, caught):
            service.start()
            service.key = service.make_key(credit="100")
            with service.client() as http:
                _all_kinds(service, http)
                _addresses(http, address)
            for command in (["doctor"], ["models", "list"], ["audit"]):
                service.command("admin", *command, check=False)
            service.stop()
        upstream.close()
        events = map(json.loads, service.log_path.read_text().splitlines())
        networks = [event["network"] for event in events if event["event"] == "engine.loaded"]
        return knocks(), len(caught), upstream.seen.paths, networks

    counted, called, asked, networks = _in_a_network_of_its_own(work)

    assert dict.fromkeys(counted, 0) == counted
    assert 0 == called
    # The fakes' hosts had none to begin with; a kernel that cannot close it is told.
    assert len(networks) > 3
    assert len(set(networks)) == 1 and "allowed" not in networks
    # The upstream of the settings was there to be called, and nothing else of it was.
    assert {"/v1/chat/completions"} <= set(asked) <= {"/v1/chat/completions", "/v1/models", "/v1"}


def test_a_call_outside_would_be_seen() -> None:
    """The measure measures: one call by number, one by name and one to a closed port are counted."""

    def work() -> dict[str, int]:
        for host, port in (("192.0.2.1", 80), ("2001:db8::1", 80), ("127.0.0.1", 9)):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_STREAM) as calling, pytest.raises(OSError):
                calling.connect((host, port))
        return knocks()

    counted = _in_a_network_of_its_own(work)

    assert {"Ip.OutNoRoutes", "Ip6OutNoRoutes", "Tcp.AttemptFails"} == {
        name for name, count in counted.items() if count
    }


def _in_a_network_of_its_own(work: Callable[[], Any]) -> Any:
    try:
        return alone(work)
    except NoNetworkOfOnesOwn as error:
        pytest.skip(f"a network of one's own needs root: {error}")


def _all_kinds(service: RunningService, http: httpx2.Client) -> None:
    """One of each kind of work, to its end."""
    for model, parameters in (
        ("fake/speech", {"text": "Hold.", "stream": True}),
        ("fake/metered-speech", {"text": "Hold."}),
        ("fake/image", {"prompt": "A note.", "width": 256, "height": 256}),
    ):
        _done(service, _post(http, {"model": model, "parameters": parameters}))
    sound = flac()
    told = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": hashlib.sha256(sound).hexdigest()}
    uploaded = http.post("/v1/input-artifacts", content=sound, headers=told).json()["artifact"]["id"]
    _done(service, _post(http, recognition(uploaded)))
    voice = http.post("/v1/voices", content=wav(), headers=headers_of(wav())).json()["voice_id"]
    _done(service, _post(http, {"model": "fake/speech", "parameters": {"text": "Hold.", "voice_id": voice}}))
    for model in CHATS:
        said = {"model": model, "messages": [{"role": "user", "content": "Hold."}]}
        assert http.post("/v1/chat/completions", json=said).status_code == 200


def _addresses(http: httpx2.Client, address: str) -> None:
    """The address in every text of a request that a caller can choose."""
    for text in (f"http://{address}/x.flac", f"//{address}/x", f"file://{address}/x", f"s3://{address}/x"):
        texts = {"text": text, "voice_id": text, "emotion_voice_id": text, "lang": text, "emo_text": text}
        for name in texts:
            _post(http, {"model": "fake/speech", "parameters": {"text": "Hold.", name: text}})
        _post(http, {"model": "fake/image", "parameters": {"prompt": text}, "metadata": {"url": text}})
        _post(http, {"model": text, "parameters": {}, "callback_url": text, "webhook": text})
        _post(http, recognition(text, context=text, language=text[:16], hotwords=[text]))
        image = {"type": "image_url", "image_url": {"url": text}}
        for model in CHATS:
            for content in (text, [image], [{"type": "text", "text": text}]):
                said = {"model": model, "messages": [{"role": "user", "content": content}]}
                http.post("/v1/chat/completions", json=said)
        for name in ("Referer", "Origin", "X-Forwarded-Host", "Forwarded", "X-Original-URL", "Host"):
            http.get("/v1/jobs", headers={name: address if name == "Host" else text})
        http.put("/v1/voice-preference", json={"content_account": text[:64], "voice_id": text})
        http.post("/v1/voices", content=wav(), headers=headers_of(wav(), text))
        http.get("/v1/jobs", params={"model": text})
        http.get(f"/v1/artifacts/{text.replace('/', '%2F')}/content")
        http.request("GET", "/v1/jobs", extensions={"target": text.encode()})


@contextmanager
def _trap() -> Iterator[tuple[str, list[object]]]:
    """An address to name, and who came to it."""
    caught: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            try:
                while True:
                    connection, whom = listening.accept()
                    caught.append(whom)
                    connection.close()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        host, port = listening.getsockname()
        yield f"{host}:{port}", caught
        listening.shutdown(socket.SHUT_RDWR)


def _post(http: httpx2.Client, said: dict[str, Any]) -> httpx2.Response:
    headers = {"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"}
    return http.post("/v1/jobs", content=json.dumps(said).encode(), headers=headers)


def _done(service: RunningService, answer: httpx2.Response) -> None:
    assert answer.status_code == 202, answer.text
    assert service.wait(answer.json()["id"])["state"] == "succeeded"
