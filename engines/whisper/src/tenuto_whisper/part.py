"""One run, from the audio of a chunk to its segments: detect, transcribe, check, separate speakers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto_engine import Run
from tenuto_engine_kit.recognition import report_piece
from tenuto_engine_kit.speaker_embedding import DIMENSIONS, SpeakerEncoder

from . import segments, speakers, timeline
from .chinese import simplified
from .placing import placed
from .progress import ENCODING, EVENTS, RECOGNITION, SPEAKERS, Costs, Progress
from .segments import Spoken
from .sound_events import FRAMES_PER_SECOND, Events
from .timeline import Window
from .transcription import BATCH, SAMPLE_RATE, Draft, Heard, Whisper, Word

Floats = npt.NDArray[np.float32]

SURE, SURE_AFTER_S = 0.8, 4.0
"""With this probability, and this much speech, the detected language of a window is trusted; otherwise the
languages of the chunk so far count, too."""
RARE = 0.05
"""The weight of a language that has not occurred before."""
UNHEARD_S = 2.0
"""Speech of at least this length without words is transcribed once more, separately."""
CLIPS = 32
"""Embeddings computed between two checks for cancellation."""
COSTS = Costs(events=0.0063, encoding=0.67, recognition=0.046, speakers=0.006)
"""Processor seconds, measured with two threads on people reading English."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A window, encoded, with the probability of each language."""

    window: Window
    heard: Heard
    languages: dict[str, float]


class Part:
    """The transcription of one chunk; used once."""

    def __init__(
        self, run: Run, samples: Floats, whisper: Whisper, events: Events, encoder: SpeakerEncoder
    ) -> None:
        self._run = run
        self._samples = samples
        self._length_s = len(samples) / SAMPLE_RATE
        self._progress = Progress(run, self._length_s, COSTS)
        self._levels = np.zeros(0, np.float32)
        """The loudness of each frame; measured first."""
        self._whisper = whisper
        self._events = events
        self._encoder = encoder
        self._votes: dict[str, float] = {}
        """Seconds of speech in each language so far."""
        self._repeated_s = self._unwritten_s = 0.0
        """Seconds of windows whose text repeats itself, and of speech without words."""

    def recognised(self) -> dict[str, Any]:
        """The result as JSON values."""
        probabilities = self._probabilities()
        self._levels = timeline.levels(self._samples, len(probabilities))
        windows = timeline.windows(timeline.voices(probabilities), self._levels, self._length_s)
        self._progress.expect(windows)
        words = self._words(windows, probabilities)
        spoken, embeddings = self._speakers(words, probabilities)
        found = [_segment(piece) for piece in segments.split(spoken)]
        taken = [(one["start"], one["end"]) for one in found]
        for (start, end), kind in timeline.others(probabilities, self._levels, taken):
            found.append({"start": start, "end": end, "text": "", "speaker": None, "type": kind})
        return {
            "language": max(self._votes, key=lambda code: self._votes[code]) if self._votes else None,
            "segments": self._in_order(found),
            "speakers": embeddings,
            "warnings": self._warnings(),
        }

    def _probabilities(self) -> Floats:
        """Speech, singing and music in each hundredth of a second."""
        pieces = [np.zeros((0, 3), np.float32)]
        for first, piece in self._events.probabilities(self._samples):
            self._run.check_cancelled()
            self._progress.report(EVENTS, (first + len(piece)) / FRAMES_PER_SECOND / self._length_s)
            pieces.append(piece)
        return np.concatenate(pieces)

    def _words(self, windows: Sequence[Window], probabilities: Floats) -> list[Word]:
        """The words of all windows that are in speech or singing, in order; reported as they come."""
        found, unreported = list[Word](), list[Word]()
        following = iter([*(window.start for window in windows[1:]), None])
        speech_s, written_s = sum(window.speech_s for window in windows), 0.0
        for batch in self._batches(windows):
            for one, words in zip(batch, self._written(batch, again=True), strict=True):
                voiced = [word for word in words if timeline.is_voiced(probabilities, (word.start, word.end))]
                voiced.sort(key=lambda word: word.start)
                found += voiced
                unreported = self._report([*unreported, *voiced], next(following))
                # Behind the text: it is stored with the progress.
                written_s += one.window.speech_s
                self._progress.report(RECOGNITION, written_s / speech_s)
        return found

    def _report(self, words: Sequence[Word], next_s: float | None) -> list[Word]:
        """Report words in pieces, and gives back those whose sentence may continue in the next window.

        `next_s`: where that window starts; None: this one was the last. Who speaks is not known yet, so the
        pieces may be longer than the segments of the result; their text is the same.
        """
        pieces = segments.split([Spoken(word, None) for word in words])
        is_open = pieces and next_s is not None and next_s - words[-1].end < segments.PAUSE_S
        last = [spoken.word for spoken in pieces.pop()] if is_open else []
        for piece in pieces:
            start, end = piece[0].word.start, max(spoken.word.end for spoken in piece)
            report_piece(self._run, start, min(end, self._length_s), segments.text(piece))
        return last

    def _batches(self, windows: Sequence[Window]) -> Iterator[list[Encoded]]:
        """The windows in batches, encoded. The one with most speech comes first and determines the expected
        language."""
        if not windows:
            return
        fullest = max(windows, key=lambda window: window.speech_s)
        first = self._encoded(fullest)
        self._vote(first)
        for start in range(0, len(windows), BATCH):
            batch = list[Encoded]()
            for number, window in enumerate(windows[start : start + BATCH], start + 1):
                batch.append(first if window is fullest else self._encoded(window))
                self._progress.report(ENCODING, number / len(windows))
            yield batch

    def _encoded(self, window: Window) -> Encoded:
        self._run.check_cancelled()
        start, end = round(window.start * SAMPLE_RATE), round(window.end * SAMPLE_RATE)
        heard = self._whisper.hear(self._samples[start:end])
        return Encoded(window, heard, self._whisper.detect(heard))

    def _written(self, batch: Sequence[Encoded], *, again: bool) -> Iterator[list[Word]]:
        """The words of each window of a batch. The languages are decided in order: each counts for the
        next."""
        languages = []
        for one in batch:
            languages.append(self._language(one))
            self._vote(one)
        self._run.check_cancelled()
        drafts = self._whisper.write(
            [(one.heard, language) for one, language in zip(batch, languages, strict=True)]
        )
        for one, language, draft in zip(batch, languages, drafts, strict=True):
            yield self._window_words(one, language, draft, again=again)

    def _window_words(self, one: Encoded, language: str, draft: Draft, *, again: bool) -> list[Word]:
        """A window's words. Speech that none of them covers is transcribed once more, separately."""
        window = one.window
        if draft.looping:
            self._repeated_s += window.speech_s
        words = placed(self._whisper.words(one.heard, language, draft), window)
        if language == "zh":
            words = [replace(word, text=simplified(word.text)) for word in words]
        missing = timeline.unheard(window, [(word.start, word.end) for word in words], UNHEARD_S)
        for span in missing:
            # The same audio again would give the same answer.
            if again and window.speech != (span,):
                alone = timeline.windows([span], self._levels, self._length_s)[0]
                words += [
                    word
                    for written in self._written([self._encoded(alone)], again=False)
                    for word in written
                    if span[0] <= (word.start + word.end) / 2 <= span[1]
                ]
            else:
                self._unwritten_s += span[1] - span[0]
        return words

    def _language(self, one: Encoded) -> str:
        """The language of a window, from its audio and the languages so far."""
        likely = max(one.languages, key=lambda code: one.languages[code])
        if one.languages[likely] >= SURE and one.window.speech_s >= SURE_AFTER_S:
            return likely
        total = sum(self._votes.values()) or 1.0
        return max(
            one.languages,
            key=lambda code: one.languages[code] * (RARE + self._votes.get(code, 0.0) / total),
        )

    def _vote(self, one: Encoded) -> None:
        for code, probability in one.languages.items():
            self._votes[code] = self._votes.get(code, 0.0) + probability * one.window.speech_s

    def _speakers(
        self, words: Sequence[Word], probabilities: Floats
    ) -> tuple[list[Spoken], dict[str, list[float]]]:
        """The words with S01, S02, … in the order of their first words, and the embedding of each speaker."""
        found = speakers.groups(words)
        spoken = [one for one in found if not timeline.is_sung(probabilities, (one.start, one.end))]
        embeddings = self._embeddings(spoken)
        numbers = speakers.assign(spoken, embeddings)
        self._progress.finish(SPEAKERS)
        labels: dict[int, str] = {}
        who: dict[int, str] = {}
        for group, number in zip(spoken, numbers, strict=True):
            label = labels.setdefault(number, f"S{len(labels) + 1:02}")
            who |= dict.fromkeys(range(group.first, group.last), label)
        centres = speakers.centres(spoken, numbers, embeddings)
        return (
            [Spoken(word, who.get(number)) for number, word in enumerate(words)],
            {label: [round(float(x), 5) for x in centres[number]] for number, label in labels.items()},
        )

    def _embeddings(self, found: Sequence[speakers.Group]) -> Floats:
        made = [np.zeros((0, DIMENSIONS), np.float32)]
        for start in range(0, len(found), CLIPS):
            self._run.check_cancelled()
            self._progress.report(SPEAKERS, start / len(found))
            clips = [speakers.clip(self._samples, group) for group in found[start : start + CLIPS]]
            made.append(self._encoder.embed_all(clips))
        return np.concatenate(made)

    def _in_order(self, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Sorted segments, with times inside the chunk, rounded to milliseconds."""
        for one in found:
            one["start"] = round(min(max(0.0, one["start"]), self._length_s), 3)
            one["end"] = round(min(max(one["start"], one["end"]), self._length_s), 3)
        return sorted(found, key=lambda one: (one["start"], one["end"]))

    def _warnings(self) -> list[str]:
        found = []
        if self._repeated_s:
            found.append(
                f"In {self._repeated_s:.0f} s of speech the text repeated itself; repeats were left out."
            )
        if self._unwritten_s:
            found.append(f"In {self._unwritten_s:.0f} s of what sounds like speech no words were understood.")
        return found


def _segment(piece: Sequence[Spoken]) -> dict[str, Any]:
    speaker = piece[0].speaker
    return {
        "start": piece[0].word.start,
        "end": max(spoken.word.end for spoken in piece),
        "text": segments.text(piece),
        "speaker": speaker,
        "type": "speech" if speaker else "singing",
    }
