"""The interface of an engine: what it implements, what it is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Result:
    """The result of a run: bytes, their media type, and metadata that is plain JSON (no NaN)."""

    media_type: str
    content: bytes
    metadata: dict[str, Any]
    duration_ms: int | None = None


class EngineError(Exception):
    """The engine cannot do this run; the host stays usable. `transient`: a retry may succeed."""

    def __init__(self, code: str, message: str, transient: bool = False) -> None:
        self.code = code
        self.message = message
        self.transient = transient
        super().__init__(message)


class InputError(EngineError):
    """The caller's input is at fault. The caller sees the message unchanged, so it contains no paths or
    exceptions.

    The messages of other errors are for the operator only. `code` is nothing_to_speak or input_unreadable,
    or, for a chat, context_exceeded.
    """


class Cancelled(Exception):
    """The run was cancelled, and stopped."""


class OutcomeUnknown(Exception):
    """A metered engine cannot say whether its call was carried out and charged."""


class Run(Protocol):
    """One run, as the engine sees it.

    `run_id` identifies it among all runs; an engine can pass it as an idempotency key to an upstream that
    charges.
    """

    @property
    def run_id(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...

    @property
    def inputs(self) -> dict[str, bytes]: ...

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        """Send a final piece of the result, in order. May block while the reader is slow.

        Of speech: a WAV, if `stream` is asked for. Of a recognition, optional: UTF-8 text, with `start` and
        `end` in seconds of the chunk as metadata, so that a caller can read it while the job runs.
        """

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        """Report progress."""

    def check_cancelled(self) -> None:
        """Raise Cancelled if the run was cancelled. Cheap: call it often."""


class Engine(Protocol):
    """A loaded model.

    Two optional attributes are read once after loading: `info`, a JSON object for display, and `concurrency`,
    how many runs it takes at once, each in its own thread (default 1: all runs are in the main thread).
    """

    def __init__(self, options: dict[str, Any]) -> None:
        """Load the weights; `options["weights"]` maps their names to paths."""

    def run(self, run: Run) -> Result:
        """Do one run. Raises EngineError, Cancelled or OutcomeUnknown; any other exception is
        `engine_failed`."""
