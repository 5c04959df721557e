"""How far a run is: the share of its work that is done, as seconds of its audio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenuto_engine import Run

from .timeline import WINDOW_S, Window

EVENTS, ENCODING, RECOGNITION, SPEAKERS = "events", "encoding", "recognition", "speakers"


@dataclass(frozen=True, slots=True)
class Costs:
    """What the stages take beside each other, in any unit: only their ratios count."""

    events: float
    """For a second of audio."""
    encoding: float
    """For a window: the encoder takes as long for a short one."""
    recognition: float
    """For a second of speech."""
    speakers: float = 0.0
    """For a second of speech."""

    def work(self, length_s: float, windows: float, speech_s: float) -> Mapping[str, float]:
        """What each stage takes in a run."""
        return {
            EVENTS: self.events * length_s,
            ENCODING: self.encoding * windows,
            RECOGNITION: self.recognition * speech_s,
            SPEAKERS: self.speakers * speech_s,
        }


class Progress:
    """Reports to a run. What is reported never falls."""

    def __init__(self, run: Run, length_s: float, costs: Costs) -> None:
        self._run = run
        self._length_s = length_s
        self._costs = costs
        # Until the windows are known, assume speech throughout.
        self._work = costs.work(length_s, length_s / WINDOW_S, length_s)
        self._done = dict.fromkeys(self._work, 0.0)
        self._latest = 0

    def expect(self, windows: Sequence[Window]) -> None:
        """These windows are to be transcribed."""
        speech_s = sum(window.speech_s for window in windows)
        self._work = self._costs.work(self._length_s, len(windows), speech_s)

    def report(self, stage: str, share: float) -> None:
        """This share of a stage is done."""
        self._done[stage] = max(self._done[stage], min(share, 1.0))
        done = sum(work * self._done[stage] for stage, work in self._work.items())
        share = done / (sum(self._work.values()) or 1.0)
        self._latest = max(self._latest, int(share * self._length_s + 1e-6))
        self._run.progress(stage, self._latest, max(1, int(self._length_s)), "seconds")

    def finish(self, stage: str) -> None:
        """All of it is done."""
        self._done = dict.fromkeys(self._work, 1.0)
        self.report(stage, 1.0)
