"""The event streams of this process: one thread reads new events once for all streams, and gives each stream
its own.

As with long polls, it sleeps while nobody follows, and reads when it is woken or a second has passed. A
stream that does not keep up is cut off; its client can continue where it was. Knows nothing of HTTP.
"""

import asyncio
import itertools
import threading
from collections import deque
from contextlib import suppress

from msgspec import Struct, field

from tenuto.api.long_polling import Watch
from tenuto.api.service import Part, Service
from tenuto.db.database import Database
from tenuto.errors import RateLimited, Unavailable
from tenuto.features.events import feed
from tenuto.features.events.feed import EventInOrder, Position

MAX_STREAMS = 5_000
"""Per process; the limit on connections is usually lower."""
MAX_STREAMS_OF_ACCOUNT = 100
MAX_WAITING = 1_000
"""Events that may wait for one client; beyond that, it is cut off."""
KEEPALIVE_S = 20
"""The longest silence of a stream. Each stream has one of these seconds, and all share one timer."""


class Stream(Struct, eq=False):
    """A client that follows the events after `since`, of one job or of its whole account."""

    account_id: str
    job_id: str | None
    since: Position
    second: int
    """At which of the `KEEPALIVE_S` seconds it is woken for its keepalive."""
    waiting: deque[EventInOrder] = field(default_factory=deque)
    is_over: bool = False
    """It is cut off after what is waiting."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def wake(self) -> None:
        """Wake the stream: there is something to do. Thread-safe."""
        with suppress(RuntimeError):  # The loop has ended, and its requests with it.
            self.loop.call_soon_threadsafe(self.woken.set)

    def add(self, event: EventInOrder) -> bool:
        """Add an event, or cut the stream off if too many are waiting. False: it is not for this stream."""
        if self.is_over or event.mark <= self.since or self.job_id not in (None, event.job_id):
            return False
        if len(self.waiting) >= MAX_WAITING:
            self.is_over = True
        else:
            self.waiting.append(event)
        return True


class LiveEvents(Part):
    """The event streams of this process, and the thread that reads events for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streams: dict[str, list[Stream]] = {}
        self._count = 0
        self._mark: Position | None = None
        """Events up to this position were handed out; None while nobody follows."""
        # Guards the three fields above, and what waits for each stream.
        self._lock = threading.Lock()
        # Used in the event loop's thread only.
        self._by_second: list[set[Stream]] = [set() for _ in range(KEEPALIVE_S)]
        self._entered = itertools.count()
        self._now = 0
        self._timer: asyncio.TimerHandle | None = None
        self._watch = Watch(database, "live-events", self._read_all)

    def enter(self, account_id: str, job_id: str | None, end: Position) -> Stream:
        """A new stream of the events after `end`, or after a later one. Call it in the event loop's thread.

        RateLimited, Unavailable.
        """
        if self._watch.is_stopping:
            raise Unavailable
        self._watch.begin()
        with self._lock:
            streams = self._streams.setdefault(account_id, [])
            if self._count >= MAX_STREAMS or len(streams) >= MAX_STREAMS_OF_ACCOUNT:
                message = f"an account may follow events {MAX_STREAMS_OF_ACCOUNT} times at once in a process"
                raise RateLimited(message, retry_after_s=5, limit="event_streams")
            if self._mark is None:
                self._mark = end
            second = next(self._entered) % KEEPALIVE_S
            stream = Stream(account_id, job_id, max(self._mark, end), second)
            streams.append(stream)
            self._count += 1
        self._by_second[second].add(stream)
        if self._timer is None:
            self._timer = stream.loop.call_later(1, self._wake_next, stream.loop)
        return stream

    def leave(self, stream: Stream) -> None:
        """Its client has gone, or was cut off."""
        self._by_second[stream.second].remove(stream)
        with self._lock:
            streams = self._streams[stream.account_id]
            streams.remove(stream)
            if not streams:
                del self._streams[stream.account_id]
            self._count -= 1
            if not self._count:
                self._mark = None
                self._watch.rest()
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None

    def take(self, stream: Stream) -> tuple[list[EventInOrder], Position, bool]:
        """The events waiting for a stream, its position after them, and whether it ends there."""
        with self._lock:
            events = list(stream.waiting)
            stream.waiting.clear()
            is_over = stream.is_over or self._watch.is_stopping
            mark = events[-1].mark if is_over and events else self._mark or stream.since
            return events, max(mark, stream.since), is_over

    def stop(self) -> None:
        """End all streams now. Thread-safe."""
        self._watch.stop()
        with self._lock:
            streams = [stream for those in self._streams.values() for stream in those]
        for stream in streams:
            stream.wake()

    def _wake_next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wake the streams whose second it is for their keepalive."""
        self._timer = loop.call_later(1, self._wake_next, loop)
        self._now = (self._now + 1) % KEEPALIVE_S
        for stream in self._by_second[self._now]:
            stream.woken.set()

    def _read_all(self) -> None:
        while self._read_page():
            pass

    def _read_page(self) -> bool:
        """Hand out a page of new events; True if there may be more."""
        mark = self._mark
        if mark is None:
            return False
        events = self._database.read(lambda tx: feed.after(tx, mark))
        woken: set[Stream] = set()
        with self._lock:
            if self._mark != mark:
                return True  # All streams have ended meanwhile, and perhaps a new one has begun.
            for event in events:
                self._mark = event.mark
                woken.update(one for one in self._streams.get(event.account_id, ()) if one.add(event))
        for stream in woken:
            stream.wake()
        return len(events) == feed.PAGE


def serving(service: Service) -> LiveEvents:
    """The event streams of an API process."""
    return LiveEvents(service.database)
