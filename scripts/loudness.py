"""How loud a sound is, and how high it peaks, as Recommendation ITU-R BS.1770-5 measures it, in one channel.

The two filters are those of its annex 1, tables 1 and 2, given there for 48 kHz; blocks of 400 ms overlap by
three quarters, and are gated at -70 LUFS and then 10 LU under their mean. The peak is that of annex 2:
between the samples, too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import soxr

RATE = 48_000
SHELF = ((1.53512485958697, -2.69169618940638, 1.19839281085285), (1.0, -1.69065929318241, 0.73248077421585))
HIGH_PASS = ((1.0, -2.0, 1.0), (1.0, -1.99004745483398, 0.99007225036621))
BLOCK, STEP = int(0.4 * RATE), int(0.1 * RATE)
SILENT_LUFS = -70.0
OVERSAMPLED = 4
"""How much finer than 48 kHz the peak is looked for."""

Samples = npt.NDArray[np.floating]


def loudness(samples: Samples, rate: int) -> float:
    """In LUFS; minus infinity for silence, or less than a block of sound."""
    weighted = _weighted(_at(samples, rate, RATE))
    starts = range(0, weighted.size - BLOCK + 1, STEP)
    power = np.array([np.mean(weighted[start : start + BLOCK] ** 2) for start in starts])
    power = power[power > _power(SILENT_LUFS)]
    if power.size:
        power = power[power > 0.1 * power.mean()]
    return float(_lufs(power.mean())) if power.size else float("-inf")


def true_peak(samples: Samples, rate: int) -> float:
    """In dBTP."""
    highest = np.abs(_at(samples, rate, OVERSAMPLED * RATE)).max(initial=0.0)
    return float(20 * np.log10(highest)) if highest else float("-inf")


def _at(samples: Samples, rate: int, wanted: int) -> npt.NDArray[np.float64]:
    return np.asarray(soxr.resample(samples.astype(np.float64), rate, wanted, quality="VHQ"))


def _weighted(samples: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Both filters, by their frequency response; what they leave ringing at the end fits into the padding."""
    size = 1 << (samples.size + RATE).bit_length()
    back = np.exp(-2j * np.pi * np.fft.rfftfreq(size))
    spectrum = np.fft.rfft(samples, size)
    for above, below in (SHELF, HIGH_PASS):
        spectrum *= np.polyval(above[::-1], back) / np.polyval(below[::-1], back)
    return np.asarray(np.fft.irfft(spectrum, size)[: samples.size])


def _lufs(power: float) -> float:
    return float(-0.691 + 10 * np.log10(power))


def _power(lufs: float) -> float:
    return float(10 ** ((lufs + 0.691) / 10))
