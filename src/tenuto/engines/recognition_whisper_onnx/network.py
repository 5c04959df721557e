"""Whisper, loaded: spectra in, tokens out, step by step. Knows no text, nor which token to take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from . import graphs
from .model_file import Floats, ModelFile
from .onnx_writer import Graph

Integers = npt.NDArray[np.int64]

_BARRED = -1e9


@dataclass(slots=True)
class Heard:
    """What the encoder made of windows of sound."""

    windows: int
    states: dict[str, Any]

    def only(self, kept: list[int]) -> Heard:
        """Some of the windows, in the order given."""
        states = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value.numpy()[kept]))
            for name, value in self.states.items()
        }
        return Heard(len(kept), states)


@dataclass(slots=True)
class Step:
    """What the decoder says after a token: see graphs.decoder."""

    scores: Floats
    choices: Integers
    specials: Floats


class Network:
    """Both halves, on a CPU."""

    def __init__(self, path: Path, threads: int, *, candidates: int, specials: tuple[int, int]) -> None:
        model = ModelFile(path)
        self._layers, self._heads = model.layers("decoder"), model.heads("decoder")
        self.words, self._width = model["decoder/embeddings/weight"].shape
        self._encoder = _loaded(graphs.encoder(model), threads)
        self._decoder = _loaded(graphs.decoder(model, candidates=candidates, specials=specials), threads)
        self._outputs = [output.name for output in self._decoder.get_outputs()]

    def hear(self, windows: list[Floats]) -> Heard:
        """Encode spectra [80, 3000], one window at a time: together they would only take more memory."""
        states: dict[str, Floats] = {}
        names = [output.name for output in self._encoder.get_outputs()]
        for index, spectra in enumerate(windows):
            for name, state in zip(names, self._encoder.run(None, {"spectra": spectra[None]}), strict=True):
                if name not in states:
                    states[name] = np.empty((len(windows), *state.shape[1:]), np.float32)
                states[name][index] = state[0]
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(state) for name, state in states.items()}
        return Heard(len(windows), values)

    def past(self, rows: int) -> Past:
        """No tokens yet."""
        size = self._width // self._heads
        nothing = np.zeros((rows, self._heads, 0, size), np.float32)
        names = [f"{kind}_{index}" for index in range(self._layers) for kind in ("key", "value")]
        return Past(0, {name: onnxruntime.OrtValue.ortvalue_from_numpy(nothing) for name in names})

    def step(
        self,
        heard: Heard,
        past: Past,
        *,
        tokens: Integers,
        parents: Integers,
        barred: Floats,
        opening: int = 0,
    ) -> tuple[Step, Past]:
        """Add tokens [rows, new], each row going on from a row of the past.

        `opening` is the place among the new tokens for which the special tokens' probabilities are wanted.
        """
        rows, new = tokens.shape
        total = past.length + new
        size = self._width // self._heads
        feed = {
            "tokens": tokens,
            "places": np.arange(past.length, total),
            "ahead": np.triu(np.full((new, total), _BARRED, np.float32), past.length + 1),
            "parents": parents,
            "by_window": np.array([heard.windows, rows // heard.windows * new, self._heads, size]),
            "by_row": np.array([rows, new, self._width]),
            "at": np.array([new - 1]),
            "opening": np.array([opening]),
            "barred": barred,
        }
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in feed.items()}
        values |= heard.states
        values |= {f"past_{name}": value for name, value in past.values.items()}
        made = dict(zip(self._outputs, self._decoder.run_with_ort_values(None, values), strict=True))
        after = Past(total, {name: made[f"next_{name}"] for name in past.values})
        said = Step(*(made[name].numpy() for name in ("scores", "choices", "specials")))
        return said, after


@dataclass(slots=True)
class Past:
    """What the decoder keeps of the tokens so far."""

    length: int
    values: dict[str, Any]


def _loaded(graph: Graph, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    # Threads that wait in a loop would take a third more processor time, and other engines need it.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    content = graph.content()
    names, values = list(graph.weights), []
    for name in names:  # each array is let go when the runtime has it: together they would be there twice
        values.append(onnxruntime.OrtValue.ortvalue_from_numpy(graph.weights.pop(name)))
    options.add_external_initializers(names, values)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
