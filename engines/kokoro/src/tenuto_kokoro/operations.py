"""The model's operations in the form that OpenVINO computes fast; the weights stay the very same numbers.

- Convolutions: the file quantises their inputs by the range that each has in the call (DynamicQuantizeLinear,
  ConvInteger). Here the range is known beforehand (`ranges.json`), which runtimes turn into the processor's
  8-bit instructions (QuantizeLinear, DequantizeLinear, Conv).
- Products of matrices are floating-point ones: they take little time, and durations depend on them.
- The square of a sine is a chain of operations with one input each, which become one pass over memory.

Knows the file's patterns, and no runtime.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .graph import FLOAT, INT8, UINT8, Constants, Node, Rewritten, Tensor, node
from .patterns import Patterns, Product

Range = tuple[float, float]

RANGES: Mapping[str, Range] = json.loads(Path(__file__).with_name("ranges.json").read_text("utf-8"))
"""By the name of a value that a convolution takes: the lowest and the highest number that is distinguished.
Written by `scripts/fit_ranges.py`."""

LEVELS = 255

SINE_SQUARED = (
    ("Mul", 1 / np.pi),
    ("Mod", 1.0),
    ("Abs", None),
    ("Add", -0.5),
    ("Pow", 2.0),
    ("Add", -9.80182),
    ("Pow", 2.0),
    ("Mul", 0.0157324792),
    ("Add", -0.5115074),
    ("Pow", 2.0),
    ("Mul", 2.0),
    ("Add", -1.0),
    ("Pow", 2.0),
    ("Mul", 2.0),
    ("Add", -1.0),
    ("Pow", 2.0),
)
"""sin(x)² in steps: the distance of x/π from the middle between two whole numbers; the cosine of a quarter of
the angle, whose polynomial of degree four has an error of 2e-7; twice the cosine of the double angle; the
square. The whole is right to 2e-5, a thousandth of what eight bits can tell apart."""


def fast(nodes: Sequence[Node], constant: Constants, ranges: Mapping[str, Range] = RANGES) -> Rewritten:
    """Nodes of the file in order of use, and its constants by name in; the new nodes, and the constants that
    they need beside the file's, out. A convolution whose input has no range is in floating point."""
    return _Rewriting(nodes, constant, ranges).result()


def inputs_of_convolutions(nodes: Sequence[Node]) -> list[str]:
    """The values whose ranges matter."""
    makers = {output: each for each in nodes for output in each.outputs}
    return sorted({makers[each.inputs[0]].inputs[0] for each in nodes if each.type == "ConvInteger"})


@dataclass
class _Rewriting:
    nodes: Sequence[Node]
    constant: Constants
    ranges: Mapping[str, Range]
    made: list[Node] = field(default_factory=list)
    constants: dict[str, Tensor] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """Values that are made already."""

    def __post_init__(self) -> None:
        self.patterns = Patterns(self.nodes)
        self.makers = self.patterns.makers

    def result(self) -> Rewritten:
        products = {
            end.outputs[0]: product
            for each in self.nodes
            if each.type in ("ConvInteger", "MatMulInteger")
            for end, product in [self.patterns.product(each)]
        }
        for each in self.nodes:
            output = each.outputs[0]
            if output in products:
                self.made += self._floating(products[output], output)
            elif each.type == "Pow" and (sine := self.makers.get(each.inputs[0])) and sine.type == "Sin":
                self.made += self._sine_squared(sine.inputs[0], output)
            else:
                self.made.append(each)
        return self.made, list(self.constants.values())

    def _floating(self, product: Product, output: str) -> Iterator[Node]:
        """The product of floats, whose weights, and perhaps input, are written as 8-bit integers."""
        operation = product.operation
        measured, weight, _, zero = operation.inputs
        value, floats = self.makers[measured].inputs[0], f"{weight}_float"
        if operation.type == "MatMulInteger":
            yield from self._once(
                node("DequantizeLinear", (weight, product.scale, zero), floats, {"axis": 1})
            )
            yield node("MatMul", (value, floats), output)
            return
        if value in self.ranges:
            limits = self._limits(value)
            quantised, limited = f"{value}_8_bit", f"{value}_limited"
            yield from self._once(node("QuantizeLinear", (value, *limits), quantised))
            yield from self._once(node("DequantizeLinear", (quantised, *limits), limited))
            value = limited
        yield from self._once(node("DequantizeLinear", (self._signed(weight, zero), product.scale), floats))
        if product.bias is None:
            yield node("Conv", (value, floats), output, content=operation.content)
        else:
            yield node("Conv", (value, floats), f"{output}_unbiased", content=operation.content)
            yield node("Add", (f"{output}_unbiased", self._column(product.bias)), output)

    def _once(self, made: Node) -> Iterator[Node]:
        if made.outputs[0] not in self.known:
            self.known.add(made.outputs[0])
            yield made

    def _limits(self, value: str) -> tuple[str, str]:
        """The scale and the zero point of a value."""
        low, high = self.ranges[value]
        scale = np.float32((high - low) / LEVELS)
        zero = int(np.clip(np.rint(-low / scale), 0, LEVELS))
        return (
            self._added(Tensor(f"{value}_fixed_scale", FLOAT, (), scale.tobytes())),
            self._added(Tensor(f"{value}_fixed_zero", UINT8, (), bytes([zero]))),
        )

    def _signed(self, weight: str, zero: str) -> str:
        """The weights less their zero point, which takes no more than 8 bits: they have only 7."""
        own, point = self.constant(weight), self.constant(zero)
        assert own is not None and point is not None and own.type == UINT8
        signed = np.frombuffer(own.content, np.uint8).astype(np.int16) - point.content[0]
        assert np.abs(signed).max() < 128
        return self._added(Tensor(f"{weight}_signed", INT8, own.shape, signed.astype(np.int8).tobytes()))

    def _column(self, bias: str) -> str:
        """One number a channel, in the shape of [1, channels, 1], which a runtime need not work out."""
        own = self.constant(bias)
        assert own is not None and own.type == FLOAT
        return self._added(Tensor(f"{bias}_column", FLOAT, (1, len(own.content) // 4, 1), own.content))

    def _sine_squared(self, value: str, output: str) -> Iterator[Node]:
        for number, (kind, operand) in enumerate(SINE_SQUARED):
            inputs = (value,) if operand is None else (value, self._number(operand))
            value = output if number == len(SINE_SQUARED) - 1 else f"{output}_{number}"
            yield node(kind, inputs, value, {"fmod": 1} if kind == "Mod" else {})

    def _number(self, number: float) -> str:
        return self._added(Tensor(f"number_{number:.9g}", FLOAT, (), np.float32(number).tobytes()))

    def _added(self, constant: Tensor) -> str:
        self.constants[constant.name] = constant
        return constant.name
