"""Decoded samples as 16 kHz mono PCM16, and where they are cut. Only the decoding child imports this."""

import os
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from tenuto.media import cut_points
from tenuto.media.flac import StreamInfo

RATE = 16_000
_LOUDNESS_FRAMES = round(cut_points.FRAME_S * RATE)
_FULL_SCALE, _WIDE_SCALE = 1 << 15, 1 << 31


class Pcm:
    """Mixes to one channel, resamples, writes, and listens how loud it is.

    What is 16 kHz mono with 16 bits passes as it is.
    """

    def __init__(self, info: StreamInfo, output: int) -> None:
        self._channels = info.channels
        self._is_narrow = info.bits_per_sample == 16
        self._output = output
        self._resampler = None
        if info.sample_rate != RATE:
            self._resampler = soxr.ResampleStream(info.sample_rate, RATE, 1, dtype="float32")
        self._frames = 0
        self._rest = np.zeros(0, np.float32)
        self._loudness: list[NDArray[np.float32]] = []

    def add(self, samples: memoryview) -> None:
        """The next interleaved samples, full scale in 16 or 32 bits."""
        whole = np.frombuffer(samples, np.int16 if self._is_narrow else np.int32)
        mono = whole.reshape(-1, self._channels).mean(axis=1, dtype=np.float32)
        mono /= _FULL_SCALE if self._is_narrow else _WIDE_SCALE
        if self._resampler is not None:
            mono = self._resampler.resample_chunk(mono)
        self._write(mono)

    def finish(self) -> dict[str, Any]:
        """How many samples there are now, and the parts as pairs of sample numbers."""
        if self._resampler is not None:
            self._write(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        loudness = np.concatenate(self._loudness).tolist() if self._loudness else []
        parts = cut_points.plan(loudness, self._frames / RATE)
        spans = [(round(start * RATE), round(end * RATE)) for start, end in parts]
        return {"pcm_frames": self._frames, "parts": spans}

    def _write(self, mono: NDArray[np.float32]) -> None:
        whole = np.rint(mono * _FULL_SCALE).clip(-_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
        left = memoryview(whole.tobytes())
        while left:
            left = left[os.write(self._output, left) :]
        self._frames += len(whole)
        self._listen(mono)

    def _listen(self, mono: NDArray[np.float32]) -> None:
        """The mean square of each 20 ms, on a grid that does not depend on how the samples arrive."""
        waiting = np.concatenate((self._rest, mono))
        used = len(waiting) // _LOUDNESS_FRAMES * _LOUDNESS_FRAMES
        squares = np.square(waiting[:used].reshape(-1, _LOUDNESS_FRAMES))
        self._loudness.append(squares.mean(axis=1, dtype=np.float32))
        self._rest = waiting[used:]
