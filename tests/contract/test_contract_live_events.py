"""Streams of events: a job's and an account's, where they begin, continue and end, and who sees what."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx2

from servers.callers import Caller, Operator, error_code, faults
from servers.service import PLAIN

STREAM = {"Accept": "text/event-stream"}
TEXT = "Nobody but its owner has read this."


class Stream:
    """The events of an open stream, as they come."""

    def __init__(self, answer: httpx2.Response) -> None:
        self._lines = answer.iter_lines()
        self.last_id = ""

    def next(self) -> dict[str, Any]:
        """The next event; StopIteration at the end."""
        data = ""
        while True:
            line = next(self._lines)
            if line.startswith("id: "):
                self.last_id = line[4:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and data:
                found: dict[str, Any] = json.loads(data)
                assert self.last_id == found["id"]
                return found

    def rest(self) -> list[dict[str, Any]]:
        """All events up to the end."""
        found = []
        while True:
            try:
                found.append(self.next())
            except StopIteration:
                return found

    def stand(self) -> None:
        """Read until the service has sent the stream's first id."""
        while not self.last_id:
            line = next(self._lines)
            if line.startswith("id: "):
                self.last_id = line[4:]


@contextmanager
def opened(caller: Caller, path: str, last_id: str | None = None) -> Iterator[Stream]:
    """A stream that is read."""
    headers = {"Authorization": f"Bearer {caller.key}", **STREAM}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    with caller.http.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


def history(caller: Caller, job_id: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = caller.get(f"/v1/jobs/{job_id}/events").json()["data"]
    return listed


def test_a_jobs_stream_is_its_history(caller: Caller) -> None:
    """From its first event to its last, each with its number, and then the stream ends."""
    job_id = caller.submit("[fake:sleep=0.5] x")
    with opened(caller, f"/v1/jobs/{job_id}/events") as stream:
        events = stream.rest()

    assert ["queued", "running", "succeeded"] == [event["type"] for event in events]
    assert ["0", "1", "2"] == [event["id"] for event in events]
    assert ["queued", "running", "succeeded"] == [event["state"] for event in events]
    assert history(caller, job_id) == [
        {name: event[name] for name in ("object", "sequence", "at", "type", "attempt_id", "detail")}
        for event in events
    ]


def test_a_jobs_stream_continues_and_says_when_there_is_no_more(caller: Caller) -> None:
    """Behind the event that is named; 204, at which browsers stop, behind the last one."""
    job_id = caller.submit()
    caller.wait(job_id)
    path = f"/v1/jobs/{job_id}/events"
    with opened(caller, path, "0") as stream:
        events = stream.rest()
    answer = caller.get(path, {**STREAM, "Last-Event-ID": "2"})

    assert ["1", "2"] == [event["id"] for event in events]
    assert (204, b"") == (answer.status_code, answer.content)


def test_the_accounts_stream_begins_now_and_continues_anywhere(caller: Caller) -> None:
    """Without an id nothing of before is sent; with that of any event, all behind it."""
    caller.wait(caller.submit("Before."))
    with opened(caller, "/v1/events") as stream:
        stream.stand()
        job_id = caller.submit(TEXT)
        events = [stream.next() for _ in range(3)]
    with opened(caller, "/v1/events", events[0]["id"]) as stream:
        again = [stream.next() for _ in range(2)]
    with opened(caller, f"/v1/events?after={events[1]['id']}") as stream:
        last = stream.next()

    assert [(job_id, number) for number in range(3)] == [(one["job_id"], one["sequence"]) for one in events]
    assert (events[1:], events[2]) == (again, last)
    assert TEXT not in json.dumps(events)


def test_a_restricted_key_follows_its_models(operator: Operator) -> None:
    """Decision 0018: neither the stream nor the list shows it the jobs of other models."""
    caller = operator.caller(credit="100")
    restricted = operator.key(caller.account_id, models=["fake/image"])
    speech = caller.submit(TEXT)
    with opened(restricted, "/v1/events") as stream:
        stream.stand()
        caller.wait(caller.submit(TEXT))
        image = caller.post_job({"model": "fake/image", "parameters": {"prompt": "A note."}}).json()["id"]
        events = [stream.next() for _ in range(3)]
    listed = restricted.get("/v1/events?limit=100").json()["data"]
    answer = restricted.get(f"/v1/jobs/{speech}/events", STREAM)

    assert {image} == {event["job_id"] for event in (*events, *listed)}
    assert (403, "model_not_allowed") == error_code(answer)


def test_others_see_nothing(operator: Operator, caller: Caller) -> None:
    """Another account's stream and list are empty, and no id that it is given names a foreign job."""
    stranger = operator.caller()
    with opened(stranger, "/v1/events") as stream:
        stream.stand()
        job_id = caller.submit(TEXT)
        caller.wait(job_id)
        own = stranger.submit()
        event = stream.next()
    page = stranger.get("/v1/events")

    assert own == event["job_id"]
    assert job_id not in page.text
    assert (404, "not_found") == error_code(stranger.get(f"/v1/jobs/{job_id}/events", STREAM))


def test_an_id_that_is_none_is_refused(caller: Caller) -> None:
    """Nothing is guessed. After a restore the positions are counted again: an id from before it would hide
    events."""
    job_id = caller.submit()
    origin, _, rest = caller.get("/v1/events").json()["data"][0]["id"].partition(".")
    elsewhere = (f"zzzzzz.{rest}", f"{origin}.{10**17}.{rest.partition('.')[2]}")

    for wrong in elsewhere:
        answer = caller.get("/v1/events", {**STREAM, "Last-Event-ID": wrong})
        assert [("Last-Event-ID", "not_allowed")] == faults(answer)
    for wrong in ("x", "-1", "7.7", "a.1.b.2", "1e3", "9" * 40, "x" * 500, "..1."):
        for path in ("/v1/events", f"/v1/jobs/{job_id}/events"):
            answer = caller.get(path, {**STREAM, "Last-Event-ID": wrong})
            assert [("Last-Event-ID", "not_allowed")] == faults(answer)


def test_a_revoked_key_receives_no_more(operator: Operator, caller: Caller) -> None:
    """The stream ends soon after the key does."""
    other = operator.key(caller.account_id)
    done = threading.Event()
    with opened(other, "/v1/events") as stream:
        stream.stand()
        operator.revoke(other)

        def work() -> None:
            while not done.wait(0.2):
                caller.submit()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            stream.rest()
        finally:
            done.set()
            thread.join()

    assert (401, "invalid_api_key") == error_code(other.get("/v1/events", STREAM))


def test_an_account_has_no_more_streams_than_it_may(operator: Operator) -> None:
    """The hundred and first is refused with 429; one that is closed makes room for another."""
    caller = operator.caller()
    unlimited = httpx2.Limits(max_connections=None)
    with httpx2.Client(base_url=caller.http.base_url, limits=unlimited, verify=PLAIN) as http:
        many = Caller(http, caller.account_id, caller.key_id, caller.key)
        with ExitStack() as stack:
            streams = [stack.enter_context(opened(many, "/v1/events")) for _ in range(100)]
            for stream in streams:
                stream.stand()
            refused = caller.get("/v1/events", STREAM)

    assert (429, "rate_limited") == error_code(refused)
    while (answer := caller.request("HEAD", "/v1/events", headers=STREAM)).status_code == 429:
        time.sleep(0.05)
    assert answer.status_code == 200
