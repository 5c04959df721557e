"""The Kokoro model: symbols and a style in, samples out. Knows no text and no language."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tenuto_engine import EngineError

from . import runtimes
from .audio import Samples
from .runtimes import DURATIONS, Feed
from .styles import Style

__all__ = ["DURATIONS", "Synthesis"]


class Synthesis:
    """A loaded model. `speak` may be called as often as wished, from several threads at once."""

    def __init__(
        self, model: Path, vocabulary: Path, threads: int, runtime: str = runtimes.ONNXRUNTIME
    ) -> None:
        self._runtime, self._reason = runtimes.loaded(model, threads, runtime)
        self._vocabulary: dict[str, int] = json.loads(vocabulary.read_text("utf-8"))["vocab"]

    @property
    def runtime(self) -> str:
        """The library that runs the model, and the reason if it is not the faster one that was asked for."""
        return f"{self._runtime.name}: {self._reason}" if self._reason else self._runtime.name

    def known(self, phonemes: str) -> str:
        """The symbols that the model has."""
        return "".join(symbol for symbol in phonemes if symbol in self._vocabulary)

    def speak(self, phonemes: str, style: Style, speed: float) -> Samples:
        """Say known symbols (1 to 505 of them). `speed` 2 halves the durations."""
        samples: Samples = self._runtime.samples(self._feed(phonemes, style, speed)).reshape(-1)
        if not np.isfinite(samples).all():
            raise EngineError(
                "invalid_output", "The model returned samples that are not numbers.", transient=True
            )
        return samples

    def durations(self, phonemes: str, style: Style) -> npt.NDArray[np.float32]:
        """How many frames each symbol would last at speed 1, unrounded, with the silence before and after."""
        found: npt.NDArray[np.float32] = self._runtime.durations(self._feed(phonemes, style, speed=1))[0]
        return found

    def _feed(self, phonemes: str, style: Style, speed: float) -> Feed:
        tokens = [self._vocabulary[symbol] for symbol in phonemes]
        return {
            "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
            "style": style[len(tokens) - 1],
            "speed": np.array([speed], dtype=np.float32),
        }
