"""Where messages may go when the operator allows the public internet alone."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from servers.speed import HANG_S, within
from tenuto.features.webhooks import http_post, public_addresses, rules

PRIVATE = """127.0.0.1 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 0.0.0.0 100.64.0.1 224.0.0.1
    255.255.255.255 192.0.0.192 192.88.99.1 198.18.0.1 203.0.113.1 240.0.0.1
    ::1 :: fe80::1 fc00::1 ff02::1 fe80::1%eth0 fec0::1 3fff::1 5f00::1 100::1 2001:db8::1 2001:2::1 4000::1
    ::ffff:127.0.0.1 ::ffff:0:10.0.0.1 ::10.0.0.1 64:ff9b::7f00:1 64:ff9b:1::a00:1 64:ff9b::a00:1
    2002:7f00:1:: 2002:a00:1::"""
PRIVATE_HOSTS = f"""localhost a.localhost a.localhost. printer a.local a.home.arpa a.127
    2130706433 0x7f.1 0x7f000001 127.1 127.0.0.1 127.0.0.1. 0177.0.0.1 1.1.1.0x7f
    %31%32%37.0.0.1 a%2eb.example 127.0.0.1%00.a.example a.example%20
    .com a..example . a.example.. -a.example a-.example a!b.example {"a" * 64}.example {"a." * 127}example
    [::1] [3fff::1] [5f00::1] [fe80::1%25eth0] [2606:4700::1111%25eth0] [::ffff:10.0.0.1] [v1.a]"""
PUBLIC_HOSTS = "a.example xn--bcher-kva.example a_b.example. 8.8.8.8 [2606:4700::1111] a.example:8"


@contextlib.contextmanager
def serving(serve: Callable[[socket.socket], None], buffer_bytes: int | None = None) -> Iterator[str]:
    """The URL of a server that does this with the one connection that it accepts."""

    def accept(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            serve(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        if buffer_bytes is not None:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        thread = threading.Thread(target=accept, args=(server,))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        thread.join()


def sent(url: str, *, is_public: bool = False) -> http_post.Answer:
    return http_post.send(url, {}, b"{}", is_public=is_public, now_s=0)


@pytest.mark.parametrize("address", PRIVATE.split())
def test_an_address_of_a_private_network_is_not_public(address: str) -> None:
    """Also one inside another: mapped, translated (NAT64) and tunnelled (6to4) ones."""
    assert not public_addresses.is_public_address(address)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[fe80::1%25eth0]", "printer", "a.local", "127.1", "a_b"]
)
def test_where_every_server_is_allowed_a_host_is_an_address_or_a_name(host: str) -> None:
    """What is neither is refused there, too."""
    assert rules.url_fault(f"http://{host}:8080/", is_public=False) is None
    for wrong in ("%31%32%37.0.0.1", ".com", "a..b", "a%00", "[1]"):
        assert rules.url_fault(f"http://{wrong}/", is_public=False) is not None, wrong


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    """Those are where messages go."""
    assert public_addresses.is_public_address(address)


@pytest.mark.parametrize("host", PRIVATE_HOSTS.split())
def test_a_private_host_is_refused_when_it_is_named(host: str) -> None:
    """In every spelling that a resolver would take for one; http is refused, too."""
    assert rules.url_fault(f"https://{host}/", is_public=True) is not None
    assert rules.url_fault("http://a.example/", is_public=True) is not None
    for name in PUBLIC_HOSTS.split():
        assert rules.url_fault(f"https://{name}/", is_public=True) is None, name


def test_a_name_that_leads_to_a_private_address_is_not_connected_to() -> None:
    """The look-up decides, and nobody is connected to: what a name means may change after it was accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        url = f"https://localhost:{server.getsockname()[1]}/"
        answer = sent(url, is_public=True)
        with pytest.raises(TimeoutError):
            server.accept()

    assert (None, "the name does not resolve to a server on the public internet") == (
        answer.status,
        answer.error,
    )


def test_a_name_that_changes_its_meaning_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: public when it is judged, private a moment later. The judged address is connected to."""
    looked_up: list[str] = []
    connected: list[str] = []

    def answer(host: str, port: int, **_: object) -> list[Any]:
        looked_up.append(host)
        address = "8.8.8.8" if len(looked_up) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    class Line(socket.socket):
        def connect(self, address: Any) -> None:
            connected.append(address[0])
            raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    monkeypatch.setattr(socket, "socket", Line)
    first = sent("https://a.example/", is_public=True)
    second = sent("https://a.example/", is_public=True)

    assert ["a.example", "a.example"] == looked_up
    assert ["8.8.8.8"] == connected
    assert first.error == "it refuses connections"
    assert second.error == "the name does not resolve to a server on the public internet"


def test_a_name_with_one_private_address_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A public address beside it does not help, whichever comes first."""
    connected: list[str] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: connected.append(address))
    for addresses in (("8.8.8.8", "10.0.0.1"), ("10.0.0.1", "8.8.8.8")):
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 443)) for address in addresses]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        answer = sent("https://a.example/", is_public=True)
        assert answer.error == "the name does not resolve to a server on the public internet"

    assert [] == connected


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 10000\r\n\r\n",
        b"HTTP/1.0 500 no\r\nContent-Length: 10000\r\n\r\n",
    ],
)
def test_an_answer_that_never_ends_is_cut_off(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then keeps no sender, also where http.client forgets the socket of an answer (P14)."""
    monkeypatch.setattr(http_post, "TIMEOUT_S", 0.5)
    done = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(head)
        while not done.wait(0.1):
            connection.sendall(b"H")

    with serving(drip) as url, ThreadPoolExecutor(1) as thread:
        sending_it = thread.submit(sent, url)
        try:
            answer = sending_it.result(HANG_S)
        finally:
            done.set()

    assert head or (answer.status is None and answer.error)


@pytest.mark.measured
def test_addresses_that_do_not_answer_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with several such addresses keeps a message on its way no longer than one."""
    monkeypatch.setattr(http_post, "TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server, contextlib.ExitStack() as stack:
        # Whoever comes behind a full backlog is not answered.
        for _ in range(2):
            stack.enter_context(socket.create_connection(server.getsockname()))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", server.getsockname())] * 4
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(http_post, "CONNECT_S", 0.9)
        with within(2):
            answer = sent("http://a.example/")

    assert "no answer in time" == answer.error


def test_pauses_follow_the_specification_and_what_is_asked_for() -> None:
    """Nine pauses, over three days; a longer Retry-After holds, for a day at most."""
    pauses = [rules.pause_ms(number, None) for number in range(1, 11)]

    assert [*rules.PAUSES_MS, None] == pauses
    assert sum(rules.PAUSES_MS) >= 72 * rules.HOUR_MS
    assert (60_000, rules.LONGEST_PAUSE_MS) == (rules.pause_ms(1, 60), rules.pause_ms(1, 1e9))


@pytest.mark.parametrize(
    ("head", "piece", "status"),
    [
        # To http.client, a chunk of a negative size is the rest of the connection.
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", b"x" * (1 << 16), 200),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 10_000, 200),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 2_500, None),
    ],
)
def test_no_more_of_an_answer_is_read_than_is_allowed(head: bytes, piece: bytes, status: int | None) -> None:
    """However the server frames it: what it sends must fill neither memory nor time of the sender (P14)."""
    sent_bytes = 0

    def pour(connection: socket.socket) -> None:
        nonlocal sent_bytes
        connection.recv(1 << 16)
        connection.sendall(head)
        while sent_bytes < 64 << 20:
            connection.sendall(piece)
            sent_bytes += len(piece)

    # A small buffer, so that what is sent is little more than what is read.
    with serving(pour, buffer_bytes=1 << 16) as url:
        answer = sent(url)

    assert status == answer.status
    assert sent_bytes < 16 << 20


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([b"HTTP/1.1 200 OK"], None),
        ([b"HTTP/1.1 200"], None),
        ([b"HTTP/1.1 200 OK\r\n"], None),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"], None),
        ([b"HTTP/1.1 200 OK\r\nContent-Le"], None),
        ([b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"], None),
        ([b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 50, b"c: " + b"d" * (16 << 10)], None),
        ([], None),
        ([b"HTTP/1.1 200 OK\r\n\r\n"], 200),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbro"], 200),
    ],
)
def test_an_answer_counts_once_its_head_is_whole(pieces: list[bytes], status: int | None) -> None:
    """One that breaks off before is a failure, and the message is sent again."""

    def answer(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(b"".join(pieces))

    with serving(answer) as url:
        got = sent(url)

    assert status == got.status
    assert (got.error is None) == (status is not None)


def test_a_connection_that_the_server_closed_costs_no_attempt() -> None:
    """It is kept for the next message; once the server closes it, silently or not, a new one is made."""
    heads: list[list[bytes]] = [[b""], [b"", b"Connection: close\r\n"], [b""]]

    def serve(server: socket.socket) -> None:
        while heads:
            connection, _ = server.accept()
            with connection:
                for head in heads.pop(0):
                    read = b""
                    while not read.endswith(b"{}"):
                        read += connection.recv(1 << 16)
                    connection.sendall(b"HTTP/1.1 204 No Content\r\n" + head + b"\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        connection = http_post.Connection(is_public=False)
        statuses = [connection.send(url, {}, b"{}", now_s=0).status for _ in range(4)]
        connection.close()
        thread.join(30)

    assert [204] * 4 == statuses
    assert [] == heads
