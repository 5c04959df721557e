"""The style that sounds like a recorded voice, as a mixture of the model's own voices.

A speaker encoder tells whose voice it is in 256 numbers; a matrix, fitted once by `scripts/fit_voices.py` on
mixtures whose speech was encoded, turns them into how much of each voice is to be mixed, apart for timbre and
for prosody. Mixing whole voices keeps what they have learned about short and long texts. Knows no text.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tenuto_engine_kit.speaker_embedding import SAMPLE_RATE, SpeakerEncoder

from . import recording
from .styles import STYLE_SHAPE, Style, read_style

FITTED = Path(__file__).with_name("likeness.npz")
FURTHEST = 1.0
"""How far the weights may be from equal ones: a voice of the model's own is so far. What is no human voice
would otherwise ask for a style that nobody has."""
KEPT = 32
"""Styles of recordings that are kept, half a megabyte each: to encode ten seconds takes one."""

Weights = npt.NDArray[np.float64]


class Likeness:
    """The encoder and the matrix, loaded with the first recording."""

    def __init__(self, encoder: Path, voices: Path) -> None:
        self._encoder_file = encoder
        self._voices = voices
        self._encoder: SpeakerEncoder | None = None
        self._styles: OrderedDict[bytes, Style | None] = OrderedDict()

    def style_of(self, content: bytes) -> Style | None:
        """The style for a PCM16 WAV file; None where it is silent. The caller must not write to it."""
        key = hashlib.sha256(content).digest()
        if key not in self._styles:
            self._styles[key] = self._found(content)
            if len(self._styles) > KEPT:
                self._styles.popitem(last=False)
        self._styles.move_to_end(key)
        return self._styles[key]

    def _found(self, content: bytes) -> Style | None:
        if self._encoder is None:
            self._encoder = SpeakerEncoder(self._encoder_file)
        embedding = self._encoder.embed(recording.resampled(content, SAMPLE_RATE))
        if not embedding.any():
            return None
        with np.load(FITTED) as fitted:
            names = [str(name) for name in fitted["names"]]
            timbre, prosody = weights_of(embedding, fitted)
        return mixed(self._voices, names, timbre, prosody)


def weights_of(embedding: npt.NDArray[np.float32], fitted: Any) -> tuple[Weights, Weights]:
    """How much of each voice: of its timbre, and of its prosody. Either sums to 1."""
    both = (embedding - fitted["embedding"]).astype(np.float64) @ fitted["matrix"] + fitted["weights"]
    timbre, prosody = np.split(both, 2)
    return _near(timbre), _near(prosody)


def mixed(voices: Path, names: list[str], timbre: Weights, prosody: Weights) -> Style:
    """The weighted sum of voices; each is read, added and let go, so that they never fill the memory."""
    style = np.zeros(STYLE_SHAPE)
    for name, *shares in zip(names, timbre, prosody, strict=True):
        style += read_style(voices, name) * np.repeat(shares, STYLE_SHAPE[-1] // 2)
    return style.astype(np.float32)


def _near(weights: Weights) -> Weights:
    """The weights, drawn towards equal ones where they are too far from them."""
    equal = 1 / len(weights)
    distance = float(np.linalg.norm(weights - equal))
    return equal + (weights - equal) * (FURTHEST / max(distance, FURTHEST))
