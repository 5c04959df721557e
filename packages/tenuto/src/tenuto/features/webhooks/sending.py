"""One HTTP request to a server that a caller named: checked, bounded, and never redirected.

The address that was checked is the one connected to: a name that resolves differently a moment later (DNS
rebinding) gains nothing. Knows no database and no retries.
"""

import http.client
import io
import socket
import ssl
import threading
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, cast
from urllib.parse import urlsplit

from msgspec import Struct

from tenuto.features.webhooks.rules import is_public_address

TIMEOUT_S = 15.0
"""From looking up the name to reading the last byte."""
CONNECT_S = 5.0
MAX_ANSWER_BYTES = 16 * 1024
"""Of an answer, with its head; the rest is not read."""
MAX_RETRY_AFTER_S = 24 * 3600.0


class Answer(Struct, frozen=True):
    """The outcome of a request: a status, or why there was none."""

    status: int | None
    error: str | None = None
    retry_after_s: float | None = None


class _Refused(Exception):
    """Connecting to the address is not allowed."""


class _Beginning(io.RawIOBase):
    """What a server sends, as if it ended after `MAX_ANSWER_BYTES`: the place of a socket in http.client,
    whose own limits a chunk of a negative size, and any number of interim answers, would evade."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._left_bytes = MAX_ANSWER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        wanted_bytes = min(len(buffer), self._left_bytes)
        count = self._sock.recv_into(buffer, wanted_bytes) if wanted_bytes else 0
        self._left_bytes -= count
        return count

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)


def send(url: str, headers: dict[str, str], body: bytes, *, is_public: bool, now_s: float) -> Answer:
    """POST the body. Never raises for what the other side or the network does."""
    split = urlsplit(url)
    assert split.hostname is not None, "it was checked when it was accepted"
    port = split.port or (443 if split.scheme == "https" else 80)
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    connection = http.client.HTTPConnection(split.hostname, port, timeout=CONNECT_S)
    deadline = time.monotonic() + TIMEOUT_S
    sockets: list[socket.socket] = []
    timer = threading.Timer(TIMEOUT_S, _cut, (sockets,))
    timer.daemon = True
    timer.start()
    try:
        connection.sock = _connected(split.hostname, port, deadline, is_public=is_public)
        if split.scheme == "https":
            connection.sock.settimeout(min(CONNECT_S, _left_s(deadline)))
            connection.sock = _trust().wrap_socket(connection.sock, server_hostname=split.hostname)
        sockets.append(connection.sock)
        # From here on the timer finds the socket; had it fired before, this raises.
        connection.sock.settimeout(_left_s(deadline))
        connection.request("POST", path, body, headers | {"Host": split.netloc, "Connection": "close"})
        answer = http.client.HTTPResponse(cast(Any, _Beginning(connection.sock)), method="POST")
        answer.begin()
        with suppress(OSError, http.client.HTTPException):
            answer.read(MAX_ANSWER_BYTES)
        return Answer(answer.status, None, _retry_after_s(answer.getheader("Retry-After"), now_s))
    except _Refused:
        return Answer(None, "the name does not resolve to a server on the public internet")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(None, _why(error))
    finally:
        timer.cancel()
        connection.close()


@cache
def _trust() -> ssl.SSLContext:
    """Cached, as reading the certificates of all authorities takes 23 ms."""
    return ssl.create_default_context()


def _connected(host: str, port: int, deadline: float, *, is_public: bool) -> socket.socket:
    """A connection to the first address that answers. Raises TimeoutError and OSError.
    If one of them is not public, none is tried and _Refused is raised."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if is_public and not all(is_public_address(str(address[4][0])) for address in addresses):
        raise _Refused
    error: OSError | None = None
    for family, kind, protocol, _, address in addresses[:4]:
        timeout_s = min(CONNECT_S, _left_s(deadline))
        made = socket.socket(family, kind, protocol)
        try:
            made.settimeout(timeout_s)
            made.connect(address)
        except OSError as failed:
            made.close()
            error = failed
        else:
            return made
    raise error or OSError("the name has no address")


def _left_s(deadline: float) -> float:
    """Seconds until then on the monotonic clock. TimeoutError: none are left."""
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _cut(sockets: list[socket.socket]) -> None:
    """Time is up: make reads and writes in the other thread fail."""
    for sock in sockets:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _why(error: Exception) -> str:
    """A sentence without anything that the other side sent."""
    if isinstance(error, socket.gaierror):
        return "the name could not be looked up"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return "its certificate is not trusted"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS"
    if isinstance(error, ConnectionRefusedError):
        return "it refuses connections"
    return "the connection failed, or the answer is not HTTP"


def _retry_after_s(value: str | None, now_s: float) -> float | None:
    """Seconds that the other side asks for: a number or an HTTP date."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return min(float(text), MAX_RETRY_AFTER_S)
    try:
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - now_s, MAX_RETRY_AFTER_S))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
