"""Emotion: which one a run asks for, as a shift of prosody, and a style moved by it.

A shift is four numbers: pitch in semitones, the spread of the pitch, loudness in decibels, length; spread
and length as logarithms to base 2. Pitch and spread are moved in the prosody half of the style, loudness in
the timbre half, along directions that `scripts/fit_emotions.py` found; the length by the speed. Knows no
model and nothing of who may use which voice.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import emotion_recording, emotion_text
from .styles import PROSODY, TIMBRE, Style

Shift = npt.NDArray[np.float64]

EMOTIONS = ("happy", "angry", "sad", "fear", "disgust", "low", "surprise", "calm")

SHIFTS: Shift = np.array([
    [+2.0, +0.40, +1.5, -0.12],
    [+0.8, +0.15, +4.0, -0.22],
    [-1.5, -0.50, -2.5, +0.24],
    [+3.0, -0.50, -2.0, -0.26],
    [-2.2, +0.30, +1.5, +0.22],
    [-3.0, -0.50, -4.0, +0.08],
    [+3.5, +0.50, +3.0, +0.10],
    [-0.4, -0.30, -2.5, +0.06],
])  # fmt: skip
"""What each emotion does at full strength: the signs are those of reviews of emotional speech (Juslin and
Laukka 2003, Psychological Bulletin 129), the sizes chosen so that the eight stay apart."""

LIMITS: Shift = np.array([5.0, 0.7, 6.0, 0.5])
"""The largest shift, whatever the sum: beyond it speech becomes unclear and voices unnatural."""

RANDOM_STRENGTH = (0.6, 1.0)
RANDOM_MANNER = (0.6, 1.4)
"""How much more or less than usual each number of an emotion's shift is, where its style is random."""


@dataclass(frozen=True, slots=True)
class Emotion:
    """The emotion that a run requests."""

    source: str
    """emo_vector, emotion_voice, emo_text or random."""
    strengths: tuple[float, ...] | None
    """Of each of EMOTIONS; None where a recording's prosody is taken over as it is."""
    shift: Shift

    @property
    def factor(self) -> float:
        """How many times as long the speech is."""
        return float(2 ** self.shift[3])

    def described(self) -> dict[str, Any]:
        """For the result's metadata."""
        named = zip(EMOTIONS, self.strengths or (), strict=False)
        pitch, spread, loudness, length = (float(value) for value in self.shift)
        return {
            "source": self.source,
            "strengths": {name: round(strength, 3) for name, strength in named if strength},
            "pitch_semitones": round(pitch, 2),
            "pitch_spread_factor": round(2**spread, 2),
            "loudness_db": round(loudness, 2),
            "length_factor": round(2**length, 2),
        }


def wished(parameters: Mapping[str, Any], inputs: Mapping[str, bytes], run_id: str) -> Emotion | None:
    """The emotion of a run; None where it asks for none, or for none of it (`emo_alpha` 0).

    With `use_random` the emotion that is asked for is spoken in a manner drawn from the run's id; where none
    is asked for the emotion itself is drawn. The same run is always the same.
    """
    found = _found(parameters, inputs)
    if parameters.get("use_random"):
        found = _drawn(found, random.Random(run_id))
    if found is None:
        return None
    shift = np.clip(float(parameters.get("emo_alpha", 1)) * found.shift, -LIMITS, LIMITS)
    return Emotion(found.source, found.strengths, shift) if shift.any() else None


def moved(style: Style, emotion: Emotion) -> Style:
    """A style with the emotion; the given one is not written to."""
    pitch, spread, loudness = (part.astype(np.float32) for part in emotion.shift[:3, None] * _directions())
    found = style.copy()
    found[..., PROSODY] += pitch + spread
    found[..., TIMBRE] += loudness
    return found


def _found(parameters: Mapping[str, Any], inputs: Mapping[str, bytes]) -> Emotion | None:
    if parameters.get("emo_vector") is not None:
        return _mixed("emo_vector", parameters["emo_vector"])
    if (voice := parameters.get("emotion_voice")) is not None:
        if (strengths := voice["profile"].get("emotion")) is not None:
            return _mixed("emotion_voice", strengths)
        return Emotion("emotion_voice", None, emotion_recording.shift_of(inputs["emotion_voice"]))
    if parameters.get("use_emo_text"):
        text = parameters.get("emo_text") or parameters["text"]
        return _mixed("emo_text", emotion_text.strengths(text, EMOTIONS))
    return None


def _mixed(source: str, strengths: Sequence[float]) -> Emotion:
    """Several emotions at once are scaled down to the strength of one."""
    total = max(1.0, sum(strengths))
    shared = tuple(strength / total for strength in strengths)
    return Emotion(source, shared, np.array(shared) @ SHIFTS)


def _drawn(found: Emotion | None, draw: random.Random) -> Emotion:
    if found is None:
        strengths = [0.0] * len(EMOTIONS)
        strengths[draw.randrange(len(EMOTIONS))] = draw.uniform(*RANDOM_STRENGTH)
        return _mixed("random", strengths)
    manner = np.array([draw.uniform(*RANDOM_MANNER) for _ in range(found.shift.size)])
    return Emotion(found.source, found.strengths, found.shift * manner)


@cache
def _directions() -> Shift:
    """[3, 128]: a semitone and a doubling of the spread in the prosody half, a decibel in the timbre."""
    table = json.loads(Path(__file__).with_name("emotion_directions.json").read_text("utf-8"))
    return np.array([table[name] for name in ("pitch", "spread", "loudness")])
