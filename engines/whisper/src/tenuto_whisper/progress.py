"""How far a run is: the seconds of its audio whose text is final, and has been reported."""

from __future__ import annotations

from tenuto_engine import Run


class Progress:
    """Reports to a run. A stage without text of its own repeats the latest figure, as a sign of life."""

    def __init__(self, run: Run, length_s: float) -> None:
        self._run = run
        self._length_s = length_s
        self._latest = 0

    def report(self, stage: str, done_s: float = 0.0) -> None:
        """The first `done_s` seconds are final. What is reported never falls."""
        self._latest = max(self._latest, int(min(done_s, self._length_s)))
        self._run.progress(stage, self._latest, max(1, int(self._length_s)), "seconds")
