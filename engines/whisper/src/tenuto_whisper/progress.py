"""How far a run is, in seconds of its audio, on one scale for all stages: it grows as the time spent does."""

from __future__ import annotations

from collections.abc import Mapping

from tenuto_engine import Run

ENCODING = 0.5
"""The share of a window's time that its encoding takes; the rest is decoding and word times."""


class Progress:
    """Reports to a run; `shares` are the stages in order, each with its share of the run's time."""

    def __init__(self, run: Run, length_s: float, shares: Mapping[str, float]) -> None:
        self._run = run
        self._length_s = length_s
        self._shares = shares
        self._latest = 0

    def report(self, stage: str, done: float) -> None:
        """`done` of this stage, 0 to 1, is finished. What is reported never falls."""
        before = 0.0
        for name, share in self._shares.items():
            if name == stage:
                break
            before += share
        reached = before + self._shares[stage] * min(1.0, done)
        self._latest = max(self._latest, int(self._length_s * reached / sum(self._shares.values())))
        self._run.progress(stage, self._latest, max(1, int(self._length_s)), "seconds")
