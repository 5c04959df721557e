"""Whoever holds connections without a key keeps nobody out who has one, however often they are renewed."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from limits.conftest import SMALL, Refusals
from servers.callers import Operator
from servers.processes import until

MOST = int(SMALL["TENUTO_CONNECTIONS"])
RENEWED_S = 0.5
"""Before the service has seen them wait for a second."""
HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nX-A: "
BODY = b"POST /web/login HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nContent-Length: 1000\r\n"
BODY += b"Content-Type: application/json\r\n\r\n{"
UNREAD_LAST = (
    b"GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n"
    + b"GET /openapi.yaml HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
)
REFUSED = b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer none\r\n\r\n" * 8
FEW = [f"127.0.0.{number}" for number in (2, 3, 4)]
MANY = [f"127.0.1.{number}" for number in range(1, 2 * MOST)]
ATTACKS = {
    "unread last answers of three addresses": (UNREAD_LAST, FEW, MOST // 2),
    "refused keys of three addresses": (REFUSED, FEW, MOST // 2),
    "bodies of three addresses": (BODY, FEW, MOST // 2),
    "heads of many addresses": (HEAD, MANY, 1),
}
"""What each connection sends, from where, and how many connections each address holds."""


@contextmanager
def attack(port: int, sent: bytes, addresses: list[str], each: int) -> Iterator[None]:
    """Connections that are begun and never ended, and renewed all the time."""
    over = threading.Event()

    def hold() -> None:
        held = {address: list[tuple[socket.socket, float]]() for address in addresses}
        while not over.wait(0.02):
            for address, mine in held.items():
                while mine and time.monotonic() - mine[0][1] > RENEWED_S:
                    mine.pop(0)[0].close()
                if len(mine) < each and (link := _begun(port, sent, address)) is not None:
                    mine.append((link, time.monotonic()))
        for mine in held.values():
            for link, _ in mine:
                link.close()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _begun(port: int, sent: bytes, address: str) -> socket.socket | None:
    link = socket.socket()
    try:
        link.bind((address, 0))
        link.settimeout(2)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.connect(("127.0.0.1", port))
        link.sendall(sent)
    except OSError:
        link.close()
        return None
    return link


@pytest.mark.parametrize("name", ATTACKS)
def test_the_owner_of_a_key_is_answered(small: tuple[Operator, Refusals], name: str) -> None:
    """Each request over a new connection, while others hold all places and renew them (P14)."""
    operator, refusals = small
    caller = operator.caller()
    before = refusals.all()["connections"]
    assert 200 == _asked(operator.service.port, caller.key)
    sent, addresses, each = ATTACKS[name]
    with attack(operator.service.port, sent, addresses, each):
        until(lambda: refusals.all()["connections"] > before, 60, "all places are taken")
        seen = [_asked(operator.service.port, caller.key) for _ in range(40)]

    assert [200] * 40 == seen


def _asked(port: int, key: str) -> int | str:
    """The status of a request over a connection of its own."""
    head = f"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
            link.sendall(head.encode())
            return int(link.makefile("rb").readline().split()[1])
    except (OSError, IndexError) as error:
        return type(error).__name__
