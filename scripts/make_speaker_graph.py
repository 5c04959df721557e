"""Writes the graph of the speaker encoder, `speaker_encoder.onnx` in tenuto-engine-kit. Needs `onnx`.

    python scripts/make_speaker_graph.py

The graph holds no weights: each refers to bytes of `resemblyzer.pt`, which has PyTorch's old format, a pickle
and then the numbers. The offsets were read from the pickle once, with pickletools; the file is pinned by its
hash. The gates of an LSTM are in the order input, forget, cell, output in PyTorch, and input, output, forget,
cell in ONNX: the graph reorders them, which ONNX Runtime does once, when it loads it. Run by hand: the graph
changes only if the model does.
"""

from math import prod
from pathlib import Path

import onnx
from onnx import TensorProto, helper

GRAPH = Path(__file__).parents[1] / "packages/tenuto-engine-kit/src/tenuto_engine_kit/speaker_encoder.onnx"
FILE = "resemblyzer.pt"
BANDS, FRAMES, HIDDEN = 40, 160, 256
LINEAR_BIAS_AT, LINEAR_AT, LSTM_AT = 6699, 7731, 269883
LAYERS = 3
FLOAT_BYTES = 4


def main() -> None:
    """Write the graph."""
    nodes = [helper.make_node("Transpose", ["looks"], ["input0"], perm=[1, 0, 2])]
    for layer in range(LAYERS):
        nodes += lstm(layer)
    nodes += [
        helper.make_node("Squeeze", [f"last{LAYERS - 1}", "first"], ["last"]),
        helper.make_node("Gemm", ["last", "linear", "bias"], ["raw"], transB=1),
        helper.make_node("Relu", ["raw"], ["embedding"]),
    ]
    graph = helper.make_graph(
        nodes,
        "speaker_encoder",
        [helper.make_tensor_value_info("looks", TensorProto.FLOAT, ["looks", FRAMES, BANDS])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["looks", HIDDEN])],
        [*weights(), constant("first", 0), constant("second", 1)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    GRAPH.write_bytes(model.SerializeToString(deterministic=True))


def lstm(layer: int) -> list[onnx.NodeProto]:
    """One layer, with its gates in ONNX's order: all moments go to the next layer, the last to the end."""
    nodes = []
    for name in ("inner", "recurrent", "inner_bias", "recurrent_bias"):
        gates = [f"{name}{layer}.{gate}" for gate in ("input", "forget", "cell", "output")]
        ordered = [gates[0], gates[3], gates[1], gates[2]]
        nodes.append(helper.make_node("Split", [f"{name}{layer}.torch"], gates, axis=1, num_outputs=4))
        nodes.append(helper.make_node("Concat", ordered, [f"{name}{layer}"], axis=1))
    biases = [f"inner_bias{layer}", f"recurrent_bias{layer}"]
    nodes.append(helper.make_node("Concat", biases, [f"bias{layer}"], axis=1))
    inputs = [f"input{layer}", f"inner{layer}", f"recurrent{layer}", f"bias{layer}"]
    outputs = [f"all{layer}", f"last{layer}"]
    nodes.append(helper.make_node("LSTM", inputs, outputs, hidden_size=HIDDEN))
    if layer + 1 < LAYERS:
        nodes.append(helper.make_node("Squeeze", [f"all{layer}", "second"], [f"input{layer + 1}"]))
    return nodes


def weights() -> list[TensorProto]:
    """In the file: both matrices of each layer, then both biases of each; the last layer before them."""
    tensors = [stored("linear", (HIDDEN, HIDDEN), LINEAR_AT), stored("bias", (HIDDEN,), LINEAR_BIAS_AT)]
    shapes = [
        (f"{name}{layer}.torch", (1, 4 * HIDDEN, columns))
        for layer in range(LAYERS)
        for name, columns in (("inner", HIDDEN if layer else BANDS), ("recurrent", HIDDEN))
    ]
    shapes += [
        (f"{name}{layer}.torch", (1, 4 * HIDDEN))
        for layer in range(LAYERS)
        for name in ("inner_bias", "recurrent_bias")
    ]
    at = LSTM_AT
    for name, shape in shapes:
        tensors.append(stored(name, shape, at))
        at += FLOAT_BYTES * prod(shape)
    return tensors


def stored(name: str, shape: tuple[int, ...], at: int) -> TensorProto:
    """A tensor whose numbers are in the file, from this byte on."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.dims.extend(shape)
    where = {"location": FILE, "offset": str(at), "length": str(FLOAT_BYTES * prod(shape))}
    for key, value in where.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


def constant(name: str, axis: int) -> TensorProto:
    """An axis, as Squeeze takes it."""
    return helper.make_tensor(name, TensorProto.INT64, [1], [axis])


if __name__ == "__main__":
    main()
