"""The interface of what keeps a paid result until it is recorded, and the core's own keeper, which is memory.

A feature that can keep it elsewhere as well sets `keeping`, before its process claims anything.
"""

from collections.abc import Callable
from typing import Any, Protocol

from msgspec import Struct

from tenuto.host.host import HostResult
from tenuto.job.queue import Claim
from tenuto.job.rows import ChunkKey
from tenuto.worker.context import WorkerContext
from tenuto.worker.engine_calls import EngineCalls


class Keeper(Protocol):
    """Keeps one result. For the attempt's own thread."""

    def keep(self) -> object:
        """The store or the database takes long. Called any number of times."""

    def leave(self) -> str | None:
        """The worker ends now. None: the result is safe, and other workers record it. Otherwise what its
        operator needs to know."""

    def forget(self) -> object:
        """The result is recorded."""


class InMemory:
    """The core's own keeper: nothing is kept elsewhere."""

    def __init__(self, calls: EngineCalls, result: HostResult) -> None:
        pass

    def keep(self) -> None:
        pass

    def leave(self) -> str:
        return "it is lost"

    def forget(self) -> None:
        pass


class Keeping(Struct):
    """How paid results are kept."""

    begin: Callable[[EngineCalls, HostResult], Keeper] = InMemory
    keep_chunk: Callable[[WorkerContext, Claim, ChunkKey, dict[str, Any]], None] = lambda *_: None
    """Keeps a finished chunk that the database does not take in time."""


keeping = Keeping()
"""In this process."""
