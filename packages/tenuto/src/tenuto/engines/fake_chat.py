"""A fake chat model, for tests and trials: it repeats the last message word by word; it is not a model.

A token is a word, or the space before it. Directives at the start of the last message choose what goes wrong
(see `fake.py`): [fake:raise], [fake:crash], [fake:sleep=S] before the first word, [fake:slow=S] before each.
A prompt of more than 512 words does not fit; a word is drawn at random behind the echo where the temperature
is above 0, so that a seed can be seen to act.
"""

from __future__ import annotations

import ctypes
import json
import random
import time
from typing import Any

from tenuto_engine import InputError, Result, Run

from .fake import read_directives

CONTEXT_TOKENS = 512
REVISION = "1"
_LOOK_S = 0.005


class FakeChat:
    """Says the last message back."""

    concurrency = 4

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = {"model_id": "fake/chat", "model_revision": REVISION, "fake": True}

    def run(self, run: Run) -> Result:
        messages = json.loads(run.inputs["messages"])
        prompt = sum(len(message["content"].split()) for message in messages)
        if prompt >= CONTEXT_TOKENS:
            raise InputError(
                "context_exceeded",
                f"the prompt has {prompt} tokens, the model's context holds {CONTEXT_TOKENS}, "
                "the answer included",
            )
        directives, text = read_directives(messages[-1]["content"])
        _misbehave(directives)
        _sleep(run, directives.get("sleep", 0))
        words = [*text.split(), *_drawn(run.parameters)]
        said, reason = _say(run, words, prompt, directives.get("slow", 0))
        usage = {"prompt_tokens": prompt, "completion_tokens": len(said)}
        metadata = {"finish_reason": reason, "fake": True, **usage}
        return Result("text/plain", " ".join(said).encode(), metadata)


def _say(run: Run, words: list[str], prompt: int, pause_s: float) -> tuple[list[str], str]:
    limit = run.parameters.get("max_tokens") or CONTEXT_TOKENS
    said: list[str] = []
    for word in words:
        if len(said) >= limit:
            return said, "length"
        if word in (run.parameters.get("stop") or ()):
            return said, "stop"
        _sleep(run, pause_s)
        said.append(word)
        piece = word if len(said) == 1 else f" {word}"
        run.segment(piece.encode(), {"prompt_tokens": prompt, "completion_tokens": len(said)})
    return said, "stop"


def _drawn(parameters: dict[str, Any]) -> list[str]:
    if not parameters.get("temperature"):
        return []
    return [f"{random.Random(parameters.get('seed')).getrandbits(32):08x}"]


def _misbehave(directives: dict[str, float]) -> None:
    if "raise" in directives:
        raise ValueError("the fake engine was told to raise")
    if "crash" in directives:
        ctypes.string_at(0)


def _sleep(run: Run, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        run.check_cancelled()
        time.sleep(min(_LOOK_S, left))
    run.check_cancelled()
