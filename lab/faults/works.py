"""What clients ask for: bodies of all kinds, how each may end, and whose results must be the same bytes.

Texts hold a word that no log may show. Knows no HTTP.
"""

import hashlib
import json
import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from servers.recordings import DUAL, FIRST, SECOND, long_recording, recording
from servers.voices import recording as voice_recording

CANARY = "kanarienvogel"
"""Stands in every text; it may be in no log."""

VOICES, RECORDINGS = 4, 6
LONG_MINUTES, LARGE_MINUTES = 10.5, 15.5
"""Of the long recording: more than one part for the engines; and more than one for an S3 store, 8 MiB."""


@dataclass(frozen=True, slots=True)
class Media:
    """What is uploaded, made once: encoding takes longer than all else of a client."""

    flacs: tuple[bytes, ...]
    wavs: tuple[bytes, ...]

    @staticmethod
    def make(long_minutes: float = LONG_MINUTES) -> "Media":
        flacs = [recording(words) for words in range(2, 2 + RECORDINGS)]
        return Media((*flacs, long_recording(long_minutes)[0]), tuple(map(voice_recording, range(VOICES))))


@dataclass(slots=True)
class Work:
    """One key with its body, and all that was seen of it."""

    key: str
    body: dict[str, Any]
    group: str
    """Works of one group have the same bytes; empty: nothing is known of them."""
    codes: frozenset[str] = frozenset()
    """How it may fail, by its own text; nothing that happens to a machine fails a job."""
    must_fail: bool = False
    job_id: str | None = None
    accepted_at: float = 0.0
    """On the monotonic clock."""
    sends: int = 0
    answers: int = 0
    place: tuple[int, int] = (0, 0)
    """How far the job was when it was last seen; it may only grow."""
    operation: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    cancelled: bool = False
    """A cancel was asked for, answered or not."""
    erased: bool = False
    refused: bool = False
    """403, the balance was too low: there is no job."""
    resolved: bool = False
    """An operator has ended it by name; the client has not looked since."""
    sha256: str | None = None
    """Of what was downloaded, in the form in which a group's are alike."""

    @property
    def is_metered(self) -> bool:
        return bool(self.body["model"] == "fake/metered-speech")

    @property
    def is_done(self) -> bool:
        """Nothing is left to see: downloaded, or ended otherwise."""
        state = self.operation.get("state")
        return self.refused or self.resolved or self.sha256 is not None or state in ("failed", "cancelled")


LEADING = {
    **dict.fromkeys(("fence", "record"), "metered"),
    **dict.fromkeys(("part", "recording"), "recognition"),
    **dict.fromkeys(("segment", "engine.mid_run"), "stream"),
    "download": "long",
    "input": "voice",
    "ending": "failing",
}
"""Which work comes by at a place, or at all places of a room, that others pass seldom."""


def draw(dice: random.Random, inputs: list[tuple[str, int]], voices: list[str], sort: str) -> Work:
    """Some work, of this sort if one is named; recognition and own voices once something was uploaded."""
    makers: dict[str, tuple[int, Callable[[], Work]]] = {
        "speech": (36, lambda: _speech(dice)),
        "stream": (22, lambda: _stream(dice)),
        "long": (2, lambda: _long(dice)),
        "metered": (12, lambda: _metered(dice)),
        "image": (8, lambda: _image(dice)),
        "failing": (4, lambda: _failing(dice)),
    }
    if voices:
        makers["voice"] = 10, lambda: _in_voice(dice, voices)
    if inputs:
        makers["recognition"] = 8, lambda: _recognition(dice, inputs)
    if sort not in makers:
        [sort] = dice.choices(list(makers), [weight for weight, _ in makers.values()])
    return makers[sort][1]()


def alike(work: Work, content: bytes) -> str:
    """The digest in which results of one group are the same."""
    if work.group.startswith("recognition"):
        shown = json.loads(content)
        content = json.dumps([shown["engines"], shown["audio"], shown["parts"]]).encode()
    return hashlib.sha256(content).hexdigest()


def _speech(dice: random.Random) -> Work:
    return _spoken(dice, {"text": f"{_pace(dice)}{CANARY} {dice.randrange(12)}"})


def _stream(dice: random.Random) -> Work:
    text = f"{_pace(dice)}{f'{CANARY} segments. ' * dice.randrange(2, 6)}."
    return _spoken(dice, {"text": text, "stream": True})


def _long(dice: random.Random) -> Work:
    """Sent in more than one block of 1 MiB."""
    return _spoken(dice, {"text": CANARY * 32})


def _in_voice(dice: random.Random, voices: list[str]) -> Work:
    return _spoken(dice, {"text": f"{CANARY} own {dice.randrange(3)}", "voice_id": dice.choice(voices)})


def _spoken(dice: random.Random, parameters: dict[str, Any]) -> Work:
    return _work(dice, "fake/speech", parameters, group=f"speech {parameters['text']}")


def _metered(dice: random.Random) -> Work:
    parameters = {"text": f"{_pace(dice)}{CANARY} paid {dice.randrange(6)}"}
    return _work(dice, "fake/metered-speech", parameters, group=f"metered {parameters['text']}")


def _image(dice: random.Random) -> Work:
    parameters = {"prompt": f"{CANARY} {dice.randrange(4)}", "seed": dice.randrange(3), "width": 256}
    parameters |= {"height": 256, "num_inference_steps": 2}
    return _work(dice, "fake/image", parameters, group=f"image {parameters}")


def _recognition(dice: random.Random, inputs: list[tuple[str, int]]) -> Work:
    model = dice.choice((DUAL, DUAL, FIRST, SECOND))
    artifact_id, number = dice.choice(inputs)
    made = _work(dice, model, {}, group=f"recognition {model} {number}")
    made.body["input_artifact_ids"] = [artifact_id]
    return made


def _failing(dice: random.Random) -> Work:
    directive, code = dice.choice(
        (
            *(("raise", "engine_failed"), ("garbage", "engine_failed"), ("nan", "engine_failed")),
            *(("crash", "engine_crashed"), ("exit", "engine_crashed")),
        )
    )
    made = _work(dice, "fake/speech", {"text": f"[fake:{directive}] {CANARY}"}, group="")
    made.codes, made.must_fail = frozenset({code}), True
    return made


def _pace(dice: random.Random) -> str:
    """Half of the work takes a while, so that there is something to hit."""
    return dice.choice(("", "", "[fake:sleep=0.1] ", "[fake:slow_segments=0.05] ", "[fake:sleep=0.6] "))


def _work(dice: random.Random, model: str, parameters: dict[str, Any], *, group: str) -> Work:
    key = str(uuid.UUID(int=dice.getrandbits(128)))
    return Work(key, {"model": model, "parameters": parameters}, group)
