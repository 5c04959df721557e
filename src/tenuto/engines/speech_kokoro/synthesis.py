"""The Kokoro model: symbols and a style in, samples out. Knows no text and no language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from tenuto_host import EngineError

from .audio import Samples
from .styles import Style


class Synthesis:
    """A loaded model. `load` reads the weights; `speak` may be called as often as wished, one call at a
    time."""

    def __init__(self, model: Path, vocabulary: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self._run_options = onnxruntime.RunOptions()
        # What a long segment took is given back after it, or the memory of all shapes would add up.
        self._run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._vocabulary: dict[str, int] = json.loads(vocabulary.read_text("utf-8"))["vocab"]

    def known(self, phonemes: str) -> str:
        """The symbols that the model has."""
        return "".join(symbol for symbol in phonemes if symbol in self._vocabulary)

    def speak(self, phonemes: str, style: Style, speed: float) -> Samples:
        """Say known symbols (1 to 505 of them). `speed` 2 halves the durations."""
        tokens = [self._vocabulary[symbol] for symbol in phonemes]
        feed: dict[str, Any] = {
            "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
            "style": style[len(tokens) - 1],
            "speed": np.array([speed], dtype=np.float32),
        }
        samples: Samples = self._session.run(None, feed, self._run_options)[0].reshape(-1)
        if not np.isfinite(samples).all():
            raise EngineError(
                "invalid_output", "The model returned samples that are not numbers.", transient=True
            )
        return samples
