"""A stand-in for torch: as much of a tensor as the adapters touch, on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

bfloat16, float32, float16 = "bfloat16", "float32", "float16"


class Tensor:
    """An array that does not turn into numpy's while it is on a device or wants a gradient, as in torch."""

    def __init__(self, values: Any, place: str = "cpu", has_gradient: bool = False) -> None:
        self._values = np.asarray(values)
        self._place = place
        self._has_gradient = has_gradient

    @property
    def shape(self) -> tuple[int, ...]:
        return self._values.shape

    def detach(self) -> Tensor:
        return Tensor(self._values, self._place)

    def cpu(self) -> Tensor:
        return Tensor(self._values, "cpu", self._has_gradient)

    def to(self, place: str) -> Tensor:
        return Tensor(self._values, str(place), self._has_gradient)

    def float(self) -> Tensor:
        return Tensor(self._values.astype(np.float32), self._place, self._has_gradient)

    def numpy(self) -> Any:
        if self._place != "cpu":
            raise TypeError(
                f"can't convert {self._place} device type tensor to numpy. Use Tensor.cpu() first"
            )
        if self._has_gradient:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy()")
        return self._values

    def tolist(self) -> Any:
        return self._values.tolist()

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(self._values[key], self._place, self._has_gradient)


class device:
    """A place by name."""

    def __init__(self, name: str) -> None:
        self.type = name.split(":", maxsplit=1)[0]
        self._name = name

    def __str__(self) -> str:
        return self._name


class cuda:
    @staticmethod
    def is_available() -> bool:
        return False

    @staticmethod
    def empty_cache() -> None:
        """Nothing is kept."""


_modes = [True]


@contextmanager
def no_grad() -> Iterator[None]:
    _modes.append(False)
    try:
        yield
    finally:
        _modes.pop()


def is_grad_enabled() -> bool:
    return _modes[-1]


def inference_mode() -> Any:
    return nullcontext()


class OutOfMemoryError(RuntimeError):
    """A GPU has no room; its own class since torch 2.5."""


class Generator:
    """A source of noise on one device; takes any seed of 64 bits."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.seed = 0

    def manual_seed(self, seed: int) -> Generator:
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError("Overflow when unpacking long")
        self.seed = seed
        return self
