"""A folder as Supertonic's, with tiny graphs that have the inputs and outputs of the real ones.

The graphs are written in ONNX's wire format (protocol buffers; field numbers of onnx.proto): a duration that
grows with the text, characters as floats, noise that is refined towards less, and a vocoder that lays out a
latent as samples.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

FLOAT, INT64 = 1, 7
RATE, CHUNK, COMPRESS, LATENT = 16_000, 64, 2, 64
STYLE = (1, 3, 4)
SECONDS_A_CHARACTER = 0.06


def write(folder: Path) -> Path:
    """The folder, with one voice."""
    (folder / "onnx").mkdir(parents=True)
    (folder / "voice_styles").mkdir()
    text = {"text_mask": FLOAT, "text_ids": INT64}
    graphs = {
        "duration_predictor": _model(
            [("Reshape", ["text_mask", "line"], "flat", {}),
             ("ReduceSum", ["flat"], "count", {"keepdims": 1}),
             ("Mul", ["count", "pace"], "duration", {})],
            {**text, "style_dp": FLOAT}, "duration",
            {"line": np.array([-1], np.int64), "pace": np.array([SECONDS_A_CHARACTER], np.float32)},
        ),
        "text_encoder": _model(
            [("Cast", ["text_ids"], "numbers", {"to": FLOAT}),
             ("Mul", ["numbers", "text_mask"], "text_emb", {})],
            {**text, "style_ttl": FLOAT}, "text_emb", {},
        ),
        "vector_estimator": _model(
            [("Mul", ["noisy_latent", "latent_mask"], "masked", {}),
             ("Mul", ["masked", "less"], "refined", {})],
            {"noisy_latent": FLOAT, "text_emb": FLOAT, "style_ttl": FLOAT, "text_mask": FLOAT,
             "latent_mask": FLOAT, "current_step": FLOAT, "total_step": FLOAT},
            "refined", {"less": np.array([0.9], np.float32)},
        ),
        "vocoder": _model(
            [("Transpose", ["latent"], "turned", {"perm": [0, 2, 1]}),
             ("Reshape", ["turned", "rows"], "wav", {})],
            {"latent": FLOAT}, "wav", {"rows": np.array([1, -1], np.int64)},
        ),
    }  # fmt: skip
    for name, content in graphs.items():
        (folder / "onnx" / f"{name}.onnx").write_bytes(content)
    settings = {
        "ae": {"sample_rate": RATE, "base_chunk_size": CHUNK},
        "ttl": {"chunk_compress_factor": COMPRESS, "latent_dim": LATENT},
    }
    (folder / "onnx" / "tts.json").write_text(json.dumps(settings))
    known = [number if number >= 32 else -1 for number in range(0x3100)]
    (folder / "onnx" / "unicode_indexer.json").write_text(json.dumps(known))
    style = {"dims": STYLE, "data": np.zeros(STYLE).tolist()}
    (folder / "voice_styles" / "F1.json").write_text(json.dumps({"style_ttl": style, "style_dp": style}))
    return folder


def _model(
    nodes: list[tuple[str, list[str], str, dict[str, Any]]],
    inputs: dict[str, int],
    output: str,
    constants: dict[str, Any],
) -> bytes:
    graph = b"".join(_field(1, _node(*one)) for one in nodes) + _field(2, b"tiny")
    for name, value in constants.items():
        kind = INT64 if value.dtype == np.int64 else FLOAT
        dimensions = b"".join(_number(1, size) for size in value.shape)
        tensor = dimensions + _number(2, kind) + _field(8, name.encode()) + _field(9, value.tobytes())
        graph += _field(5, tensor)
    graph += b"".join(_field(11, _value(name, kind)) for name, kind in inputs.items())
    graph += _field(12, _value(output, FLOAT))
    return _number(1, 8) + _field(8, _number(2, 13)) + _field(7, graph)


def _node(kind: str, inputs: list[str], output: str, attributes: dict[str, Any]) -> bytes:
    content = b"".join(_field(1, name.encode()) for name in inputs)
    content += _field(2, output.encode()) + _field(4, kind.encode())
    for name, value in attributes.items():
        values = value if isinstance(value, list) else [value]
        numbers = b"".join(_number(8 if isinstance(value, list) else 3, one) for one in values)
        type_number = 7 if isinstance(value, list) else 2
        content += _field(5, _field(1, name.encode()) + numbers + _number(20, type_number))
    return content


def _value(name: str, kind: int) -> bytes:
    """A value of a type, of any shape."""
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind)))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    written = b""
    while value > 0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])
