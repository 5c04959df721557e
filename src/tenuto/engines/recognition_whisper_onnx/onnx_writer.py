"""Writes ONNX models: a graph of operators as the bytes that a runtime loads. Knows no particular network.

ONNX is a handful of protocol buffers (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), and a protocol
buffer is a list of numbered fields; so what is needed here is short, and the package `onnx` is not needed.
Large arrays do not stand in the bytes: the runtime is handed them as they are in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_IR_VERSION = 10
_OPSETS = {"": 20, "com.microsoft": 1}
_KINDS = {"float32": 1, "int64": 7}
_EXTERNAL = 1
_FLOAT, _INT, _STRING, _INTS = 1, 2, 3, 7
"""AttributeProto.AttributeType."""


class Graph:
    """A graph that is being built; values are named, and operators give the name of what they make."""

    def __init__(self) -> None:
        self.weights: dict[str, npt.NDArray[Any]] = {}
        """The arrays that the runtime is to be handed beside the bytes."""
        self._nodes: list[bytes] = []
        self._small: list[bytes] = []
        self._inputs: list[bytes] = []
        self._outputs: list[bytes] = []
        self._count = 0

    def input(self, name: str, kind: str, shape: Sequence[int | str]) -> str:
        """A value that every run is given. A name in the shape stands for a size that may differ."""
        self._inputs.append(_value(name, kind, shape))
        return name

    def output(self, value: str, name: str, kind: str, shape: Sequence[int | str]) -> None:
        """Give a value out under a name."""
        self._nodes.append(_node("Identity", [value], [name], "", {}))
        self._outputs.append(_value(name, kind, shape))

    def weight(self, array: npt.NDArray[np.float32]) -> str:
        """An array that may be large."""
        name = self._fresh("weight")
        self.weights[name] = np.ascontiguousarray(array)
        return name

    def constant(self, values: Any, kind: str = "int64") -> str:
        """A small array, within the bytes."""
        array = np.asarray(values, kind)
        name = self._fresh("constant")
        self._small.append(_tensor(name, array) + _bytes(9, array.tobytes()))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """An operator with one result."""
        return self.add_many(operator, 1, *inputs, domain=domain, **attributes)[0]

    def add_many(
        self, operator: str, count: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """An operator with several results."""
        names = [self._fresh(operator) for _ in range(count)]
        self._nodes.append(_node(operator, inputs, names, domain, attributes))
        return names

    def content(self) -> bytes:
        """The model's bytes, without its weights."""
        external = [_tensor(name, array) + _elsewhere(array) for name, array in self.weights.items()]
        graph = b"".join(
            [
                *(_bytes(1, node) for node in self._nodes),
                _text(2, "graph"),
                *(_bytes(5, tensor) for tensor in [*self._small, *external]),
                *(_bytes(11, value) for value in self._inputs),
                *(_bytes(12, value) for value in self._outputs),
            ]
        )
        opsets = (_bytes(8, _text(1, domain) + _int(2, version)) for domain, version in _OPSETS.items())
        return _int(1, _IR_VERSION) + _bytes(7, graph) + b"".join(opsets)

    def _fresh(self, name: str) -> str:
        self._count += 1
        return f"{name}_{self._count}"


def _node(
    operator: str, inputs: Iterable[str], outputs: Iterable[str], domain: str, attributes: dict[str, Any]
) -> bytes:
    return b"".join(
        [
            *(_text(1, name) for name in inputs),
            *(_text(2, name) for name in outputs),
            _text(4, operator),
            *(_bytes(5, _attribute(name, value)) for name, value in attributes.items()),
            _text(7, domain),
        ]
    )


def _attribute(name: str, value: float | int | str | Sequence[int]) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + _tag(2, 5) + np.float32(value).tobytes() + _int(20, _FLOAT)
    if isinstance(value, int):
        return _text(1, name) + _int(3, value) + _int(20, _INT)
    if isinstance(value, str):
        return _text(1, name) + _text(4, value) + _int(20, _STRING)
    return _text(1, name) + b"".join(_int(8, each) for each in value) + _int(20, _INTS)


def _value(name: str, kind: str, shape: Sequence[int | str]) -> bytes:
    sizes = (_text(2, size) if isinstance(size, str) else _int(1, size) for size in shape)
    tensor = _int(1, _KINDS[kind]) + _bytes(2, b"".join(_bytes(1, size) for size in sizes))
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _tensor(name: str, array: npt.NDArray[Any]) -> bytes:
    sizes = b"".join(_int(1, size) for size in array.shape)
    return sizes + _int(2, _KINDS[array.dtype.name]) + _text(8, name)


def _elsewhere(array: npt.NDArray[Any]) -> bytes:
    """What says that the numbers come from outside. No file of that name is ever opened."""
    entries = {"location": "in memory", "offset": "0", "length": str(array.nbytes)}
    said = (_bytes(13, _text(1, key) + _text(2, value)) for key, value in entries.items())
    return b"".join(said) + _int(14, _EXTERNAL)


def _int(field: int, value: int) -> bytes:
    return _tag(field, 0) + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _tag(field, 2) + _varint(len(value)) + value


def _tag(field: int, wire: int) -> bytes:
    return _varint(field << 3 | wire)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
