"""Who follows events in a process: when each stream is woken although nothing has happened."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from servers.threads import lacking
from tenuto.db.database import Database
from tenuto.features.events import live_events
from tenuto.features.events.feed import START
from tenuto.features.events.live_events import LiveEvents, Stream

PATIENCE_S = 60.0


@pytest.fixture
def live(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveEvents]:
    """Whose streams have heartbeats every two seconds."""
    monkeypatch.setattr(live_events, "KEEPALIVE_S", 2)
    made = LiveEvents(database)
    yield made
    made.stop()


async def woken(stream: Stream) -> bool:
    await asyncio.wait_for(stream.woken.wait(), PATIENCE_S)
    stream.woken.clear()
    return True


def test_every_stream_is_woken_for_its_heartbeat(live: LiveEvents) -> None:
    """Again and again, also one that came while others were there; one that has left is not."""

    async def follow() -> tuple[list[bool], bool]:
        first, left = (live.enter(account_id, None, START) for account_id in ("account_1", "account_2"))
        beats = [await woken(first)]
        live.leave(left)
        left.woken.clear()
        second = live.enter("account_1", "job_1", START)
        beats += [await woken(stream) for stream in (first, second, first, second)]
        live.leave(first)
        live.leave(second)
        again = live.enter("account_1", None, START)
        return [*beats, await woken(again)], left.woken.is_set()

    assert ([True] * 6, False) == asyncio.run(follow())


def test_streams_begin_after_a_passing_lack_of_threads(
    live: LiveEvents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream that could not be served is not counted, and the account has all of its streams."""
    refused = lacking(monkeypatch, "live-events")

    async def follow() -> list[Stream]:
        with pytest.raises(RuntimeError):
            live.enter("account_1", None, START)
        return [live.enter("account_1", None, START) for _ in range(live_events.MAX_STREAMS_OF_ACCOUNT)]

    assert live_events.MAX_STREAMS_OF_ACCOUNT == len(asyncio.run(follow()))
    assert ["live-events"] == refused
    assert "live-events" in {thread.name for thread in threading.enumerate()}
