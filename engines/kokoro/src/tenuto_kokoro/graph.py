"""ONNX models, read and rewritten in their file's wire format (protocol buffers): a part cut out of one, and
other nodes in place of some.

The library that could is large and serves nothing else. Knows no model and runs none.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

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

FLOAT, UINT8, INT8, INT64 = 1, 2, 3, 7
"""Types of tensors."""


@dataclass(frozen=True, slots=True)
class Field:
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
    with (
        path.open("rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
    ):
        return b"".join(
            _field(GRAPH, _graph(field.content, outputs, inputs, rewrite))
            if field.number == GRAPH
            else bytes(field.raw)
            for field in _fields(content)
        )


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


def _graph(
    graph: memoryview, outputs: Sequence[str], inputs: Mapping[str, Shape], rewrite: Rewrite | None
) -> bytes:
    fields = list(_fields(graph))
    if rewrite is not None:
        fields = _rewritten(fields, rewrite)
    ends = [field for field in fields if field.number == OUTPUT]
    needed = set(outputs) or {name for end in ends for name in _names(end.content, VALUE_NAME)}
    if outputs:
        ends = _made(_field(OUTPUT, _field(VALUE_NAME, name.encode())) for name in outputs)
    nodes = []
    for field in reversed([field for field in fields if field.number == NODE]):  # they stand in order of use
        if (needed - inputs.keys()) & set(_names(field.content, NODE_OUTPUT)):
            needed |= set(_names(field.content, NODE_INPUT))
            nodes.append(field)
    named = {INITIALIZER: TENSOR_NAME, INPUT: VALUE_NAME}
    kept = [
        field
        for field in fields
        if field.number not in (NODE, OUTPUT, *named)
        or (field.number in named and needed & set(_names(field.content, named[field.number])))
    ]
    given = _made(_field(INPUT, _written_input(name, shape)) for name, shape in inputs.items())
    return b"".join([field.raw for field in (*reversed(nodes), *kept, *given, *ends)])


def _made(fields: Iterable[bytes]) -> list[Field]:
    return list(_fields(memoryview(b"".join(fields))))


def _written_input(name: str, shape: Shape) -> bytes:
    sizes = (b"" if size is None else _integer(DIMENSION_SIZE, size) for size in shape)
    dimensions = b"".join(_field(SHAPE_DIMENSION, size) for size in sizes)
    tensor = _integer(ELEMENT_TYPE, FLOAT) + _field(TENSOR_SHAPE, dimensions)
    return _field(VALUE_NAME, name.encode()) + _field(VALUE_TYPE, _field(TENSOR_VALUE, tensor))


def _rewritten(fields: Sequence[Field], rewrite: Rewrite) -> list[Field]:
    tensors = {
        name: field.content
        for field in fields
        if field.number == INITIALIZER
        for name in _names(field.content, TENSOR_NAME)
    }

    def tensor(name: str) -> Tensor | None:
        return _tensor(name, tensors[name]) if name in tensors else None

    nodes, constants = rewrite([_node(field.content) for field in fields if field.number == NODE], tensor)
    return [
        *_made(_field(NODE, _written_node(each)) for each in nodes),
        *_made(_field(INITIALIZER, _written_tensor(each)) for each in constants),
        *(field for field in fields if field.number != NODE),
    ]


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


def _written_tensor(tensor: Tensor) -> bytes:
    return b"".join(
        [
            *(_integer(TENSOR_DIMENSION, size) for size in tensor.shape),
            _integer(TENSOR_TYPE, tensor.type),
            _field(TENSOR_NAME, tensor.name.encode()),
            _field(TENSOR_RAW, tensor.content),
        ]
    )


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


def _integer(number: int, value: int) -> bytes:
    return _written(number << 3 | VARINT) + _written(value)


def _written(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
