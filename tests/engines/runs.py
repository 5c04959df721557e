"""A run as an engine sees it, in the test's own process."""

from collections.abc import Callable, Mapping
from typing import Any

from tenuto_engine import Cancelled


class RecordedRun:
    """A run that keeps what the engine tells it, and is cancelled once `ends` says so."""

    run_id = "attempt_1"

    def __init__(
        self,
        parameters: Mapping[str, Any],
        inputs: dict[str, bytes] | None = None,
        ends: Callable[["RecordedRun"], bool] = lambda run: False,
    ) -> None:
        self.parameters = dict(parameters)
        self.inputs = inputs or {}
        self.segments: list[bytes] = []
        self.steps: list[tuple[str, int, int, str]] = []
        self._ends = ends

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        self.segments.append(content)

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        self.steps.append((stage, completed, total, unit))

    def check_cancelled(self) -> None:
        if self._ends(self):
            raise Cancelled
