"""nginx and Caddy with the files of deploy/, before a real service: what passes, what does not, who asks.

Each is skipped, with the reason, where it is not installed; Caddy comes with the test lock.
"""

import hashlib
import json
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from deploy.proxies import PROXIES, Missing, Proxy
from servers.ports import free_port
from servers.recordings import recording
from servers.service import TENUTO, RunningService
from servers.speed import IS_MEASURED
from tenuto.file.inputs import MAX_INPUT_BYTES
from tenuto_client import Tenuto

pytestmark = pytest.mark.variant("program")

PASSWORD = "a password for tests"


@dataclass
class Front:
    """A proxy, and the service behind it."""

    proxy: Proxy
    service: RunningService

    def client(self, source: str = "127.0.0.1") -> httpx2.Client:
        return self.proxy.client(source=source, key=self.service.key)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service that believes this machine, with a second's patience for a body."""
    variables = {
        "TENUTO_TRUSTED_PROXIES": "127.0.0.1",
        "TENUTO_REGISTRATION": "open",
        "TENUTO_REQUESTS_PER_SECOND": "0",
        "TENUTO_SLOW_BODY_S": "1",
    }
    running = RunningService(tmp_path_factory.mktemp("proxied") / "data", variables=variables)
    running.start()
    running.key = running.make_key(credit="100")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def below(service: RunningService) -> Iterator[int]:
    """The port of another API process of the same service, whose place is below /tenuto."""
    with service.log_path.open("a") as log:
        process = subprocess.Popen(
            [TENUTO, "api", "--port", "0"],
            env=service.environment | {"TENUTO_BASE_PATH": "/tenuto"},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    first = process.stdout.readline()
    yield int(first.split("http://")[1].split(",")[0].rsplit(":", 1)[1])
    process.terminate()
    process.wait(30)


@pytest.fixture(scope="module", params=PROXIES)
def front(
    request: pytest.FixtureRequest,
    service: RunningService,
    below: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Front]:
    """Each proxy before the two."""
    try:
        proxy = PROXIES[request.param](tmp_path_factory.mktemp("proxy"), service.port, below)
    except Missing as missing:
        pytest.skip(str(missing))
    yield Front(proxy, service)
    proxy.stop()


def test_the_largest_recording_passes_and_a_byte_more_does_not(front: Front) -> None:
    """At the limit the service waits for the rest; over it the answer has its shape (P14, P15)."""
    most, over, far = (_head(front, size) for size in (MAX_INPUT_BYTES, MAX_INPUT_BYTES + 1, 300 << 20))
    stranger = _head(front, MAX_INPUT_BYTES + 1, key="tn_nobody")

    assert (408, "request_timeout") == most
    assert [(413, "payload_too_large")] * 2 == [over, far]
    assert (401, "invalid_api_key") == stranger


@pytest.mark.measured
def test_what_is_streamed_arrives_as_it_is_made(front: Front) -> None:
    """Words of a chat come one by one; the first is there long before the last is said."""
    asked = {
        "model": "fake/chat",
        "messages": [{"role": "user", "content": "[fake:slow=0.2] one two three four five"}],
        "stream": True,
    }
    arrived = []
    with front.client() as client, client.stream("POST", "/v1/chat/completions", json=asked) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["delta"].get("content"):
                arrived.append(time.monotonic())

    assert 5 == len(arrived)
    assert not IS_MEASURED or arrived[-1] - arrived[0] > 0.5


def test_a_recording_goes_in_and_a_result_comes_out_byte_for_byte(front: Front) -> None:
    """Uploads, jobs, downloads, ranges and tags are those of the service itself (P6)."""
    flac = recording()
    sha256 = hashlib.sha256(flac).hexdigest()
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": sha256}
    with front.client() as client:
        uploaded = client.post("/v1/input-artifacts", content=flac, headers=headers)
        artifact = uploaded.json()["artifact"]["id"]
        whole = client.get(f"/v1/artifacts/{artifact}/content")
        part = client.get(f"/v1/artifacts/{artifact}/content", headers={"Range": "bytes=10-19"})
        same = client.get(
            f"/v1/artifacts/{artifact}/content", headers={"If-None-Match": whole.headers["etag"]}
        )

    assert (201, sha256) == (uploaded.status_code, uploaded.json()["artifact"]["sha256"])
    assert flac == whole.content
    assert (206, flac[10:20]) == (part.status_code, part.content)
    assert f'"{sha256}"' == whole.headers["etag"]
    assert 304 == same.status_code


def test_guesses_are_counted_by_the_address_that_the_proxy_saw(front: Front) -> None:
    """Not by the proxy's own, and not by one that the guesser makes up (P14)."""
    name = f"nobody {uuid.uuid4()}"
    with front.client("127.0.0.2") as guesser, front.client("127.0.0.3") as other:
        tries = [_log_in(guesser, name) for _ in range(6)]
        forged = _log_in(guesser, name, {"X-Forwarded-For": "127.0.0.9"})
        elsewhere = _log_in(other, name)

    assert [401] * 5 + [429] == tries
    assert 429 == forged
    assert 401 == elsewhere


def test_a_session_over_https_is_a_secure_one(front: Front) -> None:
    """The service hears from the proxy that the browser speaks HTTPS; the pages' Origin fits their Host."""
    name = f"李雷 {uuid.uuid4().hex[:8]}"
    with front.client("127.0.0.4") as client:
        entered = client.post(
            "/web/register", json={"name": name, "password": PASSWORD}, headers={"Origin": front.proxy.site}
        )
        session = client.get("/web/session").json()

    assert entered.headers["set-cookie"].startswith("__Host-tenuto_session=")
    assert name == session["account"]["name"]
    assert "max-age=31536000" == entered.headers["strict-transport-security"]


def test_below_a_path_everything_is_there(front: Front, tmp_path: Path) -> None:
    """The page, its files, the client's whole way to a verified result, and nothing beside the path."""
    page = httpx2.get(front.proxy.below, follow_redirects=True)
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text) if "data-base" in page.text else []
    with Tenuto(
        api_key=front.service.key, base_url=front.proxy.below, journal=tmp_path / "journal"
    ) as client:
        client.speech.create("Hold the note.", model="fake/speech").download(tmp_path / "note.wav")
    beside = httpx2.get(front.proxy.below.removesuffix("/tenuto") + "/livez")

    assert 200 == page.status_code
    assert {200} >= {httpx2.get(f"{_host(front)}{file}").status_code for file in files}
    assert not [file for file in files if not file.startswith("/tenuto/")]
    assert (tmp_path / "note.wav").read_bytes().startswith(b"RIFF")
    assert b"ok" not in beside.content


def test_a_client_that_breaks_off_an_upload_costs_the_others_nothing(front: Front) -> None:
    """The service has done nothing wrong, so the proxy continues to use it (P14)."""
    statuses = []
    with front.client() as client:
        for _ in range(3):
            with front.proxy.connected() as connection:
                connection.sendall(_upload_head(front, 1 << 20, front.service.key) + b"\r\n" + b"fLaC" * 64)
                time.sleep(0.2)  # it reaches the service
            until = time.monotonic() + 0.3
            while time.monotonic() < until:  # until the proxy has noticed
                statuses.append(client.get("/v1/models").status_code)

    assert {200} == set(statuses)


@pytest.mark.parametrize("name", PROXIES)
def test_a_service_that_is_away_is_told_in_its_own_shape(name: str, tmp_path: Path) -> None:
    """503 with Retry-After, which every client of the contract waits for."""
    try:
        proxy = PROXIES[name](tmp_path, free_port(), free_port())
    except Missing as missing:
        pytest.skip(str(missing))
    with proxy.client() as client:
        answer = client.get("/v1/models")
    proxy.stop()

    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert "application/json" == answer.headers["content-type"]
    assert "unavailable" == answer.json()["error"]["code"]
    assert set(answer.json()["error"]) == {"message", "type", "code", "param", "details", "request_id"}


def _head(front: Front, size: int, key: str | None = None) -> tuple[int, str]:
    """The answer to the head of an upload: its status, and the code of a refusal."""
    with front.proxy.connected() as connection:
        connection.sendall(_upload_head(front, size, key or front.service.key) + b"\r\n" + b"fLaC")
        return _answered(connection)


def _answered(connection: socket.socket) -> tuple[int, str]:
    connection.settimeout(10)
    answer = b""
    while b'"request_id"' not in answer and (piece := connection.recv(65536)):
        answer += piece
    status = int(answer.split(b" ", 2)[1])
    code = re.search(rb'"code":"(\w+)"', answer)
    return status, code[1].decode() if code else ""


def _upload_head(front: Front, size: int, key: str) -> bytes:
    fields = {
        "Host": f"127.0.0.1:{front.proxy.site_port}",
        "Authorization": f"Bearer {key}",
        "Content-Type": "audio/flac",
        "X-Service-Content-SHA256": "0" * 64,
        "Content-Length": str(size),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /v1/input-artifacts HTTP/1.1\r\n{lines}".encode()


def _log_in(client: httpx2.Client, name: str, headers: dict[str, str] | None = None) -> int:
    own = {"Origin": str(client.base_url).rstrip("/"), **(headers or {})}
    return client.post(
        "/web/login", json={"name": name, "password": "wrong password"}, headers=own
    ).status_code


def _host(front: Front) -> str:
    return front.proxy.below.removesuffix("/tenuto")
