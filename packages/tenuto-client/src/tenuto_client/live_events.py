"""Following events as they happen: the requests, and a parser of server-sent events. Flows and functions."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tenuto_client.errors import UnexpectedAnswer
from tenuto_client.exchange import Link, call
from tenuto_client.pacing import MIN_WAIT_S
from tenuto_client.records import LiveEvent, read
from tenuto_client.steps import Answer, Flow, Pause, Request, path_of

FINAL = frozenset({"succeeded", "failed", "cancelled"})
"""Nothing follows in the history of a job; `recovery_required` may still change."""


class Following:
    """A reader of a job's events, or of all the account's, and its position.

    A broken connection is reopened and continues after the last event that was received, so that each event
    comes once and in order.
    """

    def __init__(self, link: Link, job_id: str | None, after: str | None) -> None:
        self._link = link
        self._job_id = job_id
        self.last_id = after
        self.is_over = False
        self._rest = b""
        self._data: list[bytes] = []
        self._id: bytes | None = None

    def opened(self) -> Flow[Answer]:
        """The response with its stream unread. Raises Refused, ServiceUnreachable."""
        headers = {"Accept": "text/event-stream"}
        if self.last_id is not None:
            headers["Last-Event-ID"] = self.last_id
        path = path_of("events") if self._job_id is None else path_of("jobs", self._job_id, "events")
        self._rest, self._data, self._id = b"", [], None
        answer: Answer = yield from call(self._link, Request("GET", path, headers), is_live=True)
        # 204: the service has nothing to add to what was received.
        self.is_over = answer.status == 204
        return answer

    def pause(self) -> Flow[None]:
        """Wait between a connection that has ended and the next one."""
        if not self.is_over:
            yield Pause(MIN_WAIT_S)

    def feed(self, block: bytes) -> Iterator[LiveEvent]:
        """The events completed by this block."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"id":
                self._id = value.removeprefix(b" ")
            elif not line:
                yield from self._ended()

    def _ended(self) -> Iterator[LiveEvent]:
        """The event of a block that has ended; one without data only sets the reader's position."""
        if self._id is not None:
            self.last_id = self._id.decode()
        data, self._data, self._id = b"\n".join(self._data), [], None
        if not data:
            return
        try:
            document = json.loads(data)
            event = read(LiveEvent, document)
        except (ValueError, TypeError) as error:
            raise UnexpectedAnswer("an event of the stream is not JSON") from error
        self.is_over |= self._job_id is not None and event.state in FINAL
        yield event
