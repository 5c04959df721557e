"""Whisper's weights from CTranslate2's format into ggml's in 8 bits (Q8_0), which whisper.cpp reads.

Formats: `ctranslate2/specs/model_spec.py` (version 6) and `whisper.cpp/models/convert-h5-to-ggml.py`.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tenuto_engine_kit import mel

Array = npt.NDArray[Any]
Tensors = dict[str, Array]

MAGIC = 0x67676D6C
F32, F16, Q8_0 = 0, 1, 8
"""ggml's types of a tensor."""
MOSTLY_Q8_0 = 2007
"""ggml's type of a file; the thousands are the version of the quantisation."""
BLOCK = 32
"""Numbers that share a scale in Q8_0."""
BANDS, FFT, RATE = 80, 400, 16_000
AUDIO_FRAMES, TEXT_TOKENS, HEAD = 1500, 448, 64
TEXTS = 50_257
"""Tokens below are text; whisper.cpp knows the others by itself."""
WHOLE = {
    "encoder.conv1.bias",
    "encoder.conv2.bias",
    "encoder.positional_embedding",
    "decoder.positional_embedding",
}
"""Tensors with two dimensions that whisper.cpp wants as 32-bit numbers."""
_TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}


def write(folder: Path, path: Path) -> None:
    """The model of `folder` (model.bin, tokenizer.json) as one file."""
    given = _read(folder / "model.bin")
    width = given["decoder/embeddings/weight"].shape[1]
    encoder, decoder = (_layers(given, side) for side in ("encoder", "decoder"))
    heads = width // HEAD
    vocabulary = len(given["decoder/embeddings/weight"])
    audio = (AUDIO_FRAMES, width, heads, encoder)
    text = (TEXT_TOKENS, width, heads, decoder)
    filters = mel.slaney(BANDS, FFT, RATE).T.astype(np.float32)
    with path.open("wb") as file:
        file.write(struct.pack("<12i", MAGIC, vocabulary, *audio, *text, BANDS, MOSTLY_Q8_0))
        file.write(struct.pack("<2i", *filters.shape) + filters.tobytes())
        tokens = _tokens(folder / "tokenizer.json")
        file.write(struct.pack("<i", len(tokens)))
        for token in tokens:
            file.write(struct.pack("<i", len(token)) + token)
        for name, values in _tensors(given, encoder, decoder):
            _write(file, name, values)


def _read(path: Path) -> Tensors:
    """The tensors of a model of CTranslate2."""
    with path.open("rb") as file:

        def number(code: str) -> int:
            value: int = struct.unpack(f"<{code}", file.read(struct.calcsize(code)))[0]
            return value

        def text() -> str:
            return file.read(number("H")).rstrip(b"\0").decode()

        version, specification = number("I"), text()
        if (version, specification) != (6, "WhisperSpec"):
            raise ValueError(f"{path} has {specification} in version {version}, not WhisperSpec in version 6")
        number("I")  # revision
        tensors = {}
        for _ in range(number("I")):
            name = text()
            shape = [number("I") for _ in range(number("B"))]
            kind = _TYPES[number("B")]
            tensors[name] = np.frombuffer(file.read(number("I")), kind).reshape(shape)
        return tensors


def _layers(given: Tensors, side: str) -> int:
    return len(
        {name.split("/")[1] for name in given if name.startswith(f"{side}/layer_") and "/ffn/" in name}
    )


def _tokens(path: Path) -> list[bytes]:
    """The bytes of each text token. The file writes bytes that are not printable as other characters."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    byte_of = {chr(byte): byte for byte in plain} | {chr(256 + at): byte for at, byte in enumerate(others)}
    numbers: dict[str, int] = json.loads(path.read_text("utf-8"))["model"]["vocab"]
    texts = sorted((number, token) for token, number in numbers.items() if number < TEXTS)
    return [bytes(byte_of[character] for character in token) for _, token in texts]


def _tensors(given: Tensors, encoder: int, decoder: int) -> Iterator[tuple[str, Array]]:
    """In OpenAI's names. CTranslate2 keeps query, key and value of an attention as one matrix."""

    def pair(ours: str, theirs: str) -> Iterator[tuple[str, Array]]:
        return ((f"{ours}.{kind}", given[f"{theirs}/{kind}"]) for kind in ("weight", "bias"))

    def norm(ours: str, theirs: str) -> Iterator[tuple[str, Array]]:
        yield f"{ours}.weight", given[f"{theirs}/gamma"]
        yield f"{ours}.bias", given[f"{theirs}/beta"]

    def split(ours: str, theirs: str, parts: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
        for kind in ("weight", "bias"):
            values = np.split(given[f"{theirs}/{kind}"], len(parts))
            for part, value in zip(parts, values, strict=True):
                if (part, kind) != ("key", "bias"):  # always zero, and not in OpenAI's model
                    yield f"{ours}.{part}.{kind}", value

    for side, count in (("encoder", encoder), ("decoder", decoder)):
        yield f"{side}.positional_embedding", given[f"{side}/position_encodings/encodings"]
        yield from norm("encoder.ln_post" if side == "encoder" else "decoder.ln", f"{side}/layer_norm")
        for at in range(count):
            ours, theirs = f"{side}.blocks.{at}", f"{side}/layer_{at}"
            yield from norm(f"{ours}.attn_ln", f"{theirs}/self_attention/layer_norm")
            yield from split(f"{ours}.attn", f"{theirs}/self_attention/linear_0", ("query", "key", "value"))
            yield from pair(f"{ours}.attn.out", f"{theirs}/self_attention/linear_1")
            if side == "decoder":
                yield from norm(f"{ours}.cross_attn_ln", f"{theirs}/attention/layer_norm")
                yield from pair(f"{ours}.cross_attn.query", f"{theirs}/attention/linear_0")
                yield from split(f"{ours}.cross_attn", f"{theirs}/attention/linear_1", ("key", "value"))
                yield from pair(f"{ours}.cross_attn.out", f"{theirs}/attention/linear_2")
            yield from norm(f"{ours}.mlp_ln", f"{theirs}/ffn/layer_norm")
            yield from pair(f"{ours}.mlp.0", f"{theirs}/ffn/linear_0")
            yield from pair(f"{ours}.mlp.2", f"{theirs}/ffn/linear_1")
    for name in ("conv1", "conv2"):
        yield f"encoder.{name}.weight", given[f"encoder/{name}/weight"]
        yield f"encoder.{name}.bias", given[f"encoder/{name}/bias"].reshape(-1, 1)
    yield "decoder.token_embedding.weight", given["decoder/embeddings/weight"]


def _write(file: BinaryIO, name: str, values: Array) -> None:
    kind, content = F32, values.astype(np.float32).tobytes()
    if values.ndim >= 2 and name not in WHOLE:
        kind = Q8_0 if values.ndim == 2 else F16
        content = blocks(values) if kind == Q8_0 else values.astype(np.float16).tobytes()
    named = name.encode()
    file.write(struct.pack("<3i", values.ndim, len(named), kind))
    file.write(struct.pack(f"<{values.ndim}i", *reversed(values.shape)) + named + content)


def blocks(values: Array) -> bytes:
    """Q8_0: of 32 numbers at a time a 16-bit scale, then the numbers as multiples of it."""
    rows = values.astype(np.float32).reshape(-1, BLOCK)
    scales = np.abs(rows).max(axis=1, keepdims=True) / 127
    whole = np.round(np.divide(rows, scales, out=np.zeros_like(rows), where=scales > 0))
    found = np.empty(len(rows), np.dtype([("scale", "<f2"), ("numbers", "i1", BLOCK)]))
    found["scale"], found["numbers"] = scales[:, 0], whole
    return found.tobytes()
