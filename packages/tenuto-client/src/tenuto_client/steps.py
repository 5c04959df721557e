"""The steps that a flow yields to its driver: send a request, wait, call a function that touches the disk.

Every exchange with the service is written once, as a generator that yields these steps and receives their
outcomes; `drive` runs it in threads or on asyncio. A flow does no I/O of its own.
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
"""Called with the bytes transferred so far and the total."""


@dataclass(frozen=True, slots=True)
class FileBody:
    """A file to send, block by block."""

    path: Path
    size_bytes: int
    on_bytes: OnBytes | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request; its path is already URL-encoded."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | FileBody | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    """Whether it may be retried after its response was lost, because it cannot do anything twice."""
    timeout_s: float | None = None
    """How long it may go without transferring a byte; None: the client's own limit."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response: lower-case header names, and the complete body, or `live` if it was requested unread."""

    status: int
    headers: Mapping[str, str]
    content: bytes = b""
    live: Any = None


class Sink(Protocol):
    """Takes a body as it arrives. `begin` first gets the status and headers of a successful response."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def write(self, block: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request. Its outcome is the Answer, or `Lost`."""

    request: Request
    sink: Sink | None = None
    """Takes the body of a successful response; any other body is in the Answer."""
    is_live: bool = False
    """Return a successful response with its body unread."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Do:
    """Call a function that touches the disk. Its outcome is what the function returns."""

    function: Callable[[], Any]
    undo: Callable[[Any], None] | None = None
    """Called with the outcome if the flow is cancelled before it has it; None: there is nothing to undo."""


Step = Send | Pause | Do
Flow = Generator[Step, Any, T]


class Lost(Exception):
    """No answer, or only part of one."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        """False if the request certainly never reached the service."""


def path_of(*parts: str) -> str:
    """A path under /v1 with every part URL-encoded."""
    return "/v1/" + "/".join(_encoded(part) for part in parts)


def _encoded(part: str) -> str:
    """A part, encoded; unencoded, `.` or `..` would change the path."""
    return part.replace(".", "%2E") if part in (".", "..") else quote(utf8(part), safe="")
