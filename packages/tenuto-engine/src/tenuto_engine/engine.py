"""What an engine is, what it is handed and what it gives back. Nothing here knows how a host talks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Result:
    """What a run made: the bytes, their media type, and metadata that is plain JSON (no NaN)."""

    media_type: str
    content: bytes
    metadata: dict[str, Any]
    duration_ms: int | None = None


class EngineError(Exception):
    """The engine cannot do this run; the host stays usable. `transient` says that trying again may help."""

    def __init__(self, code: str, message: str, transient: bool = False) -> None:
        self.code = code
        self.message = message
        self.transient = transient
        super().__init__(message)


class InputError(EngineError):
    """The caller's input is at fault. The message is shown to the caller as it is: no path, no exception.

    The message of any other error is for the operator alone. `code` is one of nothing_to_speak and
    input_unreadable, or, of a chat, context_exceeded.
    """


class Cancelled(Exception):
    """The run was asked to stop, and stopped."""


class OutcomeUnknown(Exception):
    """A metered engine cannot say whether its call was carried out and charged."""


class Run(Protocol):
    """One run, as the engine sees it.

    `run_id` names it, so that an upstream which charges can be given it as an idempotency key.
    """

    @property
    def run_id(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    @property
    def inputs(self) -> dict[str, bytes]: ...

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        """Show a piece of the result that is final, in order. May wait while the reader is behind."""

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        """Say how far the run is."""

    def check_cancelled(self) -> None:
        """Raise Cancelled when the run was asked to stop. Cheap: call it often."""


class Engine(Protocol):
    """A loaded model.

    Two optional attributes are read once after loading: `info`, a JSON object to show, and `concurrency`, how
    many runs it takes at once, each in its own thread (1 when absent: all runs come from the main thread).
    """

    def __init__(self, options: dict[str, Any]) -> None:
        """Load the weights; `options["weights"]` maps their names to paths."""

    def run(self, run: Run) -> Result:
        """Do one run. Raises EngineError, Cancelled or OutcomeUnknown; all else is `engine_failed`."""
