"""The examination of one subject: its process, which checks share, and the runs that they compare with."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tenuto_engine.conformance.process import EngineProcess, Nonconformance, Outcome
from tenuto_engine.conformance.samples import Sample, sample_of
from tenuto_engine.conformance.subject import Subject


class Trial:
    """Use it in a `with` block: at its end nothing of the engine is left."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.sample: Sample = sample_of(subject)
        self.info: dict[str, Any] = {}
        self._process: EngineProcess | None = None
        self._first: Outcome | None = None

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.drop()

    @property
    def process(self) -> EngineProcess:
        """The process with the loaded engine; a new one if there is none."""
        if self._process is None:
            self._process = EngineProcess(self.subject)
            try:
                self.info = self._process.load()
            except BaseException:
                self.drop()
                raise
        return self._process

    def drop(self) -> None:
        """End the process; the next check starts another."""
        if self._process is not None:
            process, self._process = self._process, None
            process.close()

    def first(self) -> Outcome:
        """The plain run, which several checks look at."""
        if self._first is None:
            self._first = self.result()
        return self._first

    def result(
        self, changes: Mapping[str, Any] | None = None, inputs: Mapping[str, bytes] | None = None
    ) -> Outcome:
        """A run with these changes, which must give a result. Raises Nonconformance."""
        outcome = self.run(changes, inputs)
        if outcome.type != "result":
            what = f" with {', '.join(changes)} changed" if changes else ""
            message = outcome.header.get("message", "")
            raise Nonconformance(f"a run{what} ended as {outcome.type} and gave no result: {message}")
        return outcome

    def run(
        self, changes: Mapping[str, Any] | None = None, inputs: Mapping[str, bytes] | None = None
    ) -> Outcome:
        """A run with these changes; a process that was lost or hangs is not used again."""
        try:
            return self.process.run(
                {**self.sample.parameters, **(changes or {})}, {**self.sample.inputs, **(inputs or {})}
            )
        except Nonconformance:
            self.drop()
            raise
