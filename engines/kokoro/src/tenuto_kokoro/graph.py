"""ONNX models, read and rewritten in their file's wire format (protocol buffers): a part cut out of one, and
other nodes in place of some.

The library that could is large and serves nothing else. Knows no model and runs none.
"""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

# Field numbers of onnx.proto: ModelProto.graph; GraphProto.node, .initializer, .input and .output;
# NodeProto.input, .output, .name, .op_type and .attribute; AttributeProto.name, .i, .ints and .type, and the
# types of an integer and of several; TensorProto.dims, .data_type, .int32_data, .name and .raw_data;
# ValueInfoProto.name and .type, TypeProto.tensor_type, its .elem_type and .shape, TensorShapeProto.dim and
# its .dim_value.
GRAPH = 7
NODE, INITIALIZER, INPUT, OUTPUT = 1, 5, 11, 12
NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_TYPE, NODE_ATTRIBUTE = 1, 2, 3, 4, 5
ATTRIBUTE_NAME, ATTRIBUTE_INTEGER, ATTRIBUTE_INTEGERS, ATTRIBUTE_TYPE = 1, 3, 8, 20
INTEGER_TYPE, INTEGERS_TYPE = 2, 7
TENSOR_DIMENSION, TENSOR_TYPE, TENSOR_INTEGERS, TENSOR_NAME, TENSOR_RAW = 1, 2, 5, 8, 9
VALUE_NAME, VALUE_TYPE, TENSOR_VALUE, ELEMENT_TYPE, TENSOR_SHAPE, SHAPE_DIMENSION, DIMENSION_SIZE = (
    1,
    2,
    1,
    1,
    2,
    1,
    1,
)
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5

ONE_BYTE = [bytes([number]) for number in range(128)]
"""Numbers that need no second byte."""

FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
"""Types of tensors."""


class Field(NamedTuple):
    """One field of a message: its number, all its bytes, and where its content starts in them."""

    number: int
    raw: memoryview
    content: memoryview


@dataclass(frozen=True, slots=True)
class Node:
    """One operation; an input that is left out has the name ""."""

    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    content: bytes
    """The message without what is above: attributes, the domain."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant: `content` holds its numbers, little-endian, in C order."""

    name: str
    type: int
    shape: tuple[int, ...]
    content: bytes


Shape = Sequence[int | None]
"""Of a value; None: a size that is not known beforehand."""

Constants = Callable[[str], Tensor | None]
Rewritten = tuple[list[Node], list[Tensor]]
Rewrite = Callable[[Sequence[Node], Constants], Rewritten]
"""Nodes, in order of use, and constants by name in; the new nodes and further constants out."""


def part(
    path: Path,
    outputs: Sequence[str] = (),
    *,
    inputs: Mapping[str, Shape] = MappingProxyType({}),
    rewrite: Rewrite | None = None,
) -> bytes:
    """The model that computes these inner values, and nothing that they do not need.

    No outputs: the model's own. `inputs`: inner values, floats, that are given to it instead of computed.
    `rewrite`: with other nodes.
    """
    target = io.BytesIO()
    write_part(path, target, outputs, inputs=inputs, rewrite=rewrite)
    return target.getvalue()


def write_part(
    path: Path,
    target: BinaryIO,
    outputs: Sequence[str] = (),
    *,
    inputs: Mapping[str, Shape] = MappingProxyType({}),
    rewrite: Rewrite | None = None,
) -> None:
    """Write a `part` to a file. What is the same as in the model's file is not copied before."""
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
    ):
        target.writelines(_model(content, outputs, inputs, rewrite))


def node(
    kind: str,
    inputs: Iterable[str],
    output: str,
    attributes: Mapping[str, int | Sequence[int]] = MappingProxyType({}),
    *,
    content: bytes = b"",
) -> Node:
    """A node with one output. `content`: another one's attributes."""
    for name, value in attributes.items():
        if isinstance(value, int):
            written = _integer(ATTRIBUTE_INTEGER, value) + _integer(ATTRIBUTE_TYPE, INTEGER_TYPE)
        else:
            written = b"".join(_integer(ATTRIBUTE_INTEGERS, number) for number in value)
            written += _integer(ATTRIBUTE_TYPE, INTEGERS_TYPE)
        content += _field(NODE_ATTRIBUTE, _field(ATTRIBUTE_NAME, name.encode()) + written)
    return Node(kind, tuple(inputs), (output,), content)


def integers(of: Node, name: str) -> list[int]:
    """The whole numbers of an attribute, or the one; none if the node lacks it."""
    for each in _fields(memoryview(of.content)):
        if each.number == NODE_ATTRIBUTE and name in _names(each.content, ATTRIBUTE_NAME):
            numbers = (ATTRIBUTE_INTEGER, ATTRIBUTE_INTEGERS)
            return [
                number for own in _fields(each.content) if own.number in numbers for number in _packed(own)
            ]
    return []


def _model(
    content: memoryview, outputs: Sequence[str], inputs: Mapping[str, Shape], rewrite: Rewrite | None
) -> Iterator[bytes | memoryview]:
    for field in _fields(content):
        if field.number == GRAPH:
            pieces = _graph(field.content, outputs, inputs, rewrite)
            yield _head(GRAPH, sum(map(len, pieces)))
            yield from pieces
        else:
            yield field.raw


def _graph(
    graph: memoryview, outputs: Sequence[str], inputs: Mapping[str, Shape], rewrite: Rewrite | None
) -> list[bytes | memoryview]:
    """The graph's bytes in pieces: nodes, constants that the file lacks, what is left of the file, inputs
    that are given, outputs."""
    fields = list(_fields(graph))
    nodes: list[tuple[Node, memoryview | None]] = [
        (_node(field.content), field.raw) for field in fields if field.number == NODE
    ]
    ends = [field for field in fields if field.number == OUTPUT]
    needed = set(outputs) or {name for end in ends for name in _names(end.content, VALUE_NAME)}
    named = {INITIALIZER: TENSOR_NAME, INPUT: VALUE_NAME}
    others = [
        (field, next(_names(field.content, named[field.number])) if field.number in named else None)
        for field in fields
        if field.number not in (NODE, OUTPUT)
    ]
    constants: list[Tensor] = []
    if rewrite is not None:
        tensors = {name: field.content for field, name in others if field.number == INITIALIZER and name}
        new, constants = rewrite([each for each, _ in nodes], lambda name: _tensor_of(tensors, name))
        nodes = [(each, None) for each in new]
    used: list[bytes | memoryview] = []
    for each, raw in reversed(nodes):  # they stand in order of use
        if any(name in needed and name not in inputs for name in each.outputs):
            needed.update(each.inputs)
            used.append(_field(NODE, _written_node(each)) if raw is None else raw)
    return [
        *reversed(used),
        *(piece for each in constants if each.name in needed for piece in _written_tensor(each)),
        *(field.raw for field, name in others if name is None or name in needed),
        *(_field(INPUT, _written_input(name, shape)) for name, shape in inputs.items()),
        *(_field(OUTPUT, _field(VALUE_NAME, name.encode())) for name in outputs),
        *(end.raw for end in ends if not outputs),
    ]


def _written_input(name: str, shape: Shape) -> bytes:
    sizes = (b"" if size is None else _integer(DIMENSION_SIZE, size) for size in shape)
    dimensions = b"".join(_field(SHAPE_DIMENSION, size) for size in sizes)
    tensor = _integer(ELEMENT_TYPE, FLOAT) + _field(TENSOR_SHAPE, dimensions)
    return _field(VALUE_NAME, name.encode()) + _field(VALUE_TYPE, _field(TENSOR_VALUE, tensor))


def _tensor_of(tensors: Mapping[str, memoryview], name: str) -> Tensor | None:
    return _tensor(name, tensors[name]) if name in tensors else None


def _node(message: memoryview) -> Node:
    names: dict[int, list[str]] = {NODE_INPUT: [], NODE_OUTPUT: [], NODE_TYPE: []}
    more = b""
    for field in _fields(message):
        if field.number in names:
            names[field.number].append(bytes(field.content).decode())
        elif field.number != NODE_NAME:
            more += field.raw
    return Node(names[NODE_TYPE][0], tuple(names[NODE_INPUT]), tuple(names[NODE_OUTPUT]), more)


def _written_node(written: Node) -> bytes:
    return b"".join(
        [
            *(_field(NODE_INPUT, name.encode()) for name in written.inputs),
            *(_field(NODE_OUTPUT, name.encode()) for name in written.outputs),
            _field(NODE_NAME, written.outputs[0].encode()),
            _field(NODE_TYPE, written.type.encode()),
            written.content,
        ]
    )


def _tensor(name: str, message: memoryview) -> Tensor:
    """A constant of one byte a number."""
    shape: list[int] = []
    kind, content = 0, b""
    for field in _fields(message):
        if field.number == TENSOR_DIMENSION:
            shape += _packed(field)
        elif field.number == TENSOR_TYPE:
            kind, _ = _number(field.content, 0)
        elif field.number == TENSOR_RAW:
            content = bytes(field.content)
        elif field.number == TENSOR_INTEGERS:
            content += bytes(number & 255 for number in _packed(field))
    return Tensor(name, kind, tuple(shape), content)


def _written_tensor(tensor: Tensor) -> list[bytes]:
    head = b"".join(
        [
            *(_integer(TENSOR_DIMENSION, size) for size in tensor.shape),
            _integer(TENSOR_TYPE, tensor.type),
            _field(TENSOR_NAME, tensor.name.encode()),
            _head(TENSOR_RAW, len(tensor.content)),
        ]
    )
    return [_head(INITIALIZER, len(head) + len(tensor.content)), head, tensor.content]


def _packed(field: Field) -> list[int]:
    """The numbers of a repeated field, which may be written one by one or together."""
    numbers, at = [], 0
    while at < len(field.content):
        number, at = _number(field.content, at)
        numbers.append(number)
    return numbers


def _names(message: memoryview, number: int) -> Iterator[str]:
    return (bytes(field.content).decode() for field in _fields(message) if field.number == number)


def _fields(message: memoryview) -> Iterator[Field]:
    start, size = 0, len(message)
    while start < size:
        tag, at = message[start], start + 1
        if tag > 127:
            tag, at = _number(message, start)
        if tag & 7 == BYTES:
            length = message[at]
            if length > 127:
                length, at = _number(message, at)
            else:
                at += 1
            end = at + length
        elif tag & 7 == VARINT:
            _, end = _number(message, at)
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
    return _head(number, len(content)) + content


def _head(number: int, size: int) -> bytes:
    """What stands before the content of a field."""
    return _written(number << 3 | BYTES) + _written(size)


def _integer(number: int, value: int) -> bytes:
    return _written(number << 3 | VARINT) + _written(value)


def _written(number: int) -> bytes:
    if number < 128:
        return ONE_BYTE[number]
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
