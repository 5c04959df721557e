"""Whisper's two halves as graphs of operators (https://arxiv.org/abs/2212.04356). Knows no audio and no text.

The encoder turns half a minute of sound into what the decoder attends to. The decoder adds one token to each
row; a window has a row for each of its hypotheses, and all rows of a window share what was made of its sound.
"""

from __future__ import annotations

import numpy as np

from .model_file import ModelFile
from .onnx_writer import Graph

BANDS = 80
SPECTRA = 3000
"""Spectra in a window of 30 s."""
HEARD = 1500
"""What the encoder makes of them: half as many states."""
_EPSILON = 1e-5
_NEVER = -1e9


def encoder(model: ModelFile) -> Graph:
    """spectra [1, 80, 3000] → for each layer i of the decoder, key_i [1, heads, size, 1500] and value_i
    [1, heads, 1500, size]."""
    layers = _Layers(model, "encoder")
    graph, heads = layers.graph, model.heads("decoder")
    state = layers.sounds(graph.input("spectra", "float32", [1, BANDS, SPECTRA]))
    for index in range(model.layers("encoder")):
        state = layers.listening(f"encoder/layer_{index}", state)
    state = layers.normalised("encoder/layer_norm", state)
    apart = graph.constant([0, 0, heads, -1])
    for index in range(model.layers("decoder")):
        key, value = layers.projections(f"decoder/layer_{index}/attention/linear_1", state, 2)
        key = graph.add("Transpose", graph.add("Reshape", key, apart), perm=[0, 2, 3, 1])
        value = graph.add("Transpose", graph.add("Reshape", value, apart), perm=[0, 2, 1, 3])
        graph.output(key, f"key_{index}", "float32", [1, heads, "size", HEARD])
        graph.output(value, f"value_{index}", "float32", [1, heads, HEARD, "size"])
    return graph


def decoder(model: ModelFile, *, candidates: int, specials: tuple[int, int]) -> Graph:
    """One step of the decoder.

    Inputs: tokens [rows, new]; places [new], where they stand; ahead [new, all], 0 where a token may look at
    another, else a large negative number; parents [rows], which row of the past each row goes on from;
    past_key_i and past_value_i; key_i and value_i of the windows; by_window, the shape [windows, rows of a
    window × new, heads, size]; by_row, the shape [rows, new, width]; at [1], the token whose successors are
    wanted; opening [1], the token for which the specials are wanted; barred [rows, words], a large negative
    number for tokens that may not come.

    Outputs: scores and choices [rows, candidates], the likeliest next tokens and the logarithms of their
    probabilities; specials [rows, …], the logarithms for the tokens of that range, nothing barred (behind it
    stand the tokens of times); next_key_i and next_value_i, the past with the new tokens.
    """
    layers = _Layers(model, "decoder")
    graph = layers.graph
    meanings = graph.weight(model["decoder/embeddings/weight"].T)
    state = layers.embedded(meanings)
    graph.input("ahead", "float32", ["new", "all"])
    graph.input("parents", "int64", ["rows"])
    graph.input("by_window", "int64", [4])
    graph.input("by_row", "int64", [3])
    for index in range(model.layers("decoder")):
        state = layers.remembering(index, state)
        state = layers.attending(index, state)
        state = layers.widened(f"decoder/layer_{index}/ffn", state)
    state = layers.normalised("decoder/layer_norm", state)
    _special(graph, state, meanings, specials)
    _choices(graph, state, meanings, candidates, first_time=specials[1])
    return graph


class _Layers:
    """A graph that grows by whole layers of one half of the model."""

    def __init__(self, model: ModelFile, half: str) -> None:
        self.graph = Graph()
        self._model = model
        self._heads = model.heads(half)
        self._width = model["decoder/embeddings/weight"].shape[1]
        self._size = self._width // self._heads

    def sounds(self, spectra: str) -> str:
        """Two convolutions over time, the second at every other place, and where each state stands."""
        state = spectra
        for name, step in (("conv1", 1), ("conv2", 2)):
            weights = [self._weight(f"encoder/{name}/{part}") for part in ("weight", "bias")]
            state = self.graph.add("Conv", state, *weights, pads=[1, 1], strides=[step])
            state = self.graph.add("Gelu", state)
        state = self.graph.add("Transpose", state, perm=[0, 2, 1])
        return self.graph.add("Add", state, self._weight("encoder/position_encodings/encodings"))

    def listening(self, name: str, state: str) -> str:
        """A layer of the encoder: every state looks at all of them."""
        normal = self.normalised(f"{name}/self_attention/layer_norm", state)
        parts = self.projections(f"{name}/self_attention/linear_0", normal, 3)
        operator, domain = "MultiHeadAttention", "com.microsoft"
        attended = self.graph.add(operator, *parts, domain=domain, num_heads=self._heads)
        state = self.graph.add("Add", state, self._linear(f"{name}/self_attention/linear_1", attended))
        return self.widened(f"{name}/ffn", state)

    def embedded(self, meanings: str) -> str:
        """What tokens mean and where they stand. In the end states are compared with the same `meanings`
        [width, words], so those stand in memory once."""
        tokens = self.graph.input("tokens", "int64", ["rows", "new"])
        places = self.graph.input("places", "int64", ["new"])
        meant = self.graph.add(
            "Transpose", self.graph.add("Gather", meanings, tokens, axis=1), perm=[1, 2, 0]
        )
        placed = self.graph.add("Gather", self._weight("decoder/position_encodings/encodings"), places)
        return self.graph.add("Add", meant, placed)

    def remembering(self, index: int, state: str) -> str:
        """Attention to the tokens so far."""
        name, graph = f"decoder/layer_{index}/self_attention", self.graph
        normal = self.normalised(f"{name}/layer_norm", state)
        apart = graph.constant([0, 0, self._heads, self._size])
        query, key, value = (
            graph.add("Transpose", graph.add("Reshape", part, apart), perm=[0, 2, 1, 3])
            for part in self.projections(f"{name}/linear_0", normal, 3, scaled=self._size**-0.5)
        )
        key, value = self._with_past(f"key_{index}", key), self._with_past(f"value_{index}", value)
        scores = graph.add("MatMul", query, graph.add("Transpose", key, perm=[0, 1, 3, 2]))
        shares = graph.add("Softmax", graph.add("Add", scores, "ahead"), axis=-1)
        attended = graph.add("Transpose", graph.add("MatMul", shares, value), perm=[0, 2, 1, 3])
        attended = graph.add("Reshape", attended, graph.constant([0, 0, self._width]))
        return graph.add("Add", state, self._linear(f"{name}/linear_1", attended))

    def attending(self, index: int, state: str) -> str:
        """Attention to the sound: a window's rows stand in one matrix, for they look at the same states."""
        name, graph = f"decoder/layer_{index}/attention", self.graph
        normal = self.normalised(f"{name}/layer_norm", state)
        (query,) = self.projections(f"{name}/linear_0", normal, 1, scaled=self._size**-0.5)
        query = graph.add("Transpose", graph.add("Reshape", query, "by_window"), perm=[0, 2, 1, 3])
        key = graph.input(f"key_{index}", "float32", ["windows", self._heads, self._size, HEARD])
        value = graph.input(f"value_{index}", "float32", ["windows", self._heads, HEARD, self._size])
        shares = graph.add("Softmax", graph.add("MatMul", query, key), axis=-1)
        attended = graph.add("Transpose", graph.add("MatMul", shares, value), perm=[0, 2, 1, 3])
        attended = graph.add("Reshape", attended, "by_row")
        return graph.add("Add", state, self._linear(f"{name}/linear_2", attended))

    def widened(self, name: str, state: str) -> str:
        """Each state by itself, in four times as many numbers."""
        normal = self.normalised(f"{name}/layer_norm", state)
        wide = self.graph.add("Gelu", self._linear(f"{name}/linear_0", normal))
        return self.graph.add("Add", state, self._linear(f"{name}/linear_1", wide))

    def normalised(self, name: str, state: str) -> str:
        """States of mean 0 and deviation 1, scaled and shifted."""
        weights = [self._weight(f"{name}/{part}") for part in ("gamma", "beta")]
        return self.graph.add("LayerNormalization", state, *weights, axis=-1, epsilon=_EPSILON)

    def projections(self, name: str, state: str, count: int, scaled: float = 1.0) -> list[str]:
        """What one matrix makes of states, as its equal parts; the first of them scaled."""
        weights, bias = self._model[f"{name}/weight"].T, self._model[f"{name}/bias"]
        factors = np.ones(len(bias), np.float32)
        factors[: len(bias) // count] = scaled
        product = self.graph.add("MatMul", state, self.graph.weight(weights * factors))
        product = self.graph.add("Add", product, self.graph.weight(bias * factors))
        return self.graph.add_many("Split", count, product, axis=-1, num_outputs=count)

    def _with_past(self, name: str, new: str) -> str:
        shape = ["rows before", self._heads, "before", self._size]
        before = self.graph.add("Gather", self.graph.input(f"past_{name}", "float32", shape), "parents")
        whole = self.graph.add("Concat", before, new, axis=2)
        self.graph.output(whole, f"next_{name}", "float32", ["rows", self._heads, "all", self._size])
        return whole

    def _linear(self, name: str, state: str) -> str:
        product = self.graph.add("MatMul", state, self.graph.weight(self._model[f"{name}/weight"].T))
        return self.graph.add("Add", product, self._weight(f"{name}/bias"))

    def _weight(self, name: str) -> str:
        return self.graph.weight(self._model[name])


def _special(graph: Graph, state: str, meanings: str, specials: tuple[int, int]) -> None:
    """How likely the special tokens are after one of the new tokens."""
    first, last = (graph.constant([edge]) for edge in specials)
    opening = _position(graph, state, graph.input("opening", "int64", [1]))
    free = graph.add("LogSoftmax", graph.add("MatMul", opening, meanings), axis=-1)
    special = graph.add("Slice", free, first, last, graph.constant([1]))
    graph.output(special, "specials", "float32", ["rows", specials[1] - specials[0]])


def _choices(graph: Graph, state: str, meanings: str, candidates: int, *, first_time: int) -> None:
    """The likeliest next tokens.

    When all times together are likelier than any one word, a time comes next: Whisper's rule for when a
    segment ends.
    """
    axis, edge = graph.constant([1]), graph.constant([first_time])
    scores = graph.add("MatMul", _position(graph, state, graph.input("at", "int64", [1])), meanings)
    scores = graph.add("Add", scores, graph.input("barred", "float32", ["rows", "words"]))
    times = graph.add("Slice", scores, edge, graph.constant([2**62]), axis)
    texts = graph.add("Slice", scores, graph.constant([0]), edge, axis)
    ending = graph.add(
        "Greater",
        graph.add("ReduceLogSumExp", times, axis, keepdims=1),
        graph.add("ReduceMax", texts, axis, keepdims=1),
    )
    never, always = graph.constant([[_NEVER]], "float32"), graph.constant([[0]], "float32")
    texts = graph.add("Add", texts, graph.add("Where", ending, never, always))
    logarithms = graph.add("LogSoftmax", graph.add("Concat", texts, times, axis=1), axis=-1)
    best, which = graph.add_many("TopK", 2, logarithms, graph.constant([candidates]))
    graph.output(best, "scores", "float32", ["rows", candidates])
    graph.output(which, "choices", "int64", ["rows", candidates])


def _position(graph: Graph, state: str, index: str) -> str:
    return graph.add("Squeeze", graph.add("Gather", state, index, axis=1), graph.constant([1]))
