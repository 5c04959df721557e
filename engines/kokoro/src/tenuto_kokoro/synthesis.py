"""The Kokoro model: symbols and a style in, samples out. Knows no text and no language."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from tenuto_engine import EngineError

from . import graph
from .audio import Samples
from .styles import Style

DURATIONS = "/encoder/predictor/ReduceSum_output_0"
"""The model's inner value that says how long each symbol lasts, before the speed acts on it."""


class Synthesis:
    """A loaded model. `load` reads the weights; `speak` may be called as often as wished, one call at a
    time."""

    def __init__(self, model: Path, vocabulary: Path, threads: int) -> None:
        self._model = model
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._session = self._loaded(str(model))
        self._run_options = onnxruntime.RunOptions()
        # What a long segment took is given back after it, or the memory of all shapes would add up.
        self._run_options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
        self._vocabulary: dict[str, int] = json.loads(vocabulary.read_text("utf-8"))["vocab"]

    def known(self, phonemes: str) -> str:
        """The symbols that the model has."""
        return "".join(symbol for symbol in phonemes if symbol in self._vocabulary)

    def speak(self, phonemes: str, style: Style, speed: float) -> Samples:
        """Say known symbols (1 to 505 of them). `speed` 2 halves the durations."""
        feed = self._feed(phonemes, style, speed)
        samples: Samples = self._session.run(None, feed, self._run_options)[0].reshape(-1)
        if not np.isfinite(samples).all():
            raise EngineError(
                "invalid_output", "The model returned samples that are not numbers.", transient=True
            )
        return samples

    def durations(self, phonemes: str, style: Style) -> npt.NDArray[np.float32]:
        """How many frames each symbol would last at speed 1, unrounded, with the silence before and after."""
        feed = self._feed(phonemes, style, speed=1)
        found: npt.NDArray[np.float32] = self._timing.run([DURATIONS], feed)[0][0]
        return found

    @cached_property
    def _timing(self) -> onnxruntime.InferenceSession:
        """A sixth of the model, which takes a fiftieth of the time of all of it."""
        return self._loaded(graph.part(self._model, [DURATIONS]))

    def _loaded(self, model: str | bytes) -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(model, self._options, providers=["CPUExecutionProvider"])

    def _feed(self, phonemes: str, style: Style, speed: float) -> dict[str, Any]:
        tokens = [self._vocabulary[symbol] for symbol in phonemes]
        return {
            "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
            "style": style[len(tokens) - 1],
            "speed": np.array([speed], dtype=np.float32),
        }
