"""A POST to a server that a caller named: checked, bounded, and never redirected.

The address that was checked is the one connected to: a name that resolves differently a moment later (DNS
rebinding) gains nothing. Knows no database and no retries.
"""

import http.client
import io
import select
import socket
import ssl
import time
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from tenuto.features.webhooks.public_addresses import is_public_address

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

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class _Refused(Exception):
    """Connecting to the address is not allowed."""


class _Beginning(io.RawIOBase):
    """What a server sends until the deadline, as if it ended after `MAX_ANSWER_BYTES`: http.client's own
    limits are evaded by a chunk of a negative size, by any number of interim answers, and by a byte now and
    then."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline
        self._left_bytes = MAX_ANSWER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        wanted_bytes = min(len(buffer), self._left_bytes)
        if not wanted_bytes:
            return 0
        self._sock.settimeout(_left_s(self._deadline))
        count = self._sock.recv_into(buffer, wanted_bytes)
        self._left_bytes -= count
        return count


class _Lines(io.BufferedReader):
    """To http.client, the end of the stream ends a head as an empty line does; here it is an error."""

    _has_begun = False

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(size)
        if (line or self._has_begun) and not line.endswith(b"\n") and len(line) != size:
            raise http.client.IncompleteRead(line)
        self._has_begun = True
        return line


class _Line:
    """A message's use of a connection, until the deadline: the place of a socket in http.client."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def sendall(self, sent: bytes) -> None:
        rest = memoryview(sent)
        while rest:
            self._sock.settimeout(_left_s(self._deadline))
            rest = rest[self._sock.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return _Lines(_Beginning(self._sock, self._deadline))


class Connection:
    """A connection to the server of a URL, made for the first message and kept for those that follow.

    For one thread at a time. Whoever has it closes it soon, since its address was checked only once.
    """

    def __init__(self, *, is_public: bool) -> None:
        self._is_public = is_public
        self._url = ""
        self._sock: socket.socket | None = None

    def send(self, url: str, headers: dict[str, str], body: bytes, *, now_s: float) -> Answer:
        """POST the body. Never raises for what the other side or the network does."""
        deadline = time.monotonic() + TIMEOUT_S
        try:
            if self._is_usable(url):
                # The server may close it at any moment: then the message goes out on a new one.
                with suppress(ConnectionError, http.client.RemoteDisconnected, ssl.SSLEOFError):
                    return self._answer(urlsplit(url), headers, body, deadline, now_s)
            self.close()
            self._sock, self._url = self._connected(urlsplit(url), deadline), url
            return self._answer(urlsplit(url), headers, body, deadline, now_s)
        except _Refused:
            return Answer(None, "the name does not resolve to a server on the public internet")
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            return Answer(None, _why(error))

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _is_usable(self, url: str) -> bool:
        """Whether it leads there, and the server has neither closed it nor sent what nobody asked for."""
        if self._sock is None or self._url != url:
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)

    def _connected(self, url: SplitResult, deadline: float) -> socket.socket:
        assert url.hostname is not None, "it was checked when it was accepted"
        port = url.port or (443 if url.scheme == "https" else 80)
        sock = _connected(url.hostname, port, deadline, is_public=self._is_public)
        if url.scheme != "https":
            return sock
        try:
            sock.settimeout(min(CONNECT_S, _left_s(deadline)))
            return _trust().wrap_socket(sock, server_hostname=url.hostname)
        except BaseException:
            sock.close()
            raise

    def _answer(
        self, url: SplitResult, headers: dict[str, str], body: bytes, deadline: float, now_s: float
    ) -> Answer:
        assert self._sock is not None
        line = cast(Any, _Line(self._sock, deadline))
        request = http.client.HTTPConnection("receiver.invalid")
        request.sock = line
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        request.request("POST", path, body, headers | {"Host": url.netloc})
        answer = http.client.HTTPResponse(line, method="POST")
        answer.begin()
        is_whole = False
        with suppress(OSError, http.client.HTTPException, ValueError):
            answer.read(MAX_ANSWER_BYTES)
            is_whole = answer.isclosed()
        if answer.will_close or not is_whole:
            self.close()
        return Answer(answer.status, None, _retry_after_s(answer.getheader("Retry-After"), now_s))


def send(url: str, headers: dict[str, str], body: bytes, *, is_public: bool, now_s: float) -> Answer:
    """POST the body on a connection of its own."""
    connection = Connection(is_public=is_public)
    try:
        return connection.send(url, headers, body, now_s=now_s)
    finally:
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
            # Head and body are sent in turn: the second would wait for the first one's acknowledgement.
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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
