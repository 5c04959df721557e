"""A request that fails after its response has begun: the connection is closed, and the error logged once."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import CapturingLogger

from servers.endpoint import serving
from tenuto.api.call import Call
from tenuto.db.database import Database
from tenuto.errors import StorageFailed
from tenuto.features.http_guard.server import Server


async def half(call: Call) -> None:
    """Send the head and a piece, then fail as the path says."""
    await call.send({"type": "http.response.start", "status": 200, "headers": []})
    await call.send({"type": "http.response.body", "body": b"half", "more_body": True})
    raise StorageFailed("gone") if call.scope["path"] == "/away" else ValueError("unforeseen")


@pytest.fixture
def server(database: Database, tmp_path: Path) -> Iterator[Server]:
    with serving(half, database, tmp_path) as made:
        yield made


@pytest.mark.parametrize(("path", "event"), [("/away", "http.unavailable"), ("/boom", "http.failed")])
def test_what_fails_in_mid_answer_is_cut_and_logged_once(
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    path: str,
    event: str,
) -> None:
    """The last chunk is missing, and uvicorn reports no incomplete response."""
    log = CapturingLogger()
    monkeypatch.setattr("tenuto.api.call._log", log)
    with socket.create_connection(server.addresses[0]) as client:
        client.settimeout(10)
        client.sendall(b"GET %b HTTP/1.1\r\nHost: tenuto\r\n\r\n" % path.encode())
        received = b"".join(iter(lambda: client.recv(65536), b""))

    assert 1 == received.count(b"HTTP/1.1")
    assert received.endswith(b"\r\n\r\n4\r\nhalf\r\n")
    assert [event] == [call.args[0] for call in log.calls]
    assert [] == caplog.records
