"""A transport that falsifies what the service answers, so that a test of the contract can be seen to fail.

It knows HTTP and JSON, and nothing of the service's code: a lie stays true to its row however the code moves.
`lab/lies` has the lies, and tells each to the tests of its rows.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import httpx2

Falsify = Callable[[httpx2.Request, httpx2.Response], httpx2.Response]


@dataclass(frozen=True)
class Lie:
    """A false answer: which rows of the contract it breaks, to which requests it is given, and what it is."""

    name: str
    rows: str
    method: str
    path: str
    """A pattern that the whole path matches."""
    status: int | None
    """Only answers with this status are falsified; None: all."""
    falsify: Falsify

    def told(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """The answer as this lie has it."""
        path = request.url.raw_path.decode().partition("?")[0]
        matches = request.method == self.method and re.fullmatch(self.path, path) is not None
        if not matches or self.status not in (None, response.status_code):
            return response
        return self.falsify(request, response)


is_on = False
"""Whether this run lies at all: its callers then go through `LyingTransport`."""
current: Lie | None = None
"""The current lie."""


class LyingTransport(httpx2.BaseTransport):
    """HTTP as it is, but for the current lie."""

    def __init__(self) -> None:
        self._inner = httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        if current is None:
            return response
        response.read()
        return current.told(request, response)

    def close(self) -> None:
        self._inner.close()


def transport() -> httpx2.BaseTransport | None:
    """What a caller sends its requests through; None: straight to the service."""
    return LyingTransport() if is_on else None
