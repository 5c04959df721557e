"""The Kokoro model: symbols and a style in, samples out. Knows no text and no language."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tenuto_engine import EngineError

from .audio import Samples
from .model import RUNTIME, Feed, Model
from .styles import Style


class Synthesis:
    """A loaded model. `speak` may be called as often as wished, from several threads at once."""

    def __init__(self, model: Path, vocabulary: Path, threads: int) -> None:
        self._model = Model(model, threads)
        self._vocabulary: dict[str, int] = json.loads(vocabulary.read_text("utf-8"))["vocab"]

    @property
    def runtime(self) -> str:
        """The library that runs the model; if every load has to optimise it again, also the reason."""
        return f"{RUNTIME}: {self._model.reason}" if self._model.reason else RUNTIME

    def known(self, phonemes: str) -> str:
        """The symbols that the model has."""
        return "".join(symbol for symbol in phonemes if symbol in self._vocabulary)

    def speak(self, phonemes: str, style: Style, speed: float) -> Samples:
        """Say known symbols (1 to 505 of them). `speed` 2 halves the durations."""
        samples: Samples = self._model.samples(self._feed(phonemes, style, speed)).reshape(-1)
        if not np.isfinite(samples).all():
            raise EngineError(
                "invalid_output", "The model returned samples that are not numbers.", transient=True
            )
        return samples

    def durations(self, phonemes: str, style: Style) -> npt.NDArray[np.float32]:
        """How many frames each symbol would last at speed 1, unrounded, with the silence before and after."""
        found: npt.NDArray[np.float32] = self._model.durations(self._feed(phonemes, style, speed=1))[0]
        return found

    def _feed(self, phonemes: str, style: Style, speed: float) -> Feed:
        tokens = [self._vocabulary[symbol] for symbol in phonemes]
        return {
            "tokens": np.array([[0, *tokens, 0]], dtype=np.int64),
            "style": style[len(tokens) - 1],
            "speed": np.array([speed], dtype=np.float32),
        }
