"""A fake chat model, for tests and trials: it repeats the last message word by word; it is not a model.

A token is a word with the space before it. Directives at the start of the last message choose what goes wrong
(see `fake_speech.py`): [fake:raise], [fake:crash], [fake:sleep=S] before the first word, [fake:slow=S] before
each.
A prompt of 512 words or more does not fit. If the temperature is above 0, a random word follows the echo, so
that the effect of a seed can be seen.
"""

from __future__ import annotations

import json
import random
from typing import Any

from tenuto_engine import InputError, Result, Run

from .fake_speech import label, misbehave, read_directives, sleep

CONTEXT_TOKENS = 512


class FakeChat:
    """Repeats the last message."""

    concurrency = 4

    def __init__(self, options: dict[str, Any]) -> None:
        self.info = label("fake/chat")

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
        misbehave(run, directives)
        words = [*text.split(), *_drawn(run.parameters)]
        spoken, reason = _say(run, words, prompt, directives.get("slow", 0))
        usage = {"prompt_tokens": prompt, "completion_tokens": len(spoken)}
        metadata = {"finish_reason": reason, "fake": True, **usage}
        return Result("text/plain", " ".join(spoken).encode(), metadata)


def _say(run: Run, words: list[str], prompt: int, pause_s: float) -> tuple[list[str], str]:
    limit = run.parameters.get("max_tokens") or CONTEXT_TOKENS
    spoken: list[str] = []
    for word in words:
        if len(spoken) >= limit:
            return spoken, "length"
        if word in (run.parameters.get("stop") or ()):
            return spoken, "stop"
        sleep(run, pause_s)
        spoken.append(word)
        piece = word if len(spoken) == 1 else f" {word}"
        run.segment(piece.encode(), {"prompt_tokens": prompt, "completion_tokens": len(spoken)})
    return spoken, "stop"


def _drawn(parameters: dict[str, Any]) -> list[str]:
    if not parameters.get("temperature"):
        return []
    return [f"{random.Random(parameters.get('seed')).getrandbits(32):08x}"]
