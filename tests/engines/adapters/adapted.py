"""A model's folder, its adapter's engine in a host, and the sound that goes in."""

import functools
import json
import math
from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenuto.features.decoding.wav import pcm16_wav
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, HostResult

STUBS = Path(__file__).parent / "stubs"
RATE = 16_000


@dataclass
class Adapted:
    """A model's folder with its answers, its engine's host, and a short way to do a run."""

    host: ChildHost
    folder: Path
    shown: list[bytes] = field(default_factory=list)

    def begin(self, answers: list[Any] | None) -> None:
        """Forget what was, and answer with these from now on."""
        self.shown.clear()
        for name in ("calls.jsonl", "answers.json"):
            (self.folder / name).unlink(missing_ok=True)
        if answers is not None:
            (self.folder / "answers.json").write_text(json.dumps(answers))

    def run(self, parameters: dict[str, Any], inputs: dict[str, bytes], **more: Any) -> HostResult:
        if not self.host.alive:
            self.host.load()
        return self.host.run(
            parameters,
            inputs,
            on_segment=lambda content, metadata: self.shown.append(content),
            on_progress=more.pop("on_progress", lambda progress: None),
            deadline_s=30,
            **more,
        )

    def heard(self, audio: bytes, **parameters: Any) -> dict[str, Any]:
        """The transcript of a part."""
        value: dict[str, Any] = json.loads(self.run(parameters, {"audio": audio}).content)
        return value

    def calls(self, name: str) -> list[dict[str, Any]]:
        """What reached the package, of one of its functions."""
        lines = (self.folder / "calls.jsonl").read_text("utf-8").splitlines()
        return [call for call in map(json.loads, lines) if call["call"] == name]


Adapt = Callable[..., Adapted]


def voice(pitch: int, seconds: float = 2.0) -> bytes:
    """A recording of somebody who says one tone."""
    return pcm16_wav(tone(pitch, seconds), RATE, 1)


def tone(pitch: int, seconds: float) -> bytes:
    """PCM16, mono, 16 kHz."""
    count = int(seconds * RATE)
    return (_second(pitch) * (count // RATE + 1))[: 2 * count]


@functools.cache
def _second(pitch: int) -> bytes:
    step = 2 * math.pi * pitch / RATE
    return array("h", (int(8000 * math.sin(i * step)) for i in range(RATE))).tobytes()


def cancelled() -> Cancellation:
    """A switch that is on."""
    switch = Cancellation()
    switch.set()
    return switch
