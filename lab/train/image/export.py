"""Step 7: writes what ships: four ONNX files and the names of the concepts, with their hashes for the
manifest.

`python -m lab.train.image.export` takes the averaged generator, stores large matrices as 8-bit numbers with a
scale a column and all other weights as 16-bit ones, and compares every file with the network that it came
from.
"""

import hashlib
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from lab.train.image import art, latents
from lab.train.image.concepts import LANGUAGES, concepts
from lab.train.image.network import Generator, Upscaler
from lab.train.image.places import SHIPPED, work
from lab.train.image.projector import Projector
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

_MATRIX = 100_000
"""Weights with more numbers than this are stored in 8 bits, if they are matrices."""
_SMALL = 256


class _ByNumber(nn.Module):
    """The generator, asked with the numbers of concepts and styles."""

    def __init__(self, network: Generator) -> None:
        super().__init__()
        self.network = network

    def forward(self, noisy: Tensor, time: Tensor, concept: Tensor, style: Tensor) -> Tensor:
        found: Tensor = self.network(noisy, time, self.network.concepts(concept), self.network.styles(style))
        return found


class Decoder(nn.Module):
    """[n, 4, 64, 64] of [n, 1280]: `latents.unflat` as a network."""

    def __init__(self, kept: dict[str, Any]) -> None:
        super().__init__()
        self.register_buffer(
            "components", torch.tensor(kept["components"] * kept["scale"], dtype=torch.float32)
        )
        self.register_buffer("mean", torch.tensor(kept["mean"], dtype=torch.float32))
        self.register_buffer("axes", torch.tensor(np.linalg.inv(latents.AXES).astype(np.float32)))

    def forward(self, numbers: Tensor) -> Tensor:
        side, pixels = latents.SIDE, latents.SIDE**2
        rows = numbers @ self.components + self.mean
        bright = rows[:, :pixels].view(-1, 1, side, side)
        alpha = rows[:, pixels : 2 * pixels].view(-1, 1, side, side)
        colours = rows[:, 2 * pixels :].view(-1, 2, side // 2, side // 2) / 2
        colours = functional.interpolate(colours, scale_factor=2.0, mode="nearest")
        axes = torch.cat([bright, colours], 1)
        rgb = functional.conv2d(axes, self.axes[:, :, None, None])
        return torch.cat([rgb, alpha], 1).clamp(0, 1)


def main() -> None:
    warnings.filterwarnings("ignore")
    SHIPPED.mkdir(parents=True, exist_ok=True)
    state = torch.load(work("runs", "pictograms.pt"), map_location="cpu", weights_only=True)
    network = Generator(len(concepts()), len(art.GENERATOR_STYLES))
    network.load_state_dict(state["average"])
    lifted = torch.load(work("projector.pt"), weights_only=True)
    projector = Projector(len(concepts()), lifted["mean"], lifted["spread"])
    projector.load_state_dict(lifted)
    upscaler = Upscaler()
    upscaler.load_state_dict(torch.load(work("upscaler.pt"), weights_only=True)["network"])
    one = torch.zeros(2, dtype=torch.int64)
    noise = torch.randn(2, latents.DIMENSIONS, generator=torch.Generator().manual_seed(1))
    _write(
        "generator",
        _ByNumber(network),
        {"noisy": noise, "time": torch.tensor([0.0, 0.5]), "concept": one, "style": one},
        "clean",
    )
    _write("decoder", Decoder(latents.load()), {"numbers": noise}, "picture")
    _write("words", projector, {"encoding": functional.normalize(torch.randn(2, 384), dim=1)}, "likeness")
    _write("upscaler", upscaler, {"small": torch.rand(2, 4, 64, 64)}, "large", moving=("small", "large"))
    (SHIPPED / "concepts.json").write_text(json.dumps(_about(), ensure_ascii=False, indent=0) + "\n", "utf-8")
    print(f"trained {state['step']} steps in {state['seconds']:.0f} s")
    _tell_hashes()


def _about() -> dict[str, Any]:
    """What the engine must know: the labels in order, and which names mean which concept as they stand."""
    names: dict[str, int] = {}
    for number, concept in enumerate(concepts()):
        for language in LANGUAGES:
            for word in concept.everyday.get(language, []):
                names.setdefault(word.lower(), number)
    for number, concept in enumerate(concepts()):
        for name in concept.names.values():
            names.setdefault(name.lower(), number)
    labels = [concept.label for concept in concepts()]
    return {
        "numbers": latents.DIMENSIONS,
        "styles": list(art.GENERATOR_STYLES),
        "labels": labels,
        "names": names,
    }


def _write(
    name: str, network: nn.Module, fed: dict[str, Tensor], output: str, moving: tuple[str, ...] = ()
) -> None:
    """One file, and how far its output is from the network's."""
    network.eval()
    axes = {key: {0: "n"} | ({2: "h", 3: "w"} if key in moving else {}) for key in (*fed, output)}
    buffer = io.BytesIO()
    torch.onnx.export(
        network, tuple(fed.values()), buffer, input_names=list(fed), output_names=[output],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip
    model = onnx.load_from_string(buffer.getvalue())
    _pack(model)
    path = SHIPPED / f"{name}.onnx"
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    found = session.run(None, {key: value.numpy() for key, value in fed.items()})[0]
    with torch.no_grad():
        wanted = network(*fed.values()).numpy()
    error = float(np.sqrt(np.square(found - wanted).mean() / np.square(wanted).mean()))
    print(f"{name}: {path.stat().st_size / 1e6:.2f} MB, relative error {error:.1e}")


def _pack(model: onnx.ModelProto) -> None:
    """Replaces weights by smaller ones and the nodes that restore them."""
    graph = model.graph
    nodes, kept = [], []
    for tensor in list(graph.initializer):
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < _SMALL:
            kept.append(tensor)
        elif values.ndim == 2 and values.size > _MATRIX:
            # A matrix as rows @ matrix has its outputs along the second axis, one of a Gemm along the first.
            axis = 0 if _is_transposed(graph, tensor.name) else 1
            scale = np.abs(values).max(1 - axis).clip(1e-12) / 127
            packed = np.round(values / np.expand_dims(scale, 1 - axis)).astype(np.int8)
            kept.append(numpy_helper.from_array(packed, f"{tensor.name}_8"))
            kept.append(numpy_helper.from_array(scale.astype(np.float32), f"{tensor.name}_scale"))
            inputs = [f"{tensor.name}_8", f"{tensor.name}_scale"]
            nodes.append(helper.make_node("DequantizeLinear", inputs, [tensor.name], axis=axis))
        else:
            kept.append(numpy_helper.from_array(values.astype(np.float16), f"{tensor.name}_16"))
            nodes.append(helper.make_node("Cast", [f"{tensor.name}_16"], [tensor.name], to=TensorProto.FLOAT))
    del graph.initializer[:]
    graph.initializer.extend(kept)
    after = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *after])


def _is_transposed(graph: onnx.GraphProto, name: str) -> bool:
    for node in graph.node:
        if name in node.input:
            if node.op_type == "Gemm":
                return any(one.name == "transB" and one.i for one in node.attribute)
            return node.op_type == "Gather"
    return False


def _tell_hashes() -> None:
    total = 0
    for path in sorted(Path(SHIPPED).iterdir()):
        size, digest = path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()
        total += size
        print(f'"{path.name}" = {{ size_bytes = {size}, sha256 = "{digest}" }}')
    print(f"{total / 1e6:.2f} MB in all")


if __name__ == "__main__":
    main()
