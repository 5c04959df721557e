"""The link to a client breaks: what was not received whole is not stored, what was not sent whole shows."""

import hashlib
import socket
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from servers import checker
from servers.proxy import Proxy, Towards
from servers.recordings import recording as flac
from servers.service import RunningService
from servers.voices import recording as wav
from tenuto.db.database import Database

PATIENCE_S = 120.0
STILL_S = 0.15
Upload = tuple[str, bytes, list[str]]
"""Where it goes, its body, and its headers."""
_RESET = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def service(service: RunningService) -> RunningService:
    """The shared service, with an account of this module's."""
    service.key = service.make_key(f"links-{uuid.uuid4()}", credit="100")
    return service


@pytest.fixture
def records(service: RunningService) -> Iterator[Database]:
    database = checker.open_records(service)
    yield database
    database.close()


def _checksum(content: bytes) -> str:
    return f"X-Service-Content-SHA256: {hashlib.sha256(content).hexdigest()}"


def _uploads() -> dict[str, Upload]:
    """What can be sent: path, body and further headers."""
    sound, voice = flac(words=40), wav(seconds=15, rate=48_000)
    job = b'{"model": "fake/speech", "parameters": {"text": "Cut off."}, "metadata": {"x": "%s"}}'
    job %= b"x" * 400
    return {
        "input": ("/v1/input-artifacts", sound, ["Content-Type: audio/flac", _checksum(sound)]),
        "voice": (
            "/v1/voices",
            voice,
            ["Content-Type: audio/wav", "X-Service-Voice-Name: Cut", _checksum(voice)],
        ),
        "job": ("/v1/jobs", job, ["Content-Type: application/json", "Idempotency-Key: KEY"]),
    }


UPLOADS = _uploads()


@pytest.mark.parametrize("way", ["reset", "half close", "lying chunk"])
@pytest.mark.parametrize("what", UPLOADS)
def test_a_body_that_breaks_off_stores_nothing(
    service: RunningService, records: Database, what: str, way: str
) -> None:
    """At the first byte, in the middle, one byte before the end: nothing is stored, no id given (P5, P14).

    However it breaks off, the key that it came under stays free, and no file stays behind.
    """
    path, body, headers = UPLOADS[what]
    key = str(uuid.uuid4())
    before = _settled(service, records)
    answers = [
        _send_part(service, way, (path, body, [line.replace("KEY", key) for line in headers]), sent_bytes)
        for sent_bytes in (0, 1, len(body) // 2, len(body) - 1)
    ]
    stored = _settled(service, records)

    assert before == stored
    assert [] == [answer for answer in answers if b" 20" in answer[:13] or b"_01" in answer]
    if what == "job":
        with service.client() as http:
            whole = http.post(path, content=body, headers=_parsed(headers, key))
            service.wait(whole.json()["id"])
        assert (202, False) == (whole.status_code, "idempotent-replayed" in whole.headers)


def test_a_download_that_is_cut_shows(service: RunningService) -> None:
    """A client that got fewer bytes than the head says knows it, and a range gives it the rest (P6)."""
    body = {"model": "fake/speech", "parameters": {"text": "A long note is held. " * 30 + "End."}}
    proxy = Proxy(("127.0.0.1", service.port))
    with service.client() as http:
        job_id = http.post("/v1/jobs", json=body, headers={"Idempotency-Key": str(uuid.uuid4())}).json()["id"]
        artifact = service.wait(job_id)["artifacts"][0]
    url = f"http://127.0.0.1:{proxy.port}/v1/artifacts/{artifact['id']}/content"
    key = {"Authorization": f"Bearer {service.key}"}
    proxy.cut_after(artifact["size_bytes"] // 2, Towards.CLIENT, is_reset=True)
    received = bytearray()
    with pytest.raises(httpx2.TransportError), httpx2.stream("GET", url, headers=key) as answer:
        for piece in answer.iter_raw():
            received += piece
    proxy.pass_on()
    rest = httpx2.get(url, headers=key | {"Range": f"bytes={len(received)}-"})
    proxy.close()
    whole = bytes(received) + rest.content

    assert 0 < len(received) < artifact["size_bytes"]
    assert (artifact["size_bytes"], artifact["sha256"]) == (len(whole), hashlib.sha256(whole).hexdigest())


def _settled(service: RunningService, records: Database) -> Any:
    """What is stored once nothing has changed for a while: a body may still be on its way to its thread."""
    until = time.monotonic() + PATIENCE_S
    stored, since = _stored(service, records), time.monotonic()
    while time.monotonic() < min(until, since + STILL_S) or (stored[1] and time.monotonic() < until):
        time.sleep(0.02)
        if (now := _stored(service, records)) != stored:
            stored, since = now, time.monotonic()
    return stored


def _send_part(service: RunningService, way: str, upload: Upload, sent_bytes: int) -> bytes:
    """What is answered to a body of which so many bytes are sent, before it breaks off in this way."""
    path, body, headers = upload
    framing = "Transfer-Encoding: chunked" if way == "lying chunk" else f"Content-Length: {len(body)}"
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: tenuto",
        f"Authorization: Bearer {service.key}",
        *headers,
        framing,
    ]
    part = (b"%x\r\n" % len(body) if way == "lying chunk" else b"") + body[:sent_bytes]
    with socket.create_connection(("127.0.0.1", service.port), timeout=120) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode() + part)
        if way == "reset":
            # So that the server has the head, and reads when the reset comes.
            time.sleep(0.02)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            return b""
        line.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := line.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
        return answer


def _stored(service: RunningService, records: Database) -> tuple[list[int], list[str]]:
    """Rows of what can be sent, and files that have no row."""
    counts = [
        checker.rows(records, f"select count(*) as n from {table}")[0]["n"]
        for table in ("artifact", "voice", "job", "upload_key", "blob")
    ]
    known = {row["id"] for row in checker.rows(records, "select id from blob")}
    files = {path.name for path in (service.folder / "blobs").rglob("blob_*")}
    return counts, sorted(files - known)


def _parsed(headers: list[str], key: str) -> dict[str, str]:
    pairs = (line.replace("KEY", key).split(": ", 1) for line in headers)
    return {name: value for name, value in pairs}  # noqa: C416 (pairs are lists)
