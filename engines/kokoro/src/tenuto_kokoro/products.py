"""The model's operations in the form that ONNX Runtime computes fast, with the very same weights.

- Convolutions: ONNX Runtime computes their 8-bit products (ConvInteger) with both factors unsigned, which no
  processor multiplies fast. Here they are products of matrices (MatMulInteger), one row for each moment, with
  unsigned inputs and signed weights: what processors have instructions for. The integers are the same ones.
- In the decoder the result's scale and bias are part of the product, and each normalisation, which the file
  writes out in seven passes over memory, is one operation. That changes the rounding of floats. The encoder,
  which decides on durations and melody, gives what the file gives, to the bit.

Knows the file's patterns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .graph import FLOAT, INT8, INT64, UINT8, Constants, Node, Rewritten, Tensor, integers, node
from .patterns import Normalisation, Patterns, Product

DECODER = "/decoder/decoder/"
"""What the names of the decoder's values begin with."""

MOST, LEAST = np.iinfo(np.int16).max, np.iinfo(np.int16).min
HIGHEST_INPUT = 255

TRANSPOSED = {"perm": (0, 2, 1)}
"""[1, channels, times] to [1, times, channels], and back."""


def fast(nodes: Sequence[Node], constant: Constants) -> Rewritten:
    """Nodes of the file in order of use, and its constants by name in; the new nodes, and the constants that
    they need beside the file's, out."""
    return _Rewriting(nodes, constant).result()


def is_exact(rows: npt.NDArray[np.int8]) -> bool:
    """Whether any 8-bit inputs have exact products with weights [inputs, outputs].

    Without VNNI, processors add the products of two neighbouring inputs in 16 bits, and cut what is more: so
    the weights of two neighbours that have one sign must not add up to more, nor any single one.
    """
    if len(rows) % 2:
        return False
    sums = np.add(rows[::2], rows[1::2], dtype=np.int16)
    highest, lowest = max(sums.max(), rows.max()), min(sums.min(), rows.min())
    return HIGHEST_INPUT * int(highest) <= MOST and HIGHEST_INPUT * int(lowest) >= LEAST


@dataclass
class _Rewriting:
    nodes: Sequence[Node]
    constant: Constants
    constants: dict[str, Tensor] = field(default_factory=dict)

    def result(self) -> Rewritten:
        """What a new node replaces is left in, used by nothing."""
        patterns = Patterns(self.nodes)
        made: list[Node] = []
        ends: dict[str, Iterator[Node]] = {}
        for each in self.nodes:
            is_decoder = each.outputs[0].startswith(DECODER)
            rows = self._rows(each) if each.type == "ConvInteger" else None
            made += ends.get(each.outputs[0], [each]) if rows is None else self._product(each, rows)
            if rows is not None:
                if is_decoder:
                    end, product = patterns.product(each)
                    ends[end.outputs[0]] = self._scaled(product, end.outputs[0])
            elif each.type == "Div" and is_decoder:
                for end, normalisation in patterns.normalisations(each):
                    ends[end.outputs[0]] = self._normalised(normalisation, end.outputs[0])
        return made, list(self.constants.values())

    def _rows(self, convolution: Node) -> npt.NDArray[np.int8] | None:
        """The weights less their zero point as [kernel × inputs, outputs]; None if it must stay as it is."""
        weight, point = (self.constant(name) for name in (convolution.inputs[1], convolution.inputs[3]))
        assert weight is not None and point is not None and weight.type == UINT8
        if (integers(convolution, "strides"), integers(convolution, "group")) != ([1], [1]):
            return None
        own, zero = np.frombuffer(weight.content, np.uint8).reshape(weight.shape), point.content[0]
        if int(own.max()) - zero > np.iinfo(np.int8).max or int(own.min()) - zero < np.iinfo(np.int8).min:
            return None
        signed = (own - np.uint8(zero)).view(np.int8)
        rows = np.ascontiguousarray(signed.transpose(2, 1, 0)).reshape(-1, weight.shape[0])
        return rows if is_exact(rows) else None

    def _product(self, convolution: Node, rows: npt.NDArray[np.int8]) -> Iterator[Node]:
        """The integers of a convolution; those of all moments one under the other, too."""
        (value, weight, zero, _), output = convolution.inputs, convolution.outputs[0]
        own = self.constant(weight)
        assert own is not None
        _, channels, kernel = own.shape
        times = f"{output}_times"
        yield node("Transpose", (value,), times, TRANSPOSED)
        if kernel > 1:
            before, after = integers(convolution, "pads")
            (step,) = integers(convolution, "dilations")
            yield node("Pad", (times, self._integers(0, before, 0, 0, after, 0), zero), f"{output}_padded")
            yield node("Shape", (value,), f"{output}_shape")
            yield node("Gather", (f"{output}_shape", self._integer(2)), f"{output}_count")
            yield node("Range", (self._integer(0), f"{output}_count", self._integer(1)), f"{output}_starts")
            yield node("Unsqueeze", (f"{output}_starts", self._integers(1)), f"{output}_column")
            offsets = self._integers(*range(0, kernel * step, step))
            yield node("Add", (f"{output}_column", offsets), f"{output}_places")
            yield node("Gather", (f"{output}_padded", f"{output}_places"), f"{output}_taken", {"axis": 1})
            times = f"{output}_windows"
            yield node("Reshape", (f"{output}_taken", self._integers(1, -1, kernel * channels)), times)
        signed = self._added(Tensor(f"{weight}_rows", INT8, rows.shape, rows.tobytes()))
        nothing = self._added(Tensor("zero_point_of_rows", INT8, (), bytes(1)))
        yield node("MatMulInteger", (times, signed, zero, nothing), f"{output}_rows")
        yield node("Transpose", (f"{output}_rows",), output, TRANSPOSED)

    def _scaled(self, product: Product, output: str) -> Iterator[Node]:
        """The convolution's result as floats, in the pattern that ONNX Runtime computes at once."""
        rows = f"{product.operation.outputs[0]}_rows"
        yield node("Cast", (rows,), f"{rows}_cast", {"to": FLOAT})
        yield node("Mul", (f"{rows}_cast", product.scales), f"{rows}_scaled")
        if product.bias is not None:
            yield node("Add", (f"{rows}_scaled", product.bias), f"{rows}_biased")
        last = f"{rows}_scaled" if product.bias is None else f"{rows}_biased"
        yield node("Transpose", (last,), output, TRANSPOSED)

    def _normalised(self, own: Normalisation, output: str) -> Iterator[Node]:
        vectors = [f"{output}_scale", f"{output}_shift"]
        for name, vector in zip((own.scale, own.shift), vectors, strict=True):
            yield node("Reshape", (name, self._integers(-1)), vector)
        yield node("InstanceNormalization", (own.value, *vectors), output)

    def _integers(self, *numbers: int) -> str:
        return self._whole(numbers, (len(numbers),))

    def _integer(self, number: int) -> str:
        return self._whole((number,), ())

    def _whole(self, numbers: Sequence[int], shape: tuple[int, ...]) -> str:
        name = f"integers_{'_'.join(map(str, numbers))}_of_{len(shape)}"
        return self._added(Tensor(name, INT64, shape, np.array(numbers, "<i8").tobytes()))

    def _added(self, constant: Tensor) -> str:
        self.constants[constant.name] = constant
        return constant.name
