"""Calls of an OpenAI-compatible server: one request, one answer of bounded size, and what a loss means.

A server that charges (`metered`) gets each request once. What is refused before anything ran is a failure;
whatever is lost after a request has left is of unknown outcome, and so is what comes after a first part that
was charged. A server that does not charge is waited for while it is away or busy. Knows no kind of job.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tenuto_engine import EngineError, InputError, OutcomeUnknown, Run

KEY_VARIABLE = "UPSTREAM_KEY"
CONNECT_S = 3.0
"""For the name, the connection and TLS together; well below `host_grace_s`, in which a run must stop."""
BREAK_OFF_S = 1.0
"""A call that was broken off ends within this time, or its thread is left to end by itself."""
LOOK_S = 0.1
"""How often a waiting call looks whether it was asked to stop."""
TELL_S = 10.0
"""A call that waits says so this often: the service takes an engine that is silent for one that hangs."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
BLOCK_BYTES = 1 << 18
MAX_REFUSAL_BYTES = 1 << 16

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_AWAY = (429, 503)
"""Answers of a server that did nothing and would rather be asked later."""

Tell = Callable[[], None]


@dataclass(frozen=True)
class Answer:
    """A server's success: its bytes, not looked at."""

    media_type: str
    content: bytes


class Server:
    """The server of one model, as the operator named it. Redirects are not followed, proxies not asked."""

    def __init__(self, options: dict[str, Any]) -> None:
        address = urlsplit(options["upstream"]["url"])
        self.model = str(options["upstream"]["model"])
        self.metered = bool(options["metered"])
        self.timeout_s = int(options["timeout_s"])
        self.patience_s = int(options["patience_s"])
        # Out of the environment: nothing that this process may start has any use for it.
        self._key = os.environ.pop(KEY_VARIABLE, None)
        self._host = str(address.hostname)
        self._port = address.port
        self._path = address.path.rstrip("/")
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    def connection(self) -> http.client.HTTPConnection:
        """A new one, not yet open: calls take seconds, and one that idled may be closed as it is used."""
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_S, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_S)

    def headers(self, media_type: str, call_id: str) -> dict[str, str]:
        """Of every request; a server that knows idempotency keys charges for a call once."""
        said = {"Content-Type": media_type, "Accept-Encoding": "identity", "Idempotency-Key": call_id}
        return said if self._key is None else {**said, "Authorization": f"Bearer {self._key}"}

    def path(self, name: str) -> str:
        """The path of one of its interfaces."""
        return f"{self._path}/{name}"


class Calls:
    """The calls of one run."""

    def __init__(self, server: Server, run: Run) -> None:
        self._server = server
        self._run = run
        self._made = 0
        """Calls that were answered. Each has a name of its own, or a server may take it for a repetition."""

    def post_json(self, name: str, value: dict[str, Any], most_bytes: int, tell: Tell) -> Answer:
        """Send a JSON body; gives the answer of at most so many bytes."""
        body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return self.post(name, body, "application/json", most_bytes, tell)

    def post(self, name: str, body: bytes, media_type: str, most_bytes: int, tell: Tell) -> Answer:
        """Send a body; raises EngineError, OutcomeUnknown or Cancelled for whatever is no success."""
        give_up_at = time.monotonic() + self._server.patience_s
        pause_s = FIRST_PAUSE_S
        while True:
            exchange = self._exchange(name, body, media_type, most_bytes, tell)
            if exchange is None or (exchange.status in _AWAY and not self._server.metered):
                wait_s = pause_s if exchange is None else max(pause_s, exchange.retry_after_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                if time.monotonic() + wait_s > give_up_at:
                    raise self.refused("does not answer" if exchange is None else "is busy", transient=True)
                self._wait(wait_s, tell)
                continue
            if 200 <= exchange.status < 300:
                self._made += 1
                return Answer(exchange.media_type, exchange.content)
            raise self._refusal(exchange)

    def refused(self, what: str, *, transient: bool = False) -> Exception:
        """Nothing was done for this request; of a metered run it may be a later part that was refused."""
        message = f"the model's server {what}"
        if self._server.metered and self._made:
            return OutcomeUnknown(f"{message}, after it was called {self._made} times")
        return EngineError("engine_failed", message, transient=transient)

    def declined(self, what: str) -> Exception:
        """As `refused`, for what the request holds: its caller reads the status and the refusal's name."""
        error = self.refused(what)
        return InputError(error.code, error.message) if isinstance(error, EngineError) else error

    def lost(self, what: str) -> Exception:
        """The request has left, and what became of it is not known."""
        message = f"the model's server {what}"
        if self._server.metered:
            return OutcomeUnknown(message)
        return EngineError("engine_failed", message, transient=True)

    def unusable(self, what: str) -> Exception:
        """The server answered, and what it gave is no result: a second try would give the same."""
        message = f"the model's server gave {what}"
        if self._server.metered:
            return OutcomeUnknown(message)
        return EngineError("engine_failed", message)

    def _exchange(
        self, name: str, body: bytes, media_type: str, most_bytes: int, tell: Tell
    ) -> _Exchange | None:
        """One request and its answer; None when there was no connection, so that nothing was sent."""
        headers = self._server.headers(media_type, f"{self._run.run_id}-{self._made}")
        asked = (self._server.path(name), body, headers)
        exchange = _Exchange(self._server.connection(), asked, most_bytes)
        exchange.start()
        try:
            self._follow(exchange, tell)
        finally:
            exchange.break_off()
        if exchange.is_distrusted:
            raise self.refused("has a certificate that is not to be trusted")
        if not exchange.has_left:
            return None
        if exchange.is_too_long:
            raise self.unusable(f"more than {most_bytes} bytes")
        if exchange.fault is not None:
            raise self.lost(f"broke off its answer ({exchange.fault})")
        return exchange

    def _follow(self, exchange: _Exchange, tell: Tell) -> None:
        """Wait for the end of an exchange, or until it has not connected in time."""
        began = told = time.monotonic()
        while not exchange.ended.wait(LOOK_S):
            self._run.check_cancelled()
            now = time.monotonic()
            if now - began > min(CONNECT_S, self._server.timeout_s) and exchange.break_off_unsent():
                return
            if now - began > self._server.timeout_s:
                raise self.lost(f"did not answer in {self._server.timeout_s} s")
            if now - told > TELL_S:
                told = now
                tell()

    def _wait(self, seconds: float, tell: Tell) -> None:
        until = time.monotonic() + seconds
        tell()
        while (left := until - time.monotonic()) > 0:
            self._run.check_cancelled()
            time.sleep(min(LOOK_S, left))

    def _refusal(self, exchange: _Exchange) -> Exception:
        status = exchange.status
        said = _code(exchange.content)
        what = f"refused with {status}" + (f" ({said})" if said else "")
        # For the operator, who sees the engine's last lines where it fails; its words never reach callers.
        sys.stderr.write(f"{what}\n")
        if status in (401, 403):
            return self.refused(f"{what}: it does not take our key")
        if status in _AWAY and not (self._server.metered and status != 429):
            return self.refused("is busy")
        if status >= 500 or status == 408:
            return self.lost(f"failed with {status}")
        return self.declined(what)


class _Exchange:
    """One request in a thread of its own, from the name's lookup to the answer's last byte.

    Nothing can interrupt a lookup: a thread that is in one is left behind, and sends nothing afterwards.
    """

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        asked: tuple[str, bytes, dict[str, str]],
        most_bytes: int,
    ) -> None:
        self.status = 0
        self.media_type = ""
        self.content = b""
        self.retry_after_s = 0.0
        self.is_too_long = False
        self.is_distrusted = False
        self.fault: str | None = None
        # Set before the first byte of the request is sent, never after `_is_broken_off`.
        self.has_left = False
        self.ended = threading.Event()
        self._connection = connection
        self._socket: socket.socket | None = None
        self._asked = asked
        self._most_bytes = most_bytes
        # Held by whoever decides between sending and breaking off.
        self._deciding = threading.Lock()
        self._is_broken_off = False

    def start(self) -> None:
        threading.Thread(target=self._carry_out, name="upstream", daemon=True).start()

    def break_off(self) -> None:
        """End it, whatever it is at; the thread may outlive this call by the end of a lookup."""
        with self._deciding:
            self._is_broken_off = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        if self.has_left:
            self.ended.wait(BREAK_OFF_S)

    def break_off_unsent(self) -> bool:
        """End it unless its request has left, or may have; whether it was ended."""
        with self._deciding:
            self._is_broken_off = self._is_broken_off or not self.has_left
            return self._is_broken_off

    def _carry_out(self) -> None:
        try:
            if self._connect():
                self._ask()
        finally:
            self._connection.close()
            self.ended.set()

    def _connect(self) -> bool:
        """Whether there is a connection, and somebody still wants the request to be sent."""
        try:
            self._connection.connect()
        except ssl.SSLCertVerificationError:
            self.is_distrusted = True
            return False
        except (OSError, ValueError):
            # The second is a name that cannot be one.
            return False
        with self._deciding:
            # Kept, as http.client forgets it when the server says that it will close.
            self._socket = self._connection.sock
            self._socket.settimeout(None)
            self.has_left = not self._is_broken_off
            return self.has_left

    def _ask(self) -> None:
        path, body, headers = self._asked
        try:
            self._connection.request("POST", path, body, headers)
            response = self._connection.getresponse()
            self.status = response.status
            self.media_type = response.headers.get_content_type()
            self.retry_after_s = _seconds(response.headers.get("Retry-After"))
            self._read(response)
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # The last is what TLS raises when it is broken off in the middle of a read.
            self.fault = type(error).__name__

    def _read(self, response: http.client.HTTPResponse) -> None:
        most = self._most_bytes if self.status < 300 else MAX_REFUSAL_BYTES
        pieces, size = [], 0
        while size <= most and (piece := response.read(BLOCK_BYTES)):
            pieces.append(piece)
            size += len(piece)
        self.content = b"".join(pieces)
        self.is_too_long = size > most and self.status < 300
        # read(n) says nothing of a body that ends before its length.
        if not self.is_too_long and size <= most and response.length:
            self.fault = "IncompleteRead"


def parsed(content: bytes) -> Any:
    """The JSON in an answer; ValueError for anything else, NaN and infinities among it."""
    try:
        return json.loads(content, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("too deep") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _code(content: bytes) -> str:
    """The name that a refusal gives itself, where it is one; its message is not ours to repeat."""
    try:
        error = parsed(content)["error"]
        code = error.get("code") or error.get("type") or ""
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""
    return code if isinstance(code, str) and _CODE.match(code) else ""


def _seconds(retry_after: str | None) -> float:
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 6):
        return 0.0
    return float(retry_after)
