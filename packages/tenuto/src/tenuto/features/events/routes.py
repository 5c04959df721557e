"""Events over HTTP, of a job or an account: as a list, or as a stream of server-sent events.

The ids in a stream identify stored events, so a client that was disconnected, by whichever side, continues
with `Last-Event-ID` where it was.
"""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from tenuto.account.caller import Caller
from tenuto.api import query
from tenuto.api.answers import Answer, json_list
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call, Routes
from tenuto.config import Settings
from tenuto.db.database import Transaction
from tenuto.errors import Fault, InvalidRequest, TenutoError
from tenuto.features.chat.routes import begin_events, client_gone
from tenuto.features.events import feed
from tenuto.features.events.feed import EventInOrder, Position
from tenuto.features.events.live_events import LiveEvents, Stream
from tenuto.file import pairing
from tenuto.ids import is_id
from tenuto.job import read
from tenuto.job.states import EVENTS, FINAL

CHECK_S = 5.0
"""A revoked key receives events for this long at most."""
QUIET_CHECK_S = 300.0
"""Without events its stream ends within this time."""
RECONNECT_MS = 1_000
"""How long a browser waits before it connects again."""

_QUERY: query.Rules = {"after": query.text("the id of an event"), "limit": query.LIMIT}
_encode = msgspec.json.Encoder().encode


async def of_job(call: Call) -> Answer | None:
    """GET /v1/jobs/{id}/events: oldest first, as a list, or as a stream until the job is final."""
    if not _wants_stream(call):
        return json_list(await call.read(lambda tx, who: read.events(tx, who, call.path_id("job_id", "job"))))

    def find(tx: Transaction, who: Caller) -> tuple[list[EventInOrder], Position]:
        # The end first: an event between the two reads is then seen twice, not missed, and sent once.
        mark = feed.end(tx)
        return feed.of_job(tx, who, call.path_id("job_id", "job")), mark

    events, end = await call.read(find)
    job_id = call.path_id("job_id", "job")
    seen = _sequence(call, len(events))
    if events and events[-1].sequence <= seen and EVENTS[events[-1].type] in FINAL:
        return Answer(204, b"")  # After that, a browser does not reconnect.
    stream = call.service.part(LiveEvents).enter(_caller(call).account_id, job_id, end)

    async def chunks() -> AsyncGenerator[bytes, None]:
        last = seen
        # Events before we entered do not wake us.
        events = await call.read_again(lambda tx, who: feed.of_job(tx, who, job_id))
        while True:
            for event in events:
                if event.sequence > last:
                    last = event.sequence
                    _caller(call).check_job(event.model)
                    yield _block(str(last), event)
                    if EVENTS[event.type] in FINAL:
                        return
            events, _, is_over = await _next(call, stream)
            if is_over and not events:
                return
            if not events:
                yield b":\n\n"

    await _send(call, stream, chunks())
    return None


async def of_account(call: Call) -> Answer | None:
    """GET /v1/events: the events of the account's jobs that the key may see, as a page or a stream."""
    if not _wants_stream(call):
        return await _page(call)
    end, origin, seen = await call.read(lambda tx, who: _reader(call, tx))
    account_id = _caller(call).account_id
    stream = call.service.part(LiveEvents).enter(account_id, None, end)

    async def chunks() -> AsyncGenerator[bytes, None]:
        mark, is_over = seen or stream.since, False
        if seen is None:
            yield _keepalive(origin, end.after if mark == end else mark.before)
        while mark < stream.since:
            events, mark = await _passed(call, account_id, mark, stream.since)
            for event in _visible(call, events):
                yield _block(_id(origin, event.mark), event)
        while not is_over:
            events, ahead, is_over = await _next(call, stream)
            visible = _visible(call, [event for event in events if event.mark > mark])
            for event in visible:
                yield _block(_id(origin, event.mark), event)
            # If no event was visible to this client, the id must name no job.
            if not visible:
                yield _keepalive(origin, ahead.before) if ahead.position > mark.position else b":\n\n"
            mark = max(mark, ahead)

    await _send(call, stream, chunks())
    return None


async def _page(call: Call) -> Answer:
    """A page of the account's events following `after`, or from the first one on."""
    caller = await call.authenticate()

    def find(tx: Transaction) -> Answer:
        end, origin, mark = _reader(call, tx)
        limit = query.limit_of(call.query())
        events, ahead = feed.of_account(tx, caller.account_id, mark or feed.START, end, limit)
        encoded = [feed.public_event(event, _id(origin, event.mark)) for event in _visible(call, events)]
        return json_list(encoded, None if ahead == end else _id(origin, feed.reader_position(events, ahead)))

    return await call.report(find)


def _reader(call: Call, tx: Transaction) -> tuple[Position, str, Position | None]:
    """The end of all events, the prefix of their ids, and the reader's position, if it named one."""
    origin = (pairing.known_id(tx) or "")[-6:]
    end = feed.end(tx)
    return end, origin, _read_mark(call, origin, end)


async def _passed(
    call: Call, account_id: str, mark: Position, until: Position
) -> tuple[list[EventInOrder], Position]:
    """A page of the events that the client has missed."""
    return await call.report(lambda tx: feed.of_account(tx, account_id, mark, until))


async def _next(call: Call, stream: Stream) -> tuple[list[EventInOrder], Position, bool]:
    """New events, or none if it is time for a keepalive."""
    await stream.woken.wait()
    stream.woken.clear()
    return call.service.part(LiveEvents).take(stream)


async def _send(call: Call, stream: Stream, chunks: AsyncGenerator[bytes, None]) -> None:
    """Send the stream until it ends, its client goes away, or its key becomes invalid. Raises ClientGone."""
    gone = client_gone(call)
    gone.add_done_callback(lambda _: stream.woken.set())
    checked_at = time.monotonic()
    try:
        await begin_events(call, [(b"x-accel-buffering", b"no")])
        if call.scope["method"] == "HEAD":
            return
        await _write(call, b"retry: %d\n\n" % RECONNECT_MS)
        async with aclosing(chunks):
            async for chunk in chunks:
                if gone.done():
                    raise ClientGone
                if time.monotonic() - checked_at > (QUIET_CHECK_S if chunk.startswith(b":") else CHECK_S):
                    call.caller = await call.read_again(lambda tx, who: who)
                    checked_at = time.monotonic()
                await _write(call, chunk)
    except TenutoError:
        pass  # The key was revoked, or the database is away: a client that reconnects gets the usual answer.
    finally:
        gone.cancel()
        call.service.part(LiveEvents).leave(stream)
        if not call.is_gone():
            await call.send({"type": "http.response.body", "body": b""})


async def _write(call: Call, chunk: bytes) -> None:
    await call.send({"type": "http.response.body", "body": chunk, "more_body": True})


def _wants_stream(call: Call) -> bool:
    accepted = b",".join(call.header_values(b"accept")).lower()
    return b"text/event-stream" in accepted


def _visible(call: Call, events: list[EventInOrder]) -> list[EventInOrder]:
    """The events of jobs that the key may see (decision 0018)."""
    models = _caller(call).key_models
    return [event for event in events if models is None or event.model in models]


def _block(id_: str, event: EventInOrder) -> bytes:
    encoded = _encode(feed.public_event(event, id_)).replace(b"\r", b" ").replace(b"\n", b" ")
    return b"id: %b\ndata: %b\n\n" % (id_.encode(), encoded)


def _keepalive(origin: str, mark: Position) -> bytes:
    """A keepalive that advances the client's `Last-Event-ID`, but that no program sees as an event."""
    return b":\nid: %b\n\n" % _id(origin, mark).encode()


def _id(origin: str, mark: Position) -> str:
    return ".".join((origin, str(mark.position), mark.job_id, str(mark.sequence)))


def _last_event_id(call: Call) -> str | None:
    """The last event the client has seen: from the header that browsers send, or else from the query."""
    value = query.read_query(call, _QUERY).get("after")
    header = call.header(b"last-event-id")
    return value if header is None else header.decode("latin-1")


def _sequence(call: Call, count: int) -> int:
    """The number of the last event that a job's follower has seen; -1: none."""
    seen = _last_event_id(call)
    if seen is None:
        return -1
    if not _is_number(seen, 8) or int(seen) >= count:
        message = f"must be the id of one of the job's events, a number below {count}"
        raise InvalidRequest([Fault("Last-Event-ID", "not_allowed", message)])
    return int(seen)


def _read_mark(call: Call, origin: str, end: Position) -> Position | None:
    """The position after which an account's reader continues; None: it named none."""
    seen = _last_event_id(call)
    if seen is None:
        return None
    store, _, rest = seen.partition(".")
    position, _, rest = rest.partition(".")
    job_id, _, sequence = rest.partition(".")
    is_sound = _is_number(position, 18) and _is_number(sequence, 8)
    if not is_sound or not (is_id(job_id, "job") or not job_id):
        message = "must be the id of an event of GET /v1/events, as it was received"
        raise InvalidRequest([Fault("Last-Event-ID", "not_allowed", message)])
    mark = Position(int(position), job_id, int(sequence))
    if store != origin or mark > end.after:
        message = "is of another database, from before a restore; list the jobs, then connect without it"
        raise InvalidRequest([Fault("Last-Event-ID", "not_allowed", message)])
    return mark


def _is_number(text: str, digits: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= digits


def _caller(call: Call) -> Caller:
    assert call.caller is not None, "whoever read something is known"
    return call.caller


def routes(settings: Settings) -> Routes:
    """The streams of events."""
    return {"/v1/jobs/{job_id}/events": {"GET": of_job}, "/v1/events": {"GET": of_account}}
