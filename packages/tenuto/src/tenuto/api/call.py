"""One request on its way through the edge: its caller, what it asks for, and how it is answered.

`Endpoint` is the ASGI application behind each line of the route table. It gives every answer a request
id and turns errors into responses; no byte of a body is read before the key is known.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.api.answers import Answer
from tenuto.api.body_bytes import ClientGone, read_body, stream_body
from tenuto.api.errors import cause_of_503, error_answer, stated, status_of
from tenuto.api.limits import FairThreads
from tenuto.api.service import Service
from tenuto.db.database import Asking, Transaction
from tenuto.errors import (
    InvalidApiKey,
    InvalidRequest,
    MethodNotAllowed,
    NotFound,
    RateLimited,
    TenutoError,
    Unavailable,
)
from tenuto.ids import is_id
from tenuto.job.submit import Origin
from tenuto.logs import get_logger, request_log

T = TypeVar("T")
PROBES = ("/livez", "/readyz")
"""Anybody may request them, without a key."""
SMALL_BODY_BYTES = 64 * 1024
"""The largest body of a request that needs little or none."""
RIDE_OVER_S = 10.0
"""How long a waiting request retries a read while the database is unavailable."""
AWAY_PAUSE_S = 0.5
MAX_TRACEPARENT = 512
_TRACEPARENT = re.compile(
    rb"[ \t]*([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:(-.*)|[ \t]*)\Z"
)
_log = get_logger("tenuto.api")


def traceparent(values: Sequence[bytes]) -> str | None:
    """The header of W3C Trace Context, as version 00 writes it; None: missing, repeated or invalid."""
    match = _TRACEPARENT.match(values[0]) if len(values) == 1 and len(values[0]) <= MAX_TRACEPARENT else None
    if match is None or not match[0].isascii():
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    if version == b"ff" or (version == b"00" and more) or not int(trace_id, 16) or not int(parent_id, 16):
        return None
    return f"00-{trace_id.decode()}-{parent_id.decode()}-{int(flags, 16) & 1:02x}"


class Call:
    """A request and the service it is for."""

    __slots__ = (
        *("began_s", "caller", "identify", "job_ids", "receive", "request_id", "scope", "send", "service"),
    )

    def __init__(self, service: Service, scope: Any, receive: Any, send: Any, identify: "Identify") -> None:
        self.began_s = time.perf_counter()
        self.service = service
        self.identify = identify
        self.scope = scope
        self.receive = receive
        self.send = send
        self.request_id = service.ids.new("req")
        self.caller: Caller | None = None
        self.job_ids: Sequence[str] = ()
        """The jobs accepted for this request; error answers name them, too."""

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header, its name in lower case; None when it is missing."""
        return next(iter(self.header_values(name)), None)

    def header_values(self, name: bytes) -> list[bytes]:
        """All values of a header as they were sent, its name in lower case."""
        return [value for key, value in self.scope["headers"] if key == name]

    def origin(self) -> Origin | None:
        """What is told of this request with the job that it submits; None if no traces are collected."""
        if not self.service.is_traced:
            return None
        return Origin(self.request_id, self.began_s, traceparent(self.header_values(b"traceparent")))

    async def read_body(self, limit_bytes: int = SMALL_BODY_BYTES) -> bytes:
        """The whole body. PayloadTooLarge, RequestTimeout, ClientGone."""
        headers, limits = self.scope["headers"], self.service.http
        return await read_body(self.receive, headers, limit_bytes=limit_bytes, limits=limits)

    def stream_body(self, limit_bytes: int) -> AsyncIterator[bytes]:
        """The body piece by piece as it arrives, by the same rules."""
        headers, limits = self.scope["headers"], self.service.http
        return stream_body(self.receive, headers, limit_bytes=limit_bytes, limits=limits)

    def path_id(self, name: str, kind: str) -> str:
        """The id in the path, as the route names it. NotFound unless it is an id of this kind.

        So a malformed id is answered like one that does not exist; authenticate first.
        """
        value: str = self.scope["path_params"][name]
        if not is_id(value, kind):
            raise NotFound
        return value

    def query(self) -> dict[str, str]:
        """The query; InvalidRequest if a name occurs twice."""
        pairs = parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        values = dict(pairs)
        if len(values) != len(pairs):
            raise InvalidRequest(message="each name may be given once in the query")
        return values

    async def authenticate(self) -> Caller:
        """The caller. InvalidApiKey or RateLimited before anything else is checked."""
        return self._admit(await self.service.database.look_up(self.identify(self)))

    async def read(self, operation: Callable[[Transaction, Caller], T]) -> T:
        """Authenticate and read in one database operation, for a request without a body."""
        ask = self.identify(self)

        def find(tx: Transaction) -> T:
            return operation(tx, self._admit(ask(tx)()))

        return await self.service.database.read_async(find)

    async def read_again(self, operation: Callable[[Transaction, Caller], T]) -> T:
        """`read` after a long wait: InvalidApiKey if the key was revoked meanwhile."""
        ask = self.identify(self)
        return await self.read_patiently(lambda tx: operation(tx, ask(tx)()))

    async def read_patiently(self, find: Callable[[Transaction], T]) -> T:
        """A read that is retried for some seconds while the database is unavailable."""
        loop = asyncio.get_running_loop()
        end = loop.time() + RIDE_OVER_S
        while True:
            try:
                return await self.service.database.read_async(find)
            except Unavailable as error:
                was_last = type(error) is not Unavailable or loop.time() >= end
                if was_last or not await self.wait(asyncio.Event(), AWAY_PAUSE_S):
                    raise

    async def wait(self, event: asyncio.Event, seconds: float) -> bool:
        """Wait until the event is set or the time is over; True if the time is over.

        Raises ClientGone as soon as the client has left. One that half-closed the connection may have left
        altogether, which cannot be known, so the wait ends then.
        """
        closed: asyncio.Event | None = self.scope.get("half_closed")
        events = [event] if closed is None else [event, closed]
        ends = [asyncio.ensure_future(each.wait()) for each in events]
        gone = asyncio.ensure_future(self.gone())
        try:
            done, _ = await asyncio.wait([*ends, gone], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not event.is_set():
                raise ClientGone
            return not done
        finally:
            for each in (*ends, gone):
                each.cancel()

    def beside(self, threads: FairThreads, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Run work in a thread when it is this account's turn; the caller must be authenticated."""
        assert self.caller is not None
        return threads.run(self.caller.account_id, work)

    async def report(self, find: Callable[[Transaction], T]) -> T:
        """Read many rows in a thread: on SQLite this would block the event loop."""
        return await self.beside(self.service.reports, lambda: self.service.database.read(find))

    def is_gone(self) -> bool:
        """Whether the client has left, or was cut off: what is sent now goes nowhere."""
        is_closing: Callable[[], bool] | None = self.scope.get("is_closing")
        return is_closing is not None and is_closing()

    def break_off(self) -> bool:
        """Close the connection in the middle of the response, so that the client cannot take it for complete.
        Returns False if the response has not begun.
        """
        break_off: Callable[[Any], bool] | None = self.scope.get("break_off")
        return break_off is not None and break_off(self.scope)

    def stated(self, error: Exception) -> TenutoError:
        """The error to send in the middle of an answer; if it is our fault, it is logged."""
        if status_of(error) == 500:
            _log.exception("http.failed", request_id=self.request_id, route=self.scope["path"])
        return stated(error)

    async def gone(self) -> None:
        """Return when the client goes away. Anything it sends beyond its body is ignored."""
        while (await self.receive())["type"] != "http.disconnect":
            continue

    def _admit(self, caller: Caller) -> Caller:
        if self.caller is None:
            self.service.rates.take(caller.key_id)
            self.service.requests.enter(caller.account_id)
            self.scope["caller_is_known"] = True
        self.caller = caller
        self.service.used_keys.note(caller.key_id, self.service.clock())
        return caller


AskCaller = Callable[[Asking], Callable[[], Caller]]
"""Asks the database who the caller is; the function returned reads the answer. Both may refuse."""
Identify = Callable[[Call], AskCaller]
"""Takes the credentials from the head of a request, and returns the look-up of their caller. It may refuse.

The studio and the API do this in different ways."""


def by_key(call: Call) -> AskCaller:
    """The API's way: by the bearer key. InvalidApiKey."""
    # Refuse two: a proxy may have read a different one than we would.
    values = call.header_values(b"authorization")
    if len(values) != 1 or values[0][:7].lower() != b"bearer " or not values[0].isascii():
        raise InvalidApiKey
    key = values[0][7:].strip().decode("ascii")
    now_ms = call.service.clock()
    return lambda tx: accounts.ask_caller(tx, key, now_ms=now_ms)


Handler = Callable[[Call], Awaitable[Answer | None]]
"""Returns an answer, or None if it has sent one itself."""
Routes = Mapping[str, Mapping[str, Handler]]
"""What answers, by path and method."""


class Endpoint:
    """One path with its methods, as an ASGI application."""

    def __init__(
        self, service: Service, handlers: Mapping[str, Handler], route: str, identify: Identify = by_key
    ) -> None:
        self.service = service
        self.identify = identify
        self.handlers = dict(handlers)
        self.route = route
        if "GET" in self.handlers:
            self.handlers["HEAD"] = self.handlers["GET"]
        self.allow = ", ".join(sorted(self.handlers)).encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        call = Call(self.service, scope, receive, send, self.identify)
        try:
            handler = self.handlers.get(scope["method"])
            if handler is None:
                raise MethodNotAllowed
            answer = await handler(call)
            status = 200 if answer is None else answer.status
            if answer is not None:
                await answer.send(send, call.request_id)
        except ClientGone:
            status = 499
            scope.get("leave", bool)()
        except Exception as error:
            status = await self._send_error(call, error)
        finally:
            if call.caller is not None:
                self.service.requests.leave(call.caller.account_id)
        seconds = time.perf_counter() - call.began_s
        self.service.metrics.request(self.route, scope["method"], status, seconds)
        if self.route not in PROBES:
            request_log.info(
                "http.request",
                self.service.clock(),
                method=scope["method"],
                route=self.route,
                status=status,
                ms=round(seconds * 1000, 1),
                request_id=call.request_id,
            )

    async def _send_error(self, call: Call, error: Exception) -> int:
        status = status_of(error)
        if (limit := getattr(error, "limit", None)) is not None:
            self.service.metrics.refused(limit)
        if status == 503:
            self.service.metrics.unavailable("probe" if self.route in PROBES else cause_of_503(error))
        pause_s = error.pause_s if isinstance(error, RateLimited) else 0.0
        if pause_s or (status == 401 and (pause_s := self.service.rates.strangers_pause_s())):
            call.scope["is_refused"] = True  # Meanwhile a stranger's connection may be closed for another.
            await asyncio.sleep(pause_s)
        if status == 500:
            _log.exception("http.failed", request_id=call.request_id, route=self.route)
        elif isinstance(error, TenutoError) and error.is_internal:
            _log.warning("http.unavailable", request_id=call.request_id, reason=error.message)
        if call.break_off():
            return status
        answer = error_answer(_since_accepted(call, error), call.request_id)
        if call.job_ids:
            answer.headers.append((b"x-service-job", ", ".join(call.job_ids).encode()))
        if isinstance(error, MethodNotAllowed):
            answer.headers.append((b"allow", self.allow))
        await answer.send(call.send, call.request_id)
        return status


def _since_accepted(call: Call, error: Exception) -> Exception:
    """The error to answer with: once jobs are accepted, it must not claim that nothing was stored."""
    known = stated(error)
    if not call.job_ids or type(known) is not Unavailable or known.limit is not None:
        return error
    ids = ", ".join(call.job_ids)
    return Unavailable(f"{ids} cannot be read just now, but is not lost; send the same request again.")
