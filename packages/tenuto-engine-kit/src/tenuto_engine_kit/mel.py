"""Mel filter banks: triangles over a spectrum, in the two forms that models were trained with.

Each is [spectrum, bands]: multiply power spectra, frames in rows, from the left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bands = npt.NDArray[np.float64]


def slaney(bands: int, fft: int, sample_rate: int) -> Bands:
    """Slaney's scale, linear up to 1 kHz, from 0 Hz; triangles of equal area (librosa's default)."""
    step = np.log(6.4) / 27
    top = 15 + np.log(sample_rate / 2 / 1000) / step
    mels = np.linspace(0, top, bands + 2)
    edges: npt.NDArray[np.float64] = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(step * (mels - 15)))
    widths = edges[2:] - edges[:-2]
    return np.asarray(_triangles(edges, _hertz(fft, sample_rate)) * 2 / widths, np.float64)


def kaldi(bands: int, fft: int, sample_rate: int, lowest_hz: float = 20.0) -> Bands:
    """Kaldi's scale; triangles in mel, of equal height."""

    def mel(hertz: Any) -> Any:
        return 1127.0 * np.log1p(hertz / 700.0)

    edges = np.linspace(mel(lowest_hz), mel(sample_rate / 2), bands + 2)
    return _triangles(edges, mel(_hertz(fft, sample_rate)))


def _hertz(fft: int, sample_rate: int) -> npt.NDArray[np.float64]:
    return np.arange(fft // 2 + 1, dtype=np.float64) * (sample_rate / fft)


def _triangles(edges: npt.NDArray[np.float64], at: npt.NDArray[np.float64]) -> Bands:
    """Each band rises from its edge to the next and falls to the one after."""
    rising = (at[:, None] - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - at[:, None]) / (edges[2:] - edges[1:-1])
    triangles: Bands = np.maximum(0, np.minimum(rising, falling))
    return triangles
