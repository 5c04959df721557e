"""Kokoro's convolutions as products of matrices: the file's integers, and the file's speech."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache
from tenuto_kokoro import graph, products

CACHE = default_cache()
MODEL = CACHE / "kokoro-v1.0-int8.onnx"
AS_THEY_ARE = {
    "/decoder/decoder/F0_conv/Conv_output_0_output_quantized",
    "/decoder/decoder/N_conv/Conv_output_0_output_quantized",
    "/decoder/decoder/generator/noise_convs.0/Conv_output_0_output_quantized",
}
"""Convolutions that take every second or sixth moment."""
TIMES = 24

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]


def computed(model: bytes, given: dict[str, Any]) -> list[npt.NDArray[Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = ENGINE_THREADS
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    found: list[npt.NDArray[Any]] = session.run(
        None, {at.name: given[at.name] for at in session.get_inputs()}
    )
    return found


def convolutions() -> dict[str, tuple[str, npt.NDArray[np.int16]]]:
    """By the name of a result: the value that is quantised for it, and its weights less their zero point."""
    found: dict[str, tuple[str, npt.NDArray[np.int16]]] = {}

    def look(nodes: Any, constant: graph.Constants) -> graph.Rewritten:
        makers = {output: each for each in nodes for output in each.outputs}
        for each in nodes:
            if each.type == "ConvInteger":
                value, name, _, zero = each.inputs
                weight, point = constant(name), constant(zero)
                assert weight is not None and point is not None
                signed = np.frombuffer(weight.content, np.uint8).astype(np.int16) - point.content[0]
                found[each.outputs[0]] = makers[value].inputs[0], signed.reshape(weight.shape)
        return list(nodes), []

    graph.part(MODEL, rewrite=look)
    return found


def rewritten() -> set[str]:
    found: set[str] = set()

    def look(nodes: Any, constant: graph.Constants) -> graph.Rewritten:
        made, constants = products.fast(nodes, constant)
        found.update(
            each.outputs[0].removesuffix("_rows") for each in made if each.outputs[0].endswith("_rows")
        )
        return made, constants

    graph.part(MODEL, rewrite=look)
    return found


def heaviest(weights: npt.NDArray[np.int16]) -> npt.NDArray[np.float32]:
    """[1, channels, times]: the highest input wherever the weights of that output and that moment of the
    kernel are positive whose two neighbours add up to most, and the lowest elsewhere."""
    outputs, channels, kernel = weights.shape
    positive = np.maximum(weights, 0)
    sums = positive[:, : channels // 2 * 2].reshape(outputs, -1, 2, kernel).sum(axis=2)
    sums = sums if sums.size else positive
    at, _, moment = np.unravel_index(sums.argmax(), sums.shape)
    pattern = (weights[at, :, moment] > 0).astype(np.float32)
    pattern[0 if pattern.all() else pattern.argmin()] = 0
    return np.repeat(pattern[None, :, None], TIMES, axis=2)


def test_every_convolution_has_the_files_integers() -> None:
    """With the inputs that weigh most, too, which would not fit into 16 bits with other weights."""
    of = convolutions()
    inputs = {value: (1, weights.shape[1], None) for value, weights in of.values()}
    given = {value: heaviest(weights) for value, weights in of.values()}
    expected = computed(graph.part(MODEL, list(of), inputs=inputs), given)
    actual = computed(graph.part(MODEL, list(of), inputs=inputs, rewrite=products.fast), given)

    assert AS_THEY_ARE == of.keys() - rewritten()
    assert [True] * len(of) == [np.array_equal(*pair) for pair in zip(expected, actual, strict=True)]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([65, 63], True),
        ([65, 64], False),
        ([-64, -64], True),
        ([-65, -64], False),
        ([127, -127], True),
        ([1], False),
    ],
)
def test_weights_whose_products_could_overflow_are_left_alone(rows: list[int], expected: bool) -> None:
    """Of two neighbours, each times 255, the sum must fit into 16 bits."""
    assert expected is products.is_exact(np.array([rows], np.int8).T)
