"""The melody, loudness and pace of recorded speech, measured on its samples. Knows no model and no emotion.

Pitch is found by autocorrelation as Boersma has it (1993, "Accurate short-term analysis of the fundamental
frequency"), without his search for the best path: outliers are dropped instead.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]

LOWEST_HZ, HIGHEST_HZ = 60.0, 600.0
REFERENCE_HZ = 100.0
FRAME_S, HOP_S = 0.04, 0.01
VOICED = 0.5
"""How similar a frame must be to itself one period later."""
OCTAVE_COST = 0.02
"""What an octave lower loses against a period that is as like: the shortest one is the pitch."""
QUIET_DB = 35.0
"""Frames this far below the loudest are not speech."""
OUTLIER_SEMITONES = 10.0
MIDDLE_DEVIATIONS = 2.563
"""So many standard deviations lie between the tenth and the ninetieth percentile of normal numbers."""
DIP_DB = 2.0
"""Two peaks of loudness are two syllables where it falls so far between them."""
FEWEST_FRAMES = 20
"""With less than 0.2 s of voice nothing is said of it."""


@dataclass(frozen=True, slots=True)
class Prosody:
    """How speech goes, over a whole recording."""

    pitch: float
    """Median over the voiced frames, in semitones above 100 Hz."""
    spread: float
    """Standard deviation of the pitch in semitones, judged by its middle 80 %: creaks do not count."""
    loudness: float
    """Mean over the voiced frames, in dB below full scale."""
    pace: float
    """Syllables a second, pauses left out: peaks of loudness in voiced places."""


def measured(samples: Numbers, rate: int) -> Prosody | None:
    """The prosody of mono samples in -1..1; None where there is no voice."""
    frames = _frames(samples, rate)
    if not len(frames):
        return None
    loudness = _loudness(frames)
    pitch = _pitch(frames, loudness, rate)
    voiced = pitch > 0
    if voiced.sum() < FEWEST_FRAMES:
        return None
    semitones = 12 * np.log2(pitch[voiced] / REFERENCE_HZ)
    spoken_s = HOP_S * float((loudness > loudness.max() - QUIET_DB).sum())
    return Prosody(
        pitch=float(np.median(semitones)),
        spread=float(np.diff(np.percentile(semitones, (10, 90)))[0] / MIDDLE_DEVIATIONS),
        loudness=float(loudness[voiced].mean()),
        pace=_syllables(loudness, voiced) / spoken_s,
    )


def median_hz(samples: Numbers, rate: int) -> float:
    """The middle of the pitches of the voiced frames; 0 where there are none."""
    frames = _frames(samples, rate)
    pitch = _pitch(frames, _loudness(frames), rate) if len(frames) else np.zeros(0)
    return float(np.median(pitch[pitch > 0])) if pitch.any() else 0.0


def _frames(samples: Numbers, rate: int) -> Numbers:
    size, hop = round(FRAME_S * rate), round(HOP_S * rate)
    if samples.size < size:
        return np.zeros((0, size))
    return np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), size)[::hop]


def _loudness(frames: Numbers) -> Numbers:
    """Decibels below full scale for each frame."""
    found: Numbers = 10 * np.log10(np.mean(frames**2, axis=1) + 1e-12)
    return found


def _pitch(frames: Numbers, loudness: Numbers, rate: int) -> Numbers:
    """Hertz for each frame; 0 where it has no voice."""
    size = frames.shape[1]
    window = np.hanning(size)
    length = 1 << (2 * size - 1).bit_length()
    centred = (frames - frames.mean(axis=1, keepdims=True)) * window
    alike = _autocorrelation(centred, length) / (_autocorrelation(window[None], length) + 1e-9)
    lags = np.arange(int(rate / HIGHEST_HZ), min(int(rate / LOWEST_HZ), size // 2) + 1)
    strength = alike[:, lags] - OCTAVE_COST * np.log2(lags / lags[0])
    best = np.argmax(strength, axis=1)
    is_voiced = alike[np.arange(len(alike)), lags[best]] > VOICED
    is_voiced &= loudness > loudness.max() - QUIET_DB
    is_voiced &= (best > 0) & (best < len(lags) - 1)  # a true peak, not the slope of one outside
    found = np.where(is_voiced, rate / (lags[0] + _refined(strength, best)), 0.0)
    return _without_outliers(found)


def _autocorrelation(frames: Numbers, length: int) -> Numbers:
    """By lag, 1 at lag 0."""
    found: Numbers = np.fft.irfft(np.abs(np.fft.rfft(frames, length)) ** 2, length)
    return found / (found[:, :1] + 1e-12)


def _refined(strength: Numbers, best: npt.NDArray[np.intp]) -> Numbers:
    """The places of the peaks between the lags: the tops of parabolas."""
    middle = np.clip(best, 1, strength.shape[1] - 2)
    before, at, after = (
        np.take_along_axis(strength, (middle + k)[:, None], axis=1)[:, 0] for k in (-1, 0, 1)
    )
    curve = np.minimum(before - 2 * at + after, -1e-9)
    shift: Numbers = middle + np.clip((before - after) / (2 * curve), -1, 1)
    return shift


def _without_outliers(pitch: Numbers) -> Numbers:
    if not pitch.any():
        return pitch
    middle = np.median(pitch[pitch > 0])
    distance = np.abs(12 * np.log2(np.where(pitch > 0, pitch, middle) / middle))
    return np.where(distance < OUTLIER_SEMITONES, pitch, 0.0)


def _syllables(loudness: Numbers, voiced: npt.NDArray[np.bool_]) -> int:
    """Peaks of the smoothed loudness that stand DIP_DB above what is on either side, in voiced places."""
    smooth = np.convolve(loudness, np.hanning(7) / np.hanning(7).sum(), mode="same")
    count, low, high, place = 0, smooth[0], -np.inf, 0
    for index, level in enumerate(smooth):
        if level > high:
            high, place = level, index
        if level < high - DIP_DB and high > low + DIP_DB:
            count += bool(voiced[max(0, place - 2) : place + 3].any())
            low, high = level, level
        if level < low:
            low, high = level, level
    return count
