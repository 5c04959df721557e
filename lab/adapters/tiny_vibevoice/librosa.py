"""A stand-in for librosa: another rate by straight lines between samples."""

from __future__ import annotations

from typing import Any

import numpy as np


def resample(y: Any, *, orig_sr: float, target_sr: float, res_type: str = "soxr_hq") -> Any:
    count = int(np.ceil(len(y) * target_sr / orig_sr))
    return np.interp(np.arange(count) * orig_sr / target_sr, np.arange(len(y)), y).astype(np.float32)
