"""Finds the model's speed at which speech has the requested length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FASTEST = 8.0
"""No text gets shorter than at this speed: every symbol has its one frame."""
STEPS = 24
"""This many bisection steps find the speed to a millionth."""


def speed_of(durations: npt.NDArray[np.float32], speed: float, factor: float) -> float:
    """The speed at which the text lasts `factor` times as long as at `speed`.

    `durations` are the symbols' own in frames of 25 ms; the first and the last stand for the silence at the
    ends, which is cut. The model divides them by the speed and makes each a whole number, one at least, so
    half the length is not found at twice the speed. At factor 1 it is `speed` itself.
    """
    if factor == 1:
        return speed
    inner = durations[1:-1].astype(np.float64)
    wished = factor * _frames(inner, speed)
    slow, fast = min(speed, speed / factor) / 2, FASTEST
    for _ in range(STEPS):
        middle = (slow * fast) ** 0.5
        slow, fast = (middle, fast) if _frames(inner, middle) > wished else (slow, middle)
    return float(fast)


def _frames(durations: npt.NDArray[np.float64], speed: float) -> float:
    """As the model counts them."""
    return float(np.maximum(1, np.rint(durations / speed)).sum())
