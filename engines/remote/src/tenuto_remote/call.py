"""Calls to an OpenAI-compatible server: one request, one answer of bounded size, and what a loss means.

A server that charges (`metered`) gets each request once. If it refuses before anything ran, the run fails; if
an answer is lost after the request was sent, or a later request of the run fails after one was charged, the
outcome is unknown. A server that does not charge is called again while it is unreachable or busy.
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
"""For name lookup, connection and TLS together; well below `host_grace_s`, within which a run must stop."""
BREAK_OFF_S = 1.0
"""A cancelled call finishes within this time, or its thread is abandoned."""
LOOK_S = 0.1
"""How often a waiting call checks for cancellation."""
TELL_S = 10.0
"""How often a waiting call reports progress: the service treats a silent engine as hung."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
BLOCK_BYTES = 1 << 18
MAX_REFUSAL_BYTES = 1 << 16

_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}\Z")
_AWAY = (429, 503)
"""The server did nothing and wants to be called later."""

Tell = Callable[[], None]


@dataclass(frozen=True)
class Answer:
    """A successful answer; its bytes are not checked."""

    media_type: str
    content: bytes


class Server:
    """The server of one model, as configured. Redirects are not followed and proxies not used."""

    def __init__(self, options: dict[str, Any]) -> None:
        address = urlsplit(options["upstream"]["url"])
        self.model = str(options["upstream"]["model"])
        self.metered = bool(options["metered"])
        self.timeout_s = int(options["timeout_s"])
        self.patience_s = int(options["patience_s"])
        # Removed from the environment, so that child processes do not get it.
        self._key = os.environ.pop(KEY_VARIABLE, None)
        self._host = str(address.hostname)
        self._port = address.port
        self._path = address.path.rstrip("/")
        self._tls = ssl.create_default_context() if address.scheme == "https" else None

    def connection(self) -> http.client.HTTPConnection:
        """A new connection, not yet open: calls take seconds, and an idle connection may be closed while in
        use."""
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_S, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_S)

    def headers(self, media_type: str, call_id: str) -> dict[str, str]:
        """The headers of a request; a server that supports idempotency keys charges for a call once."""
        headers = {"Content-Type": media_type, "Accept-Encoding": "identity", "Idempotency-Key": call_id}
        return headers if self._key is None else {**headers, "Authorization": f"Bearer {self._key}"}

    def path(self, name: str) -> str:
        """The path of one of its endpoints."""
        return f"{self._path}/{name}"


class Calls:
    """The calls of one run."""

    def __init__(self, server: Server, run: Run) -> None:
        self._server = server
        self._run = run
        self._made = 0
        """Calls that were answered. Each has its own id, or the server may treat it as a repetition."""

    def post_json(self, name: str, value: dict[str, Any], most_bytes: int, tell: Tell) -> Answer:
        """Send a JSON body and return the answer, which must not exceed `most_bytes`."""
        body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return self.post(name, body, "application/json", most_bytes, tell)

    def post(self, name: str, body: bytes, media_type: str, most_bytes: int, tell: Tell) -> Answer:
        """Send a body and return the answer. Raises EngineError, OutcomeUnknown or Cancelled unless it
        succeeds."""
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
        """The error if nothing was done for this request; a metered run may have made earlier, charged
        calls."""
        message = f"the model's server {what}"
        if self._server.metered and self._made:
            return OutcomeUnknown(f"{message}, after it was called {self._made} times")
        return EngineError("engine_failed", message, transient=transient)

    def declined(self, what: str) -> Exception:
        """Like `refused`, if the content of the request is at fault: the caller sees the status and the error
        code."""
        error = self.refused(what)
        return InputError(error.code, error.message) if isinstance(error, EngineError) else error

    def lost(self, what: str) -> Exception:
        """The error if the request was sent but its outcome is not known."""
        message = f"the model's server {what}"
        if self._server.metered:
            return OutcomeUnknown(message)
        return EngineError("engine_failed", message, transient=True)

    def unusable(self, what: str) -> Exception:
        """The error for an answer that is not a usable result; a retry would give the same."""
        message = f"the model's server gave {what}"
        if self._server.metered:
            return OutcomeUnknown(message)
        return EngineError("engine_failed", message)

    def _exchange(
        self, name: str, body: bytes, media_type: str, most_bytes: int, tell: Tell
    ) -> _Exchange | None:
        """One request and its answer; None if there was no connection, so that nothing was sent."""
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
        """Wait until an exchange is finished, or has failed to connect in time."""
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
        code = _code(exchange.content)
        what = f"refused with {status}" + (f" ({code})" if code else "")
        # For the operator, who sees the engine's last lines after a failure; callers never see them.
        sys.stderr.write(f"{what}\n")
        if status in (401, 403):
            return self.refused(f"{what}: it does not accept our key")
        if status in _AWAY and not (self._server.metered and status != 429):
            return self.refused("is busy")
        if status >= 500 or status == 408:
            return self.lost(f"failed with {status}")
        return self.declined(what)


class _Exchange:
    """One request in its own thread, from the name lookup to the last byte of the answer.

    A name lookup cannot be interrupted: its thread is abandoned, and sends nothing afterwards.
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
        # Held while deciding between sending and cancelling.
        self._deciding = threading.Lock()
        self._is_broken_off = False

    def start(self) -> None:
        threading.Thread(target=self._carry_out, name="upstream", daemon=True).start()

    def break_off(self) -> None:
        """Cancel it at any stage; the thread may outlive this call until its lookup finishes."""
        with self._deciding:
            self._is_broken_off = True
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
        if self.has_left:
            self.ended.wait(BREAK_OFF_S)

    def break_off_unsent(self) -> bool:
        """Cancel it unless its request was, or may have been, sent; returns whether it was cancelled."""
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
        """Whether there is a connection and the request is still wanted."""
        try:
            self._connection.connect()
        except ssl.SSLCertVerificationError:
            self.is_distrusted = True
            return False
        except (OSError, ValueError):
            # The second is raised for an invalid host name.
            return False
        with self._deciding:
            # Stored, because http.client forgets it when the server announces that it will close.
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
            # TLS raises the last one when it is closed in the middle of a read.
            self.fault = type(error).__name__

    def _read(self, response: http.client.HTTPResponse) -> None:
        most = self._most_bytes if self.status < 300 else MAX_REFUSAL_BYTES
        pieces, size = [], 0
        while size <= most and (piece := response.read(BLOCK_BYTES)):
            pieces.append(piece)
            size += len(piece)
        self.content = b"".join(pieces)
        self.is_too_long = size > most and self.status < 300
        # read(n) does not report a body that is shorter than announced.
        if not self.is_too_long and size <= most and response.length:
            self.fault = "IncompleteRead"


def parsed(content: bytes) -> Any:
    """The JSON in an answer. Raises ValueError for anything else, including NaN and infinities."""
    try:
        return json.loads(content, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("too deep") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _code(content: bytes) -> str:
    """The error code of a refusal, if it has one; its message is not passed on."""
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
