"""A part of an ONNX model, cut out of its file: the nodes and weights that named values depend on.

Reads the file's wire format (protocol buffers) itself: the library that could is large and serves nothing
else. Knows no model.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Field numbers of onnx.proto: ModelProto.graph; GraphProto.node, .initializer, .input and .output;
# NodeProto.input and .output; TensorProto.name; ValueInfoProto.name.
GRAPH = 7
NODE, INITIALIZER, OUTPUT = 1, 5, 12
NODE_INPUT, NODE_OUTPUT = 1, 2
TENSOR_NAME, VALUE_NAME = 8, 1
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message: its number, all its bytes, and where its content starts in them."""

    number: int
    raw: memoryview
    content: memoryview


def part(path: Path, outputs: Sequence[str]) -> bytes:
    """The model that computes these inner values, and nothing that they do not need."""
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
    ):
        return b"".join(
            _field(GRAPH, _graph(field.content, outputs)) if field.number == GRAPH else bytes(field.raw)
            for field in _fields(content)
        )


def _graph(graph: memoryview, outputs: Sequence[str]) -> bytes:
    fields = list(_fields(graph))
    needed = set(outputs)
    nodes = []
    for field in reversed([field for field in fields if field.number == NODE]):  # they stand in order of use
        if needed & set(_names(field.content, NODE_OUTPUT)):
            needed |= set(_names(field.content, NODE_INPUT))
            nodes.append(field)
    kept = [
        bytes(field.raw)
        for field in fields
        if field.number not in (NODE, INITIALIZER, OUTPUT)
        or (field.number == INITIALIZER and needed & set(_names(field.content, TENSOR_NAME)))
    ]
    ends = [_field(OUTPUT, _field(VALUE_NAME, name.encode())) for name in outputs]
    return b"".join([*(bytes(node.raw) for node in reversed(nodes)), *kept, *ends])


def _names(message: memoryview, number: int) -> Iterator[str]:
    return (bytes(field.content).decode() for field in _fields(message) if field.number == number)


def _fields(message: memoryview) -> Iterator[Field]:
    start = 0
    while start < len(message):
        tag, at = _number(message, start)
        if tag & 7 == VARINT:
            _, end = _number(message, at)
        elif tag & 7 == BYTES:
            size, at = _number(message, at)
            end = at + size
        else:
            end = at + {FIXED_64: 8, FIXED_32: 4}[tag & 7]
        yield Field(tag >> 3, message[start:end], message[at:end])
        start = end


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, lowest first, and where it ends."""
    number, shift = 0, 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def _field(number: int, content: bytes) -> bytes:
    return _written(number << 3 | BYTES) + _written(len(content)) + content


def _written(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
