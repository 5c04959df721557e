"""What Whisper hears: the logarithms of 80 mel bands, a hundred times a second. Knows no speech.

As in Whisper's own code: https://github.com/openai/whisper/blob/main/whisper/audio.py
"""

from __future__ import annotations

import numpy as np

from .. import mel
from .graphs import BANDS, SPECTRA
from .model_file import Floats

RATE = 16_000
WINDOW_SAMPLES = 480_000
_FFT, _STEP = 400, 160
_QUIET = 1e-10
_RANGE = 8.0
"""How far below the loudest spectrum anything is told apart, in powers of ten."""


class Spectra:
    """The filters, made once."""

    def __init__(self) -> None:
        self._bands = mel.slaney(BANDS, _FFT, RATE).astype(np.float32)
        self._window = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_FFT) / _FFT)).astype(np.float32)

    def of(self, samples: Floats) -> Floats:
        """At most 30 s of samples in -1..1, filled up with silence → [80, 3000]."""
        whole = np.zeros(WINDOW_SAMPLES, np.float32)
        whole[: len(samples)] = samples
        padded = np.pad(whole, _FFT // 2, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, _FFT)[::_STEP][:SPECTRA]
        power = np.abs(np.fft.rfft(frames * self._window)) ** 2
        logarithms = np.log10(np.maximum(power.astype(np.float32) @ self._bands, _QUIET))
        found: Floats = np.maximum(logarithms, logarithms.max() - np.float32(_RANGE))
        return np.ascontiguousarray((found.T + 4.0) / 4.0, dtype=np.float32)
