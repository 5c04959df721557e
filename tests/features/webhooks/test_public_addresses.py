"""Where messages may go when the operator allows the public internet alone."""

import contextlib
import socket
import threading
from typing import Any

import pytest

from servers.speed import HANG_S, within
from tenuto.features.webhooks import public_addresses, rules, sending

PRIVATE = (
    *("127.0.0.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1"),
    *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1", "::ffff:127.0.0.1"),
    *("64:ff9b::7f00:1", "2002:7f00:1::", "fe80::1%eth0", "fec0::1", "64:ff9b:1::a00:1"),
    *(
        "::ffff:0:10.0.0.1",
        "::10.0.0.1",
        "192.0.0.192",
        "3fff::1",
        "5f00::1",
        "100::1",
        "2001:db8::1",
        "2001:2::1",
    ),
    *("4000::1", "192.88.99.1", "198.18.0.1", "203.0.113.1", "240.0.0.1", "2002:a00:1::", "64:ff9b::a00:1"),
)


@pytest.mark.parametrize("address", PRIVATE)
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


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "a.localhost", "printer", "2130706433", "0x7f.1", "127.1", "127.0.0.1", "[::1]"),
        *(
            "a.local",
            "a.localhost.",
            "0177.0.0.1",
            "0x7f000001",
            "1.1.1.0x7f",
            "127.0.0.1.",
            "a.127",
            "a.home.arpa",
        ),
        *(
            "%31%32%37.0.0.1",
            "a%2eb.example",
            "127.0.0.1%00.a.example",
            "a.example%20",
            ".com",
            "a..example",
            ".",
        ),
        *(
            "a.example..",
            "-a.example",
            "a-.example",
            f"{'a' * 64}.example",
            f"{'a.' * 127}example",
            "a!b.example",
        ),
        *(
            "[3fff::1]",
            "[5f00::1]",
            "[fe80::1%25eth0]",
            "[2606:4700::1111%25eth0]",
            "[::ffff:10.0.0.1]",
            "[v1.a]",
        ),
    ],
)
def test_a_private_host_is_refused_when_it_is_named(host: str) -> None:
    """In every spelling that a resolver would take for one; http is refused, too."""
    assert rules.url_fault(f"https://{host}/", is_public=True) is not None
    assert rules.url_fault("http://a.example/", is_public=True) is not None
    for name in (
        "a.example",
        "xn--bcher-kva.example",
        "a_b.example.",
        "8.8.8.8",
        "[2606:4700::1111]",
        "a.example:8",
    ):
        assert rules.url_fault(f"https://{name}/", is_public=True) is None, name


def test_a_name_that_leads_to_a_private_address_is_not_connected_to() -> None:
    """The look-up decides, and nobody is connected to: what a name means may change after it was accepted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        url = f"https://localhost:{server.getsockname()[1]}/"
        answer = sending.send(url, {}, b"{}", is_public=True, now_s=0)
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
    first = sending.send("https://a.example/", {}, b"{}", is_public=True, now_s=0)
    second = sending.send("https://a.example/", {}, b"{}", is_public=True, now_s=0)

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
        answer = sending.send("https://a.example/", {}, b"{}", is_public=True, now_s=0)
        assert answer.error == "the name does not resolve to a server on the public internet"

    assert [] == connected


def test_an_answer_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep a message on its way for longer than it may be."""
    monkeypatch.setattr(sending, "TIMEOUT_S", 1.0)
    done = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            try:
                while not done.wait(0.1):
                    connection.sendall(b"H")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        answer = sending.send(url, {}, b"{}", is_public=False, now_s=0)
        done.set()
        thread.join()

    assert answer.status is None
    assert answer.error


@pytest.mark.measured
def test_addresses_that_do_not_answer_share_one_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with several such addresses keeps a message on its way no longer than one."""
    monkeypatch.setattr(sending, "TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server, contextlib.ExitStack() as stack:
        # Whoever comes behind a full backlog is not answered.
        for _ in range(2):
            stack.enter_context(socket.create_connection(server.getsockname()))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", server.getsockname())] * 4
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        monkeypatch.setattr(sending, "CONNECT_S", 0.9)
        with within(2):
            answer = sending.send("http://a.example/", {}, b"{}", is_public=False, now_s=0)

    assert "no answer in time" == answer.error


def test_pauses_follow_the_specification_and_what_is_asked_for() -> None:
    """Nine pauses, over three days; a longer Retry-After holds, for a day at most."""
    pauses = [rules.pause_ms(number, None) for number in range(1, 11)]

    assert [*rules.PAUSES_MS, None] == pauses
    assert sum(rules.PAUSES_MS) >= 72 * rules.HOUR_MS
    assert (60_000, rules.LONGEST_PAUSE_MS) == (rules.pause_ms(1, 60), rules.pause_ms(1, 1e9))


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nConnection: close\r\n", b"HTTP/1.0 500 no\r\n"])
def test_an_answer_that_says_that_it_closes_is_cut_off_too(
    head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """http.client forgets the socket of such an answer; a byte now and then must not keep a sender (P14)."""
    monkeypatch.setattr(sending, "TIMEOUT_S", 0.5)
    done = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(head + b"Content-Length: 10000\r\n\r\n")
            while not done.wait(0.2):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, args=(server,), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        sender = threading.Thread(
            target=lambda: sending.send(url, {}, b"{}", is_public=False, now_s=0), daemon=True
        )
        sender.start()
        sender.join(HANG_S)
        is_stuck = sender.is_alive()
        done.set()
        sender.join(HANG_S)

    assert not is_stuck


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

    def pour(server: socket.socket) -> None:
        nonlocal sent_bytes
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(head)
            while sent_bytes < 64 << 20:
                connection.sendall(piece)
                sent_bytes += len(piece)

    with socket.create_server(("127.0.0.1", 0)) as server:
        # A small one, so that what is sent is little more than what is read.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        thread = threading.Thread(target=pour, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        answer = sending.send(url, {}, b"{}", is_public=False, now_s=0)
        thread.join()

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

    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(b"".join(pieces))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer, args=(server,))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        got = sending.send(url, {}, b"{}", is_public=False, now_s=0)
        thread.join()

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
        connection = sending.Connection(is_public=False)
        statuses = [connection.send(url, {}, b"{}", now_s=0).status for _ in range(4)]
        connection.close()
        thread.join(30)

    assert [204] * 4 == statuses
    assert [] == heads
