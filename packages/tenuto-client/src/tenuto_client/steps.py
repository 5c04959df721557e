"""What a flow asks of whoever drives it: to send, to wait, to touch the disk.

Every exchange with the service is written once, as a generator that yields these steps and is given their
outcomes; `drive` runs it with threads or with asyncio. A flow does no input or output of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from tenuto_client.errors import utf8

T = TypeVar("T")

OnBytes = Callable[[int, int], None]
"""Told how many bytes have passed, and of how many."""


@dataclass(frozen=True, slots=True)
class FileBody:
    """A file to be sent, block by block."""

    path: Path
    size_bytes: int
    on_bytes: OnBytes | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request; its path is quoted already."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | FileBody | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    """Whether it may be sent again after its answer was lost, without doing anything twice."""
    timeout_s: float | None = None
    """How long to wait for the first byte of the answer, when that is not the client's own limit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: names of headers in lower case, the body whole, or `live` when it was asked for so."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""
    live: Any = None


class Sink(Protocol):
    """Takes a body as it arrives. `begin` sees status and headers of a good answer first."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def write(self, block: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request. Gives the Answer; raises `Lost` when none came."""

    request: Request
    sink: Sink | None = None
    """Takes the body of a good answer; the body of any other stands in the Answer."""
    is_live: bool = False
    """Give a good answer with its body unread."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Do:
    """Call a function that touches the disk. Gives what it returns."""

    function: Callable[[], Any]


Step = Send | Pause | Do
Flow = Generator[Step, Any, T]


class Lost(Exception):
    """No answer, or not all of it."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        """False when the request certainly never reached the service."""


def path_of(*parts: str) -> str:
    """A path under /v1 with every part URL-encoded."""
    return "/v1/" + "/".join(_encoded(part) for part in parts)


def _encoded(part: str) -> str:
    """Dots alone would be read as this folder or the one above it."""
    return part.replace(".", "%2E") if part in (".", "..") else quote(utf8(part), safe="")
