"""The floor of HTTP, attacked with raw sockets: a real server on a thread, a small application."""

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from servers.speed import HANG_S, within
from tenuto.api.body_bytes import ClientGone, read_body
from tenuto.api.errors import error_answer
from tenuto.api.limits import HttpLimits
from tenuto.errors import InvalidApiKey, OperatorError, TenutoError
from tenuto.features.http_guard.server import Server, make_server
from tenuto.ids import Ids

GET = b"GET /echo HTTP/1.1\r\nHost: tenuto\r\n\r\n"
LAST = b"GET /last HTTP/1.1\r\nHost: tenuto\r\nConnection: close\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: tenuto\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
MIB = 1024 * 1024
PIECES = {
    "/fill": [b"end"],
    "/stream": [b"x" * MIB] * 2,
    "/large": [b"x" * MIB] * 64,
    "/whole": [b"x" * (32 * MIB)],
    "/broken": [b"half of it"],
}
"""Responses without a length."""
QUICK = HttpLimits(
    head_s=0.6,
    keep_alive_s=0.6,
    body_s=0.6,
    write_stall_s=0.6,
    linger_s=0.6,
    linger_bytes=4 * MIB,
    discards=0,
    connections=120,
    grace_s=1.0,
)


class Service:
    """A running server, what its application saw, and clients of it."""

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self.paths: list[str] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.gone = threading.Event()
        self.started = threading.Event()
        self.release = threading.Event()
        ready = threading.Event()
        ids = Ids(lambda: time.time_ns() // 1_000_000)
        self.server: Server = make_server(
            self.app, request_id=lambda: ids.new("req"), limits=limits, on_ready=lambda _: ready.set()
        )
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        assert ready.wait(HANG_S)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": message["type"] + ".complete"})
            return
        self.paths.append(scope["path"])
        self.headers.append(scope["headers"])
        self.started.set()
        try:
            await self.answer(scope, receive, send)
        except ClientGone:
            self.gone.set()
        except TenutoError as error:
            await error_answer(error, "req_test").send(send, "req_test")

    async def answer(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/early":
            raise InvalidApiKey
        if path == "/unbroken":
            assert not scope["break_off"](scope)
        if path == "/boom":
            raise ValueError("a secret")
        body = await read_body(receive, scope["headers"], limit_bytes=MIB, limits=self.limits)
        if path == "/wait":
            await receive()
            raise ClientGone
        if path == "/held":
            while not self.release.is_set():
                await asyncio.sleep(0.01)
        head: list[tuple[bytes, bytes]] = []
        pieces = PIECES.get(path, [])
        if not pieces:
            pieces = [json.dumps([path, body.decode("latin-1")]).encode()]
            head = [(b"content-length", str(len(pieces[0])).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        if path == "/block":
            time.sleep(2.0)
        while path == "/fill" and not self.unsent_bytes():
            await send({"type": "http.response.body", "body": b"x" * 8192, "more_body": True})
            await asyncio.sleep(0)
        while path == "/pausing" and not self.release.is_set():
            await asyncio.sleep(0.01)
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if path == "/broken":
            assert scope["break_off"](scope)
            return
        await send({"type": "http.response.body"})

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.server.addresses[0])
        client.settimeout(10)
        return client

    def ask(self, request: bytes, *, half_close: bool = False) -> bytes:
        """Everything that comes back until the server closes."""
        with self.connect() as client:
            client.sendall(request)
            if half_close:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def alive(self) -> bool:
        return status(self.ask(LAST)) == 200

    def open_connections(self) -> int:
        return len(self.server.server_state.connections)

    def unsent_bytes(self) -> int:
        """What waits in the server's own buffers."""
        connections: Any = self.server.server_state.connections
        return sum(connection.transport.get_write_buffer_size() for connection in connections)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(HANG_S)
        assert not self.thread.is_alive()


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    service = Service(QUICK)
    yield service
    service.stop()


@pytest.fixture
def service(shared: Service) -> Service:
    """The shared server with nothing seen yet."""
    for event in (shared.gone, shared.started, shared.release):
        event.clear()
    shared.paths.clear()
    shared.headers.clear()
    return shared


@pytest.fixture
def serve() -> Iterator[Callable[[HttpLimits], Service]]:
    """Starts a server of this test's own."""
    services: list[Service] = []

    def start(limits: HttpLimits) -> Service:
        services.append(Service(limits))
        return services[-1]

    yield start
    for service in services:
        service.stop()


def read_all(client: socket.socket) -> bytes:
    pieces = []
    while piece := client.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def statuses(responses: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"HTTP/1\.1 (\d{3}) ", responses)]


def send_until_closed(client: socket.socket, block: bytes, limit_bytes: int) -> int:
    """Sends again and again; how many bytes went out before the other end had enough."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < limit_bytes:
            client.sendall(block)
            sent += len(block)
    return sent


def wait_for(condition: Callable[[], bool]) -> bool:
    """Whether it comes true in time: for what has no signal to wait on."""
    until = time.monotonic() + HANG_S
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.01)
    return False


# One reading of a request.

SMUGGLING = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "two equal hosts": b"GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n",
    "an empty host": b"GET / HTTP/1.1\r\nHost: \r\n\r\n",
    "a list of hosts": b"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "a host with a path": b"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a host with a user": b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
    "length, then coding": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding, then length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
    "two equal lengths": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "a signed length": POST + b"Content-Length: +5\r\n\r\nhello",
    "a negative length": POST + b"Content-Length: -5\r\n\r\nhello",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "an empty length": POST + b"Content-Length: \r\n\r\nhello",
    "a length in two parts": POST + b"Content-Length: 5 5\r\n\r\nhello",
    "a length past 64 bits": POST + b"Content-Length: 18446744073709551621\r\n\r\nhello",
    "an absurd length": POST + b"Content-Length: 18446744073709551615\r\n\r\nhello",
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "two codings": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked not last": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "a coding after a tab": POST + b"Transfer-Encoding: chunked\t \r\n\r\n0\r\n\r\n",
    "a coding after a vertical tab": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a space before the colon": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n",
    "a first line that is folded": b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
    "bare line feeds": b"GET / HTTP/1.1\nHost: a\n\n",
    "a bare carriage return": b"GET / HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "a field without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nXY\r\n\r\n",
    "a field without a name": b"GET / HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n",
    "a name with a space": b"GET / HTTP/1.1\r\nHost: a\r\nX Y: x\r\n\r\n",
    "an unknown method": b"FOO / HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT": b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "raw bytes in the path": b"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
    "HTTP/2 in the clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0 in the line": b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}

BAD_CHUNKS = {
    "no number": b"zz\r\n",
    "a negative size": b"-1\r\nX\r\n0\r\n\r\n",
    "a prefix": b"0x1\r\nX\r\n0\r\n\r\n",
    "past 64 bits": b"FFFFFFFFFFFFFFFFF\r\nX\r\n0\r\n\r\n",
    "bare line feeds": b"1\nX\n0\n\n",
    "longer than its size": b"1\r\nXY\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("request_bytes", SMUGGLING.values(), ids=SMUGGLING.keys())
def test_a_doubtful_request_is_refused_once_and_never_reaches_the_application(
    service: Service, request_bytes: bytes
) -> None:
    """Smuggling set: 400, one JSON error, the connection closed, what follows unread."""
    responses = service.ask(request_bytes + GET)

    assert ([400], []) == (statuses(responses), service.paths)


@pytest.mark.parametrize("chunks", BAD_CHUNKS.values(), ids=BAD_CHUNKS.keys())
def test_a_malformed_chunk_is_refused_and_is_no_end_of_file(service: Service, chunks: bytes) -> None:
    """The application sees its client go, while that still reads the answer; nothing that follows is read."""
    with service.connect() as client:
        client.sendall(CHUNKED + b"1\r\nA\r\n" + chunks + GET)
        responses = read_all(client)
        assert service.gone.wait(HANG_S)
        assert service.open_connections() >= 1

    assert statuses(responses) == [400]
    assert service.paths == ["/echo"]


def test_a_refusal_is_an_error_of_the_contracts_shape(service: Service) -> None:
    """JSON with every field, a request id that the header repeats, no name of a server."""
    head, _, body = service.ask(SMUGGLING["no host"]).partition(b"\r\n\r\n")
    error = json.loads(body)["error"]
    request_id = error.pop("request_id")

    assert {
        "message": "The Host header is missing.",
        "type": "invalid_request_error",
        "code": "invalid_request",
        "param": None,
        "details": [],
    } == error
    assert re.fullmatch(r"req_[0-9a-z]{26}", request_id)
    assert f"x-request-id: {request_id}\r\n".encode() in head
    assert b"server:" not in head


def test_trailers_are_not_headers(service: Service) -> None:
    """Nobody authenticates by what follows the body."""
    trailers = b"1\r\nA\r\n0\r\nAuthorization: Bearer x\r\nHost: b\r\n\r\n"
    responses = service.ask(CHUNKED + trailers + LAST)

    assert [200, 200] == statuses(responses)
    assert [b"host", b"transfer-encoding"] == [name for name, _ in service.headers[0]]


@pytest.mark.parametrize(
    "body",
    [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
    ids=["length", "chunks"],
)
def test_an_offered_upgrade_is_declined_and_the_body_kept(service: Service, body: bytes) -> None:
    """Java's HttpClient offers h2c on its first POST; the parser alone would lose the body."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    responses = service.ask(POST + offer + body + GET)

    assert [200] == statuses(responses)
    assert responses.endswith(b'["/echo", "hello"]')


# Floods.


@pytest.mark.parametrize(
    ("fits", "is_refused", "with_status"),
    [
        (b"x: y\r\n" * 98, b"x: y\r\n" * 99, 431),
        (b"x: " + b"y" * 32_000 + b"\r\n", b"x: " + b"y" * 33_000 + b"\r\n", 431),
    ],
    ids=["a hundred fields", "32 KiB"],
)
def test_a_head_too_large_is_refused(
    service: Service, fits: bytes, is_refused: bytes, with_status: int
) -> None:
    """By the number of its fields, or by their bytes."""
    heads = [LAST[:-2] + fields + b"\r\n" for fields in (fits, is_refused)]

    assert [200, with_status] == [status(service.ask(head)) for head in heads]


def test_a_target_too_long_is_refused(service: Service) -> None:
    """8 KiB of path and query."""
    target = b"/" + b"a" * 8191
    request = b"GET %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

    assert [200, 414] == [
        status(service.ask(request % target)),
        status(service.ask(request % (target + b"a"))),
    ]


ENDLESS = {
    "target": (b"GET /", b"a" * 4096),
    "header name": (GET[:-2], b"a" * 4096),
    "header value": (GET[:-2] + b"x: ", b"a" * 4096),
    "header fields": (GET[:-2], b"x: y\r\n" * 700),
    "empty lines": (b"", b"\r\n" * 2048),
    "chunk extension": (CHUNKED + b"1;", b"a" * 4096),
    "trailer value": (CHUNKED + b"0\r\nx: ", b"a" * 4096),
    "trailer fields": (CHUNKED + b"0\r\n", b"x: y\r\n" * 700),
}


@pytest.mark.parametrize(("start", "block"), ENDLESS.values(), ids=ENDLESS.keys())
def test_what_never_ends_is_cut_off(service: Service, start: bytes, block: bytes) -> None:
    """No more is read than the limits, what lingers, and what the kernel holds."""
    with service.connect() as client:
        client.sendall(start)
        sent_bytes = send_until_closed(client, block, 64 * MIB)

    assert sent_bytes < service.limits.linger_bytes + 16 * MIB
    assert service.alive()


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    """Eleven requests in one packet, eleven answers, each with its own body."""
    posts = [POST + b"Content-Length: 2\r\n\r\n%02d" % number for number in range(10)]
    responses = service.ask(b"".join(posts) + LAST)

    assert [f"{number:02}" for number in range(10)] == re.findall(r'"/echo", "(\d\d)"', responses.decode())
    assert [200] * 11 == statuses(responses)


def test_a_flood_of_pipelined_requests_is_answered_to_the_limit_and_closed(service: Service) -> None:
    """The first and 32 behind it, all answered; then the connection closes, for what waits costs memory."""
    responses = service.ask(GET * 100)
    service.paths.clear()
    with service.connect() as client:
        sent_bytes = send_until_closed(client, GET * 1000, 64 * MIB)
        with contextlib.suppress(ConnectionError):
            read_all(client)

    assert [200] * (1 + service.limits.pipelined) == statuses(responses)
    assert len(service.paths) <= 1 + service.limits.pipelined
    assert sent_bytes < service.limits.linger_bytes + 16 * MIB


def test_a_malformed_request_behind_a_good_one_does_not_disturb_its_answer(service: Service) -> None:
    """A refusal in front of an answer would be read as that answer."""
    responses = service.ask(POST + b"Content-Length: 2\r\n\r\nhi" + b"BAD\r\n\r\n")

    assert [200] == statuses(responses)
    assert responses.endswith(b'["/echo", "hi"]')


def test_what_follows_a_malformed_request_is_not_read_for_ever(service: Service) -> None:
    """Also while a request before it is still being answered."""
    with service.connect() as client:
        client.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\nBAD\r\n\r\n")
        sent_bytes = send_until_closed(client, b"x" * 65536, 64 * MIB)
        service.release.set()

    assert sent_bytes < service.limits.linger_bytes + 16 * MIB


# Time.


def test_a_head_dripping_in_is_answered_408(service: Service) -> None:
    """A byte now and then is no progress."""
    with service.connect() as client:
        client.settimeout(0.05)
        response = b""
        for byte in GET[:-2] + b"x: " + b"y" * 200:
            client.sendall(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                response = client.recv(65536)
                break

    assert ([408], []) == (statuses(response), service.paths)


@pytest.mark.parametrize("first", [b"", GET], ids=["at once", "after a request"])
def test_a_silent_connection_is_closed(service: Service, first: bytes) -> None:
    """Nothing is said: there is no request to answer."""
    with service.connect() as client:
        client.sendall(first)
        responses = read_all(client)

    assert statuses(responses) == [200] * bool(first)


@pytest.mark.parametrize("head", [POST + b"Content-Length: 50\r\n\r\n", CHUNKED], ids=["length", "chunks"])
def test_a_body_that_does_not_come_is_answered_408(service: Service, head: bytes) -> None:
    """The connection closes with the answer."""
    response = service.ask(head + b"2\r\nhi\r\n")

    assert [408] == statuses(response)
    assert b"connection: close" in response


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
def test_nobody_takes_an_answer_that_breaks_off_for_whole(
    service: Service, caplog: pytest.LogCaptureFixture, version: bytes
) -> None:
    """The last chunk is missing; if the body ends with the connection, the connection is reset."""
    received = bytearray()
    with service.connect() as client:
        client.sendall(b"GET /broken HTTP/%b\r\nHost: tenuto\r\n\r\n" % version)
        with pytest.raises(ConnectionResetError) if version == b"1.0" else contextlib.nullcontext():
            while piece := client.recv(MIB):
                received += piece

    assert not received.endswith(b"0\r\n\r\n")
    assert version == b"1.0" or received.endswith(b"\r\n\r\na\r\nhalf of it\r\n")
    assert "ASGI" not in caplog.text
    assert service.alive()


def test_an_answer_that_has_not_begun_does_not_break_off(service: Service) -> None:
    """The client can still be sent a complete error."""
    assert 200 == status(service.ask(LAST.replace(b"/last", b"/unbroken")))


@pytest.mark.measured
def test_clients_that_do_not_read_are_cut_off_and_hold_up_nobody(
    serve: Callable[[HttpLimits], Service],
) -> None:
    """A hundred slow readers of 64 MiB: others are answered, and all hundred are gone in time (P14)."""
    service = serve(HttpLimits(write_stall_s=1.5))
    readers = [service.connect() for _ in range(100)]
    for reader in readers:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    assert wait_for(lambda: len(service.paths) == 100)
    with within(50):
        for _ in range(50):
            assert service.alive()

    assert wait_for(lambda: service.open_connections() == 0)
    for reader in readers:
        reader.close()


def test_a_reader_that_is_slow_but_reads_gets_everything(service: Service) -> None:
    """It may take long in all, as long as it takes 64 KiB in the time allowed."""
    received_bytes = 0
    with service.connect() as client:
        client.sendall(b"GET /whole HTTP/1.0\r\n\r\n")
        while piece := client.recv(MIB // 2):
            received_bytes += len(piece)
            time.sleep(0.03)

    assert received_bytes > 32 * MIB


@pytest.mark.parametrize("path", [b"/whole", b"/fill"])
def test_a_closing_connection_waits_for_its_reader_no_longer_than_an_open_one(
    serve: Callable[[HttpLimits], Service], path: bytes
) -> None:
    """Also with a few KiB left, which are below the mark at which the transport asks us to pause."""
    service = serve(QUICK)
    with service.connect() as client:
        client.sendall(b"GET %b HTTP/1.0\r\n\r\n" % path)
        assert wait_for(lambda: service.unsent_bytes() > 0)
        assert wait_for(lambda: service.open_connections() == 0)
        with contextlib.suppress(ConnectionError):
            assert path == b"/fill" or len(read_all(client)) < 32 * MIB


def test_time_in_which_the_server_stood_still_is_not_counted(serve: Callable[[HttpLimits], Service]) -> None:
    """A head that is half here when our own loop blocks for longer than heads may take is not late."""
    service = serve(HttpLimits(head_s=1.8))
    with service.connect() as client:
        client.sendall(LAST[:-2])
        service.ask(b"GET /block HTTP/1.0\r\n\r\n")
        client.sendall(LAST[-2:])
        response = read_all(client)

    assert statuses(response) == [200]


# Answers to bodies that nobody read.


def test_an_early_answer_is_read_by_a_client_that_sends_on(service: Service) -> None:
    """A 401 closes the connection, but not before the client had its chance to read it."""
    with service.connect() as client:
        client.sendall(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r\n")
        assert service.started.wait(HANG_S)
        client.sendall(b"x" * 2_000_000)
        response = read_all(client)

    assert [401] == statuses(response)
    assert b"connection: close" in response


@pytest.mark.parametrize("path", [b"/early", b"/echo"])
def test_an_endless_body_is_not_read_for_ever(service: Service, path: bytes) -> None:
    """Unread or over its limit: thrown away for a while, then cut off; the answer was sent."""
    with service.connect() as client:
        client.sendall(b"POST %b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" % path)
        sent_bytes = send_until_closed(client, b"10000\r\n" + b"x" * 65536 + b"\r\n", 64 * MIB)
        response = b""
        with contextlib.suppress(ConnectionError):
            response = client.recv(65536)

    assert sent_bytes < service.limits.linger_bytes + 16 * MIB
    assert statuses(response) == [401 if path == b"/early" else 413]


def test_few_clients_at_once_may_send_much_that_nobody_reads(serve: Callable[[HttpLimits], Service]) -> None:
    """Beyond `linger_bytes` each needs a place, which is free again when its client has gone (P14)."""
    service = serve(HttpLimits(linger_bytes=MIB, discards=1))
    head = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (1 << 30)
    with service.connect() as first:
        first.sendall(head)
        first.sendall(b"x" * (24 * MIB))
        with service.connect() as second:
            second.sendall(head)
            sent_bytes = send_until_closed(second, b"x" * 65536, 64 * MIB)
        first.sendall(b"x" * MIB)
        held = first.recv(65536)
    assert wait_for(lambda: service.open_connections() == 0)
    with service.connect() as third:
        third.sendall(head)
        third.sendall(b"x" * (24 * MIB))
        again = third.recv(65536)

    assert sent_bytes < 18 * MIB
    assert [[401], [401]] == [statuses(held), statuses(again)]


def test_a_stranger_may_not_send_for_ever(serve: Callable[[HttpLimits], Service]) -> None:
    """A place ends at its own limit too: no key, no more than `stranger_discard_bytes` (P15)."""
    service = serve(HttpLimits(linger_bytes=MIB, stranger_discard_bytes=8 * MIB))
    with service.connect() as client:
        client.sendall(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (1 << 30))
        sent_bytes = send_until_closed(client, b"x" * 65536, 128 * MIB)

    assert sent_bytes < (8 + 16) * MIB


def test_a_client_that_waits_after_an_early_answer_is_closed(service: Service) -> None:
    """It sends nothing more and does not close either."""
    with service.connect() as client:
        client.sendall(b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n")
        response = read_all(client)

        assert statuses(response) == [401]
        assert wait_for(lambda: service.open_connections() == 0)


@pytest.mark.parametrize("expect", [b"", b"Expect: 100-continue\r\n"])
def test_a_body_over_the_limit_by_its_length_is_refused_at_once(service: Service, expect: bytes) -> None:
    """413 before a byte of it was sent, and no `100 Continue`."""
    response = service.ask(POST + expect + b"Content-Length: 1048577\r\n\r\n")

    assert [413] == statuses(response)


def test_continue_is_said_only_to_a_request_that_will_be_read(service: Service) -> None:
    """Authentication before the body (P15): a 401 comes without `100 Continue`."""
    expect = b" HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n"
    refused = service.ask(b"POST /early" + expect)
    with service.connect() as client:
        client.sendall(b"POST /echo" + expect)
        interim = client.recv(65536)
        client.sendall(b"hi")
        answer = read_all(client)

    assert [401] == statuses(refused)
    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.endswith(b'["/echo", "hi"]')


# Clients that leave.


@pytest.mark.parametrize("head", [POST + b"Content-Length: 50\r\n\r\n", CHUNKED], ids=["length", "chunks"])
@pytest.mark.parametrize("way", ["close", "half close", "reset"])
def test_a_body_that_breaks_off_is_an_abort(service: Service, head: bytes, way: str) -> None:
    """FIN, half a FIN or RST before the last byte: the application hears of it, and no answer is sent."""
    response = b""
    with service.connect() as client:
        client.sendall(head + b"2\r\nhi\r\n")
        assert service.started.wait(HANG_S)
        if way == "half close":
            client.shutdown(socket.SHUT_WR)
            response = read_all(client)
        elif way == "reset":
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    assert service.gone.wait(HANG_S)
    assert response == b""


def test_a_client_that_closed_its_half_is_answered(service: Service) -> None:
    """It asked everything it wanted to; also when the answer takes a while."""
    service.release.clear()
    with service.connect() as client:
        client.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        assert service.started.wait(HANG_S)
        service.release.set()
        response = read_all(client)

    assert [200] == statuses(response)


def test_every_waiting_exchange_hears_that_its_client_left(service: Service) -> None:
    """Also one with another request behind it in the pipeline."""
    with service.connect() as client:
        client.sendall(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
        assert service.started.wait(HANG_S)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    assert service.gone.wait(HANG_S)


# Responses.


def test_the_head_of_a_stream_does_not_wait_for_its_body(service: Service) -> None:
    """A client of a stream learns the status at once."""
    with service.connect() as client:
        client.sendall(b"GET /pausing HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        head = client.recv(65536)
        service.release.set()
        body = read_all(client)

    assert head.endswith(b"\r\n\r\n")
    assert body == b'["/pausing", ""]'


def test_head_is_answered_without_a_body(service: Service) -> None:
    """And the next answer follows where it should."""
    unread = service.ask(b"HEAD /early HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
    responses = service.ask(b"HEAD" + GET[3:] + LAST)

    assert [401] == statuses(unread)

    assert statuses(responses) == [200, 200]
    assert responses.count(b"\r\n\r\n") == 2
    assert responses.endswith(b'["/last", ""]')


# Old clients, failures, limits of the whole.


def test_http_1_0_gets_a_stream_without_chunks(service: Service) -> None:
    """Its end is the end of the connection; no Host is needed; no interim answer is sent."""
    head, _, body = service.ask(b"GET /stream HTTP/1.0\r\n\r\n").partition(b"\r\n\r\n")

    request = b"POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi"

    assert [200] == statuses(service.ask(request))
    assert b"transfer-encoding" not in head
    assert b"connection: close" in head
    assert body == b"x" * (2 * MIB)


def test_a_failing_application_tells_nothing_of_itself(service: Service) -> None:
    """500 in the contract's shape."""
    _, _, body = service.ask(b"GET /boom HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").partition(
        b"\r\n\r\n"
    )

    assert json.loads(body)["error"]["code"] == "internal_error"
    assert b"secret" not in body


def test_connections_beyond_the_limit_are_told_so(serve: Callable[[HttpLimits], Service]) -> None:
    """503 with Retry-After and closed; open ones are served, room that is made is used (P14)."""
    service = serve(HttpLimits(connections=5, linger_s=0.6))
    clients = [service.connect() for _ in range(5)]
    for client in clients:
        client.sendall(GET)
        assert client.recv(65536)
    refused = service.ask(GET)
    clients[0].sendall(GET)
    served = clients[0].recv(65536)
    for client in clients:
        client.close()
    assert wait_for(lambda: service.open_connections() == 0)

    assert ([503], [200]) == (statuses(refused), statuses(served))
    assert b"retry-after: 2\r\n" in refused
    assert service.alive()


# Stopping.


def test_requests_under_way_are_finished_before_the_end(serve: Callable[[HttpLimits], Service]) -> None:
    """Idle connections close at once, nobody new gets in, the held request gets its answer."""
    service = serve(QUICK)
    with service.connect() as idle, service.connect() as held:
        idle.sendall(GET)
        idle.recv(65536)
        held.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        assert wait_for(lambda: "/held" in service.paths)
        address = service.server.addresses[0]
        service.server.should_exit = True
        assert idle.recv(65536) == b""
        with pytest.raises(ConnectionError):
            socket.create_connection(address)
        service.release.set()
        response = read_all(held)

    assert [200] == statuses(response)
    assert b"connection: close" in response


def test_a_request_that_outlasts_the_grace_is_told_to_come_again(
    serve: Callable[[HttpLimits], Service],
) -> None:
    """503, not 500, and the server ends."""
    service = serve(QUICK)
    with service.connect() as held:
        held.sendall(b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
        assert service.started.wait(HANG_S)
        service.server.should_exit = True
        response = read_all(held)

    assert [503] == statuses(response)


def test_an_address_in_use_is_an_error_of_the_caller(service: Service) -> None:
    """Told with what would help, and no exit from inside."""
    port = service.server.addresses[0][1]

    with pytest.raises(OperatorError, match=r"in use.*choose another"):
        make_server(service.app, request_id=lambda: "req_1", port=port)
