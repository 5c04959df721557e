"""The patterns that the model's file is made of, recognised among its nodes: products of 8-bit integers with
what becomes of them, and normalisations written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .graph import Node


@dataclass(frozen=True, slots=True)
class Product:
    """An operation on integers, and what the file makes of its result."""

    operation: Node
    scales: str
    """Of the input and the weights, multiplied."""
    bias: str | None


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Every channel less its mean, divided by its deviation, times `scale`, plus `shift`, which are [1,
    channels, 1]."""

    value: str
    scale: str
    shift: str


class Patterns:
    """The nodes of a file, in order of use."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.makers = {output: each for each in nodes for output in each.outputs}
        self.users: dict[str, list[Node]] = {}
        for each in nodes:
            for name in each.inputs:
                self.users.setdefault(name, []).append(each)

    def product(self, operation: Node) -> tuple[Node, Product]:
        """With the node that ends it: integers, perhaps plus a bias, as floats, times both scales."""
        after, bias = self.users[operation.outputs[0]][0], None
        if after.type == "Add":
            (rounded,) = (name for name in after.inputs if name != operation.outputs[0])
            bias = self._origin(rounded, "Div").inputs[0]
            after = self.users[after.outputs[0]][0]
        assert after.type == "Cast", after.type
        (end,) = self.users[after.outputs[0]]
        (scales,) = (self.makers[name] for name in end.inputs if name != after.outputs[0])
        assert end.type == scales.type == "Mul", end
        return end, Product(operation, scales.outputs[0], bias)

    def normalisations(self, division: Node) -> Iterator[tuple[Node, Normalisation]]:
        """Those that a division belongs to, each with the node that ends it: none if it is another division,
        several where their scales and shifts alone differ."""
        centred, deviation = (self.makers.get(name) for name in division.inputs)
        if centred is None or deviation is None or (centred.type, deviation.type) != ("Sub", "Sqrt"):
            return
        for scaled in self.users[division.outputs[0]]:
            (shifted,) = self.users[scaled.outputs[0]]
            assert (scaled.type, shifted.type) == ("Mul", "Add"), (scaled, shifted)
            (scale,) = (name for name in scaled.inputs if name != division.outputs[0])
            (shift,) = (name for name in shifted.inputs if name != scaled.outputs[0])
            yield shifted, Normalisation(centred.inputs[0], scale, shift)

    def _origin(self, name: str, kind: str) -> Node:
        """The node of a kind that a value comes from, by first inputs."""
        maker = self.makers[name]
        return maker if maker.type == kind else self._origin(maker.inputs[0], kind)
