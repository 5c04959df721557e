"""Answers to requests: a status, headers and a whole body. Knows nothing of their content."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

Headers = list[tuple[bytes, bytes]]
Send = Callable[[Any], Awaitable[None]]
"""ASGI's `send`."""

REPLAYED = (b"idempotent-replayed", b"true")
"""The header that marks an idempotent replay."""
_BODILESS = (204, 304)
_JSON = (b"content-type", b"application/json")
_encode = msgspec.json.Encoder().encode


class Answer(msgspec.Struct):
    """A status, headers and a whole body."""

    status: int
    body: bytes
    headers: Headers = msgspec.field(default_factory=list)
    media_type: tuple[bytes, bytes] = _JSON

    def head(self, request_id: str) -> Headers:
        """All headers as they are sent."""
        headers = [(b"x-request-id", request_id.encode()), *self.headers]
        if self.status not in _BODILESS:
            headers += [self.media_type, (b"content-length", b"%d" % len(self.body))]
        return headers

    async def send(self, send: Send, request_id: str) -> None:
        """Send it."""
        headers = self.head(request_id)
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_answer(status: int, value: Any, *headers: tuple[bytes, bytes]) -> Answer:
    """An answer in JSON."""
    return Answer(status, _encode(value), list(headers))


def json_list(items: list[Any], cursor: str | None = None, **more: Any) -> Answer:
    """A list in the API's shape, with the cursor of the next page if there is one."""
    page = {"object": "list", "data": items, **more}
    return json_answer(200, page if cursor is None else page | {"next_cursor": cursor})
