"""What keeps a paid result, from the engine's answer until it is recorded, when that takes too long.

The core keeps it in memory and waits. A feature that can keep it elsewhere as well sets `keeping.begin`,
before its process claims anything.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from tenuto.host.host import HostResult
from tenuto.worker.calls import EngineCalls


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


keeping = Keeping()
"""In this process."""
