"""One client's connection: uvicorn's, plus the limits that uvicorn does not set. Knows bytes, not routes.

What it adds: deadlines on heads and on clients that do not read; limits on heads, connections and pipelines;
an unambiguous interpretation of request length and host; answers while an unread body still arrives;
half-closed clients; refusals as JSON. Slow bodies are in `body_bytes.py`, the sweep of deadlines in
`server.py`.
"""

import asyncio
import logging
import socket
import struct
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import httptools
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from tenuto.api import errors
from tenuto.api.limits import HttpLimits
from tenuto.errors import MalformedHttp
from tenuto.features.http_guard.framing import FRAMING, LENGTHS, framing_fault
from tenuto.features.http_guard.shares import Connections, Lingering

OnRefusal = Callable[[str], None]
"""Called with the limit that a connection exceeded, because no route counts it."""
_OVERFLOW_CONNECTIONS = 64  # answered 503 beyond the limit; further ones are cut off

_log = logging.getLogger("tenuto.api.server")


class HeadWithBody:
    """The transport of one response: its headers are sent with the first piece of the body, as one packet.

    If no piece comes in this turn of the loop, they are sent alone: a stream's client sees them at once.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.head = b""
        self.has_started = False
        self.is_closing = transport.is_closing

    def write(self, content: bytes) -> None:
        """The first content is the head."""
        if not self.has_started:
            self.has_started = True
            self.head = content
            asyncio.get_running_loop().call_soon(self._flush)
        elif self.head and len(content) < 65536:
            head, self.head = self.head, b""
            self.transport.write(head + content)
        else:
            self._flush()
            self.transport.write(content)

    def close(self) -> None:
        """Closes once everything written has been sent."""
        self._flush()
        self.transport.close()

    def _flush(self) -> None:
        if self.head:
            head, self.head = self.head, b""
            self.transport.write(head)


class Exchange(RequestResponseCycle):
    """One request and its response, run by uvicorn; the end of the response is always unambiguous."""

    request_id: Callable[[], str]
    linger: Callable[[bool], None]
    until_close = False

    def send(self, message: ASGISendEvent) -> Coroutine[Any, Any, None]:
        """ASGI's send."""
        if self.response_started:
            if self.until_close:
                self.expected_content_length = len(cast(bytes, message.get("body", b"")))
            return RequestResponseCycle.send(self, message)
        if self.scope["method"] != "HEAD" and not isinstance(self.transport, HeadWithBody):
            self.transport = cast(asyncio.Transport, HeadWithBody(self.transport))
        if self.more_body:
            return self._answer_early(message)
        if self.scope["http_version"] == "1.0":
            # HTTP/1.0 has no chunks: without a length, the end of the connection is the end of the response.
            names = [name.lower() for name, _ in cast(Any, message).get("headers", ())]
            self.until_close = b"content-length" not in names
            self.chunked_encoding = False if self.until_close else None
        return RequestResponseCycle.send(self, message)

    async def _answer_early(self, message: ASGISendEvent) -> None:
        """Starts an answer to a request that was not read to its end; the connection closes after it."""
        self.keep_alive = False
        await RequestResponseCycle.send(self, message)
        # Closing over unread bytes would reset the connection and might lose the answer: linger instead.
        self.keep_alive = True
        self.on_response = partial(self.linger, "caller_is_known" in self.scope)

    async def send_500_response(self) -> None:
        """The answer when the application gave none: it failed, or was cancelled when the grace ended."""
        stopping = isinstance(sys.exc_info()[1], asyncio.CancelledError)
        status, error = errors.STOPPING if stopping else errors.FAILED
        request_id = self.request_id()
        _log.error("http.failed status=%d request_id=%s", status, request_id)
        await errors.error_answer(error, request_id, status).send(self.send, request_id)


class _Refused(Exception):
    """Raised through the parser, which then stops; the refusal itself is stored on the connection."""


class Connection(HttpToolsProtocol):
    """One client's connection. `sweep` does all that depends on time: twice a second, but less often while
    the client waits for us.
    """

    cycle: Any

    def __init__(
        self,
        *,
        limits: HttpLimits,
        lingering: Lingering,
        shares: Connections,
        with_deadline: "set[Connection]",
        request_id: Callable[[], str],
        on_refusal: OnRefusal,
        **uvicorn_parts: Any,
    ) -> None:
        super().__init__(**uvicorn_parts)
        self.limits = limits
        self.lingering_places = lingering
        self.shares = shares
        self.with_deadline = with_deadline  # checked by every sweep; clients of the others wait for us
        self.address: str | None = None
        self.gave_way = False
        self.request_id = request_id
        self.on_refusal = on_refusal
        self.active: Exchange | None = None  # being answered; `cycle` is the latest one received
        self.refusal: errors.Refusal | None = None
        self.head_open = False  # the first byte of a request has arrived, the end of its head has not
        self.unseen_bytes = 0  # since the parser last reported anything: perhaps an endless name or value
        self.target_bytes = 0
        self.deaf = False  # what still arrives is discarded
        self.lingering, self.is_known = False, False
        self.has_place = False  # may keep sending for longer
        self.lingered_s = 0.0
        self.discarded_bytes = self.swept_bytes = 0  # since we became deaf, and since the last sweep
        self.idle_limit_s = limits.head_s  # longer after the first request
        self.waited_s = 0.0  # for the client, since its last progress
        self.stalled_s = 0.0  # since `unsent_bytes` was noted
        self.unsent_bytes = -1
        self.half_closed = asyncio.Event()  # the client sends no more; whether it still reads is unknown

    # Called by the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.with_deadline.add(self)
        self.address = self.shares.enter(self.client)
        guests = cast(Any, self.connections)
        refusal, beyond = errors.CROWDED, self.shares.beyond_share(guests, self.address)
        if not beyond:
            refusal = errors.FULL
            beyond = self.shares.beyond_most(guests, len(self.connections), self.address)
        if beyond > _OVERFLOW_CONNECTIONS:
            self.on_refusal(str(refusal[1].limit))
            transport.abort()
        elif beyond:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self.pipeline.clear()
        self.with_deadline.discard(self)
        self.shares.leave(self.address, gave_way=self.gave_way)
        if self.has_place:
            self.has_place = False
            self.lingering_places.give_back(is_known=self.is_known)
        self._disconnect()  # uvicorn notifies only the latest exchange, not the one being answered
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.deaf:
            self._discard(data)
            return
        self.unseen_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._read_on_after_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(self.refusal or errors.MALFORMED)
        else:
            if self.unseen_bytes > self.limits.head_bytes:
                self._refuse(errors.LARGE_HEAD if self.head_open else errors.MALFORMED)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that half-closed after its whole request still gets its answer; any other is gone."""
        answering = self.cycle is not None and not self.cycle.response_complete and not self.lingering
        if not answering or self.cycle.more_body or self.head_open:
            return False
        self.cycle.keep_alive = False
        self.half_closed.set()
        return True

    def pause_writing(self) -> None:
        super().pause_writing()
        self.with_deadline.add(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unsent_bytes = -1

    # Called by the parser.

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_open = True
        self.target_bytes = 0
        self.waited_s = 0.0

    def on_url(self, url: bytes) -> None:
        self.url += url
        self.target_bytes += len(url)
        if self.target_bytes > self.limits.target_bytes:
            self._stop_parsing(errors.LONG_TARGET)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.head_open:
            return  # A trailer: it must not count for authentication or routing.
        if len(self.headers) >= self.limits.head_fields:
            self._stop_parsing(errors.LARGE_HEAD)
        name = name.lower()
        if name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        # Blanks around a value are not part of it: a retry through a proxy that strips them has the same key.
        # Framing headers are judged exactly as sent, because proxies may interpret them differently.
        self.headers.append((name, value if name in FRAMING else value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        if fault := self._head_fault(version):
            self._stop_parsing(fault)
        self.head_open = False
        self.unseen_bytes = 0
        waiting = self.cycle is not None and not self.cycle.response_complete
        if waiting and len(self.pipeline) >= self.limits.pipelined:
            self._stop_parsing(errors.MALFORMED)
        self._complete_scope(version)
        keep_alive = version == "1.1" and self.parser.should_keep_alive() and not self.parser.should_upgrade()
        self.cycle = exchange = Exchange(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version == "1.1",
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        exchange.request_id = self.request_id
        exchange.linger = self._linger
        if waiting:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))
        else:
            self._answer(exchange)

    def on_body(self, body: bytes) -> None:
        self.unseen_bytes = 0
        if self.cycle.more_body:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.unseen_bytes = 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """The next request may start, or we wait for one."""
        self.with_deadline.add(self)
        if not self._is_strangers():
            self.shares.note_known(self.address)
        self.server_state.total_requests += 1
        self.waited_s = 0.0
        self.idle_limit_s = self.limits.keep_alive_s
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._answer(self.pipeline.pop()[0])

    # Called by `shares.Connections`.

    def idle_s(self) -> float | None:
        """Seconds without a request in progress, as of the last sweep; None: one is in progress.

        A body that a stranger is still sending counts like a head, as does an answer that he does not read,
        even if the connection only waits for that to close.
        """
        if self.transport.is_closing():
            return self.waited_s if self._is_strangers() and not self.gave_way else None
        if self.cycle is None or self.cycle.response_complete:
            return self.waited_s
        return 0.0 if self._waits_for_stranger() else None

    def is_unproven(self) -> bool:
        """Whether its next whole head, or more of a stranger's request, is still to come."""
        is_closing = self.transport.is_closing()
        return is_closing or self.cycle is None or self.head_open or self._waits_for_stranger()

    def _is_strangers(self) -> bool:
        """Whether the request in progress, or the last one, came without a valid key."""
        return self.active is not None and "caller_is_known" not in self.active.scope

    def _waits_for_stranger(self) -> bool:
        active = self.active
        sends = active is not None and active.more_body and not active.response_started
        is_refused = active is not None and "is_refused" in active.scope
        return (sends or is_refused or self.flow.write_paused) and self._is_strangers()

    def give_way(self) -> None:
        """Closes an idle connection, which its client must expect at any time.

        Closing waits until everything written was read, and a stranger may never read it.
        """
        self.gave_way = True
        if self._is_strangers():
            self.transport.abort()
        else:
            self.transport.close()

    # Called by the sweep of deadlines.

    def sweep(self, elapsed_s: float) -> None:
        """Ends this connection if we have waited too long for the client."""
        cycle = self.cycle
        if self.flow.write_paused or self.transport.is_closing():
            self.with_deadline.add(self)
            self._sweep_unsent(elapsed_s)
            if self.transport.is_closing():
                return
        elif cycle is not None and not cycle.response_complete and not self.lingering:
            self.with_deadline.discard(self)  # Perhaps an open stream; there may be a thousand of those.
            return
        self.waited_s += elapsed_s
        if self.lingering:
            self._sweep_lingering(elapsed_s)
        elif self.cycle is None or self.cycle.response_complete:
            if self.head_open:
                if self.waited_s > self.limits.head_s:
                    self._refuse(errors.SLOW_HEAD)
            elif self.waited_s > self.idle_limit_s:
                self.transport.close()

    def _sweep_lingering(self, elapsed_s: float) -> None:
        self.lingered_s += elapsed_s
        is_silent = self.waited_s > self.limits.linger_s
        if is_silent or (self.lingered_s > self.limits.linger_s and not self._may_linger_on()):
            self.transport.close()
        else:
            self.swept_bytes = 0
            self.flow.resume_reading()

    def _sweep_unsent(self, elapsed_s: float) -> None:
        unsent_bytes = self.transport.get_write_buffer_size()
        self.stalled_s += elapsed_s
        if self.unsent_bytes < 0:
            self.unsent_bytes, self.stalled_s = unsent_bytes, 0.0
        elif self.stalled_s > self.limits.write_stall_s:
            if self.unsent_bytes - unsent_bytes < self.limits.write_stall_bytes:
                _log.info("http.client_cut_off unsent_bytes=%d", unsent_bytes)
                self.on_refusal("slow_reader")
                self.transport.abort()
            self.unsent_bytes = -1

    def _answer(self, exchange: Any) -> None:
        self.active = exchange
        self._start_asgi_task(exchange, self.app)

    def _head_fault(self, version: str) -> errors.Refusal | None:
        if self.unseen_bytes > self.limits.head_bytes:  # A lot came in one piece, perhaps with the body.
            size_bytes = self.target_bytes + sum([len(name) + len(value) + 4 for name, value in self.headers])
            if size_bytes > self.limits.head_bytes:
                return errors.LARGE_HEAD
        fault = framing_fault(version, self.headers)
        return None if fault is None else (400, MalformedHttp(fault))

    def _complete_scope(self, version: str) -> None:
        """As uvicorn does it, plus four entries of our own."""
        url = httptools.parse_url(self.url)
        raw_path = url.path or b"/"
        path = raw_path.decode("ascii")
        self.scope["method"] = self.parser.get_method().decode("ascii")
        self.scope["http_version"] = version
        self.scope["path"] = unquote(path) if "%" in path else path
        self.scope["raw_path"], self.scope["query_string"] = raw_path, url.query or b""
        cast(Any, self.scope).update(
            half_closed=self.half_closed,
            is_closing=self.transport.is_closing,
            leave=self.leave,
            break_off=self.break_off,
        )

    def _stop_parsing(self, refusal: errors.Refusal) -> None:
        self.refusal = refusal
        raise _Refused

    def _read_on_after_upgrade(self, rest: bytes) -> None:
        """Java's client offers h2c by default. We decline by answering, so its body is an ordinary one."""
        framing = [b"%b: %b\r\n" % field for field in self.headers if field[0] in LENGTHS]
        callbacks = SimpleNamespace(on_body=self.on_body, on_message_complete=self._complete_after_upgrade)
        self.parser = httptools.HttpRequestParser(callbacks)
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
        if rest:
            self.data_received(rest)

    def _complete_after_upgrade(self) -> None:
        self.on_message_complete()
        self.deaf = True  # This parser reports no heads: the connection closes after this request.

    def _refuse(self, refusal: errors.Refusal) -> None:
        """Ends the connection over what the client sent, with an answer if the client can attribute it."""
        self.deaf = True
        active, latest = self.active, self.cycle
        may_answer = active is None or active.response_complete
        if not may_answer and not latest.more_body:
            # The fault lies in what follows: the requests before it are answered, then the connection closes.
            latest.keep_alive = False
            return
        if not may_answer:
            # It lies in a body. For its reader, the client has gone; an answer already started is broken off.
            may_answer = active is not None and active is latest and not active.response_started
            self._disconnect()
        status, error = refusal
        if error.limit is not None:
            self.on_refusal(error.limit)
        request_id = self.request_id()
        _log.info("http.refused status=%d request_id=%s reason=%r", status, request_id, error.message)
        if may_answer:
            answer = errors.error_answer(error, request_id, status)
            head = [*self.server_state.default_headers, *answer.head(request_id), CLOSE_HEADER]
            lines = [b"%b: %b\r\n" % field for field in head]
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", answer.body]))
            self._linger(is_known=False)
        else:
            self.transport.close()

    def leave(self) -> None:
        """Ends the connection of a client that left, or that half-closed and may have left."""
        self._disconnect()
        self.transport.close()

    def break_off(self, scope: Any) -> bool:
        """Closes the connection in the middle of this request's response, so that the client sees that it is
        incomplete. Returns False if the response has not begun; an error can still be sent then.
        """
        exchange = self.active
        if exchange is None or exchange.scope is not scope:
            return True  # This response is complete, and the next request is being answered.
        if exchange.response_started and not exchange.response_complete:
            exchange.disconnected = True
            if exchange.until_close:
                # An orderly close would look like the end of the body. A linger time of 0 makes it a reset.
                stream = self.transport.get_extra_info("socket")
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.transport.abort()
            else:
                exchange.transport.close()
        return exchange.response_started

    def _disconnect(self) -> None:
        for exchange in (self.active, self.cycle):
            if exchange is not None and not exchange.response_complete:
                exchange.disconnected = True
                exchange.message_event.set()

    def _linger(self, is_known: bool) -> None:
        """Closes our half and discards what still arrives for a while, so that our answer can be read."""
        if self.transport.is_closing():
            return
        self.deaf = self.lingering = True
        self.with_deadline.add(self)
        self.is_known = is_known
        if is_known:
            self.shares.note_known(self.address)
        self.waited_s = 0.0
        self.pipeline.clear()
        self.flow.resume_reading()
        self.transport.write_eof()

    def _discard(self, data: bytes) -> None:
        self.waited_s = 0.0
        self.discarded_bytes += len(data)
        self.swept_bytes += len(data)
        if self.discarded_bytes > self.limits.linger_bytes and not self._may_linger_on():
            self.transport.close()
        elif self.has_place and self.swept_bytes > self.lingering_places.share_bytes():
            self.flow.pause_reading()  # until the next sweep

    def _may_linger_on(self) -> bool:
        """Whether a client over the common limit may still linger: it has a place, and keeps its limits."""
        if self.lingering and not self.has_place:
            self.has_place = self.lingering_places.take(is_known=self.is_known)
        limits = self.limits
        most_bytes = limits.discard_bytes if self.is_known else limits.stranger_discard_bytes
        return self.has_place and self.lingered_s <= limits.discard_s and self.discarded_bytes <= most_bytes
