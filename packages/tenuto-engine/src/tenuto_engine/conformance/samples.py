"""Plain, long, changed and wrong runs of each kind. Knows what parameters are called, not what they do."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tenuto_engine.conformance.subject import Subject
from tenuto_engine.wav import pcm16_wav

RATE = 16_000
TEXTS: Mapping[str, str] = {
    "zh": "今天天气很好。",
    "en": "The weather is fine.",
    "ja": "今日はいい天気です。",
    "es": "Hoy hace buen tiempo.",
    "ar": "الطقس جميل اليوم.",
}
SPEECH: Mapping[str, Any] = {
    "stream": False,
    "voice_id": None,
    "duration_factor": 1.0,
    "emotion_voice_id": None,
    "emo_alpha": 1.0,
    "emo_vector": None,
    "use_emo_text": False,
    "emo_text": None,
    "use_random": False,
    "interval_silence": 200,
    "max_text_tokens_per_segment": 120,
    "text_normalization": True,
    "do_sample": True,
    "top_p": 0.8,
    "top_k": 30,
    "temperature": 0.8,
    "repetition_penalty": 10.0,
}
IMAGE: Mapping[str, Any] = {"width": 256, "height": 256, "num_inference_steps": 4, "seed": 7}
CHAT: Mapping[str, Any] = {
    "temperature": 0,
    "max_tokens": 12,
    "top_p": None,
    "stop": [],
    "seed": 7,
    "presence_penalty": None,
    "frequency_penalty": None,
}
LONG_WORDS = 100_000
_Voice = Mapping[str, Any]


@dataclass(frozen=True)
class Change:
    """One parameter with another value, and what that needs beside it."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Wrong:
    """A run that cannot give a result, and with which code it must fail; "" for any."""

    name: str
    parameters: Mapping[str, Any]
    inputs: Mapping[str, bytes]
    code: str = ""


@dataclass(frozen=True)
class Sample:
    """The runs of one subject."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, bytes]
    long_parameters: Mapping[str, Any]
    long_inputs: Mapping[str, bytes]
    changes: Mapping[str, tuple[Change, ...]]
    """By parameter; those without any are the service's own to read."""
    wrong: tuple[Wrong, ...]


def sample_of(subject: Subject) -> Sample:
    """The runs of the subject's kind, with the subject's own parameters and inputs."""
    made = {"speech": _speech, "image": _image, "recognition": _recognition, "chat": _chat}
    plain = made[subject.kind](subject) if subject.kind in made else Sample({}, {}, {}, {}, {}, ())
    parameters = {**plain.parameters, **subject.parameters}
    inputs = {**plain.inputs, **subject.inputs}
    if subject.kind == "image":
        # A model's own size and steps may take minutes.
        parameters |= {name: plain.parameters[name] for name in IMAGE}
    return Sample(
        parameters,
        inputs,
        {**parameters, **plain.long_parameters, **subject.long_parameters},
        {**inputs, **plain.long_inputs, **subject.long_inputs},
        plain.changes,
        tuple(Wrong(one.name, *_merged(one, parameters, inputs), one.code) for one in plain.wrong),
    )


def _merged(
    wrong: Wrong, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The plain run with a wrong one's changes; a value of None takes the name away."""
    changed = {**parameters, **wrong.parameters}
    dropped = {name for name, value in wrong.parameters.items() if value is None}
    given = {name: content for name, content in {**inputs, **wrong.inputs}.items() if content is not None}
    return {name: value for name, value in changed.items() if name not in dropped}, given


def _speech(subject: Subject) -> Sample:
    lang = (subject.languages or ("en",))[0]
    text = TEXTS.get(lang, TEXTS["en"])
    others = [one for one in subject.languages if one != lang]
    voice: _Voice = {"voice_id": "conformance", "kind": "own", "profile": {}}
    recording = pcm16_wav(sound(4.0), RATE)
    changes = {
        "text": (Change({"text": f"{text} {text}"}),),
        "stream": (Change({"stream": True}),),
        "voice_id": (Change({"voice_id": "conformance", "voice": voice}, {"voice": recording}),),
        "lang": tuple(Change({"lang": one, "text": TEXTS.get(one, TEXTS["en"])}) for one in others),
        "duration_factor": (Change({"duration_factor": 1.5}), Change({"duration_factor": 0.75})),
        "emotion_voice_id": (
            Change({"emotion_voice_id": "conformance", "emotion_voice": voice}, {"emotion_voice": recording}),
        ),
        "emo_alpha": (Change({"emo_alpha": 0.5}),),
        "emo_vector": (Change({"emo_vector": [0.6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.2]}),),
        "use_emo_text": (Change({"use_emo_text": True}),),
        "emo_text": (Change({"use_emo_text": True, "emo_text": TEXTS["en"]}),),
        "use_random": (Change({"use_random": True}),),
        "interval_silence": (Change({"interval_silence": 500}), Change({"interval_silence": 0})),
        "max_text_tokens_per_segment": (Change({"max_text_tokens_per_segment": 20}),),
        "text_normalization": (Change({"text_normalization": False}),),
        "do_sample": (Change({"do_sample": False}),),
        "top_p": (Change({"top_p": 0.5}),),
        "top_k": (Change({"top_k": 5}),),
        "temperature": (Change({"temperature": 1.2}),),
        "repetition_penalty": (Change({"repetition_penalty": 2.0}),),
    }
    wrong = (
        Wrong("a text with nothing to speak", {"text": "…"}, {}, "nothing_to_speak"),
        Wrong("no text", {"text": None}, {}),
    )
    long = {"text": " ".join([text] * 60), "stream": "stream" in subject.honoured}
    return Sample({**SPEECH, "lang": lang, "text": text}, {}, long, {}, changes, wrong)


def _image(subject: Subject) -> Sample:
    guidance = subject.parameters.get("guidance_scale", 1)
    plain = {"prompt": "a red apple", "guidance_scale": guidance, **IMAGE}
    changes = {
        "prompt": (Change({"prompt": "two blue birds"}),),
        "width": (Change({"width": 320}),),
        "height": (Change({"height": 264}),),
        "num_inference_steps": (Change({"num_inference_steps": 3}),),
        "guidance_scale": (Change({"guidance_scale": guidance + 1}),),
        "seed": (Change({"seed": 2**63 - 1}),),
    }
    wrong = (Wrong("no prompt", {"prompt": None}, {}),)
    return Sample(plain, {}, {"num_inference_steps": 100}, {}, changes, wrong)


def _recognition(subject: Subject) -> Sample:
    detects = subject.role == "segment_text"
    languages = () if detects else (*subject.languages[:2], "xx")
    changes = {
        # The first transcript's engine is not given the language.
        "language": tuple(Change({"language": one}) for one in languages),
        # The service's own: no engine gets them.
        "source_offset_seconds": (),
        "context": (),
        "hotwords": (),
    }
    wrong = (Wrong("no audio", {}, {"audio": None}),)  # type: ignore[dict-item]
    language = "en" if "en" in subject.languages or not subject.languages else subject.languages[0]
    plain = {"language": None if detects else language}
    return Sample(plain, {"audio": sound(4.0)}, {}, {"audio": sound(240.0)}, changes, wrong)


def _chat(subject: Subject) -> Sample:
    question = _messages("Count from one to five hundred, in words.")
    changes = {
        "temperature": (Change({"temperature": 0.9}),),
        "max_tokens": (Change({"max_tokens": 3}),),
        "top_p": (Change({"temperature": 0.9, "top_p": 0.5}),),
        "stop": (Change({"stop": ["one", "1"]}),),
        "seed": (Change({"temperature": 0.9, "seed": 8}),),
        "presence_penalty": (Change({"presence_penalty": 0.5}),),
        "frequency_penalty": (Change({"frequency_penalty": 0.5}),),
        # The service's own: no engine gets them.
        **dict.fromkeys(("max_completion_tokens", "n", "response_format", "stream", "stream_options"), ()),
    }
    wrong = (
        Wrong("messages longer than any context", {}, _messages("word " * LONG_WORDS), "context_exceeded"),
        Wrong("no messages", {}, {"messages": None}),  # type: ignore[dict-item]
    )
    return Sample(CHAT, question, {"max_tokens": 400}, {}, changes, wrong)


def _messages(text: str) -> dict[str, bytes]:
    return {"messages": json.dumps([{"role": "user", "content": text}]).encode()}


def sound(seconds: float) -> bytes:
    """PCM16, mono, 16 kHz: a hum that rises and falls, with pauses. It is not speech."""
    samples = array("h", bytes(2 * RATE))
    for index in range(len(samples)):
        time = index / RATE
        envelope = max(0.0, math.sin(2 * math.pi * 1.5 * time)) if time < 0.7 else 0.0
        hum = sum(math.sin(2 * math.pi * 140 * n * time) / n for n in (1, 2, 3, 5, 8))
        samples[index] = round(6000 * envelope * hum)
    return (samples.tobytes() * (int(seconds) + 1))[: 2 * int(seconds * RATE)]
