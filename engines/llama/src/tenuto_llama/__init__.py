"""Chat with a GGUF model through llama.cpp (cyllama): one answer at a time, token by token.

It works with any model: the chat template is the model's own. A caller's text is never read as control
tokens. At temperature 0, and for one seed, the same request gives the same answer: a prompt is computed in
blocks that always start at the same places, so a block that is still in memory from the request before was
computed exactly as it would be now.
"""

from __future__ import annotations

import codecs
import json
import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tenuto_engine import InputError, Result, Run

if TYPE_CHECKING:
    from cyllama.llama import llama_cpp

CONTEXT_TOKENS = 8192
BLOCK_TOKENS = 128
# Defaults; with 1 and 1 a small model rambles.
TEMPERATURE = 0.7
TOP_P = 0.8
PENALTY_TOKENS = 256
NO_PENALTY = 1.0
# llama.cpp takes this seed to mean "random".
_DRAWN_SEED = 0xFFFFFFFF
# Placeholders for the contents while the template is filled in; private-use characters, which no template
# contains.
_OPEN, _CLOSE = "\ue000", "\ue001"
_REPLACEMENT = "\ufffd"


class LlamaChat:
    """A loaded GGUF model. `options["path"]`, or else `options["weights"]`, names one file, and
    `options["threads"]` how many threads.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        # On a busy machine, threads that spin while they wait can stall for seconds. The OpenMP runtime reads
        # this variable once, when it is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        from cyllama.llama import llama_cpp

        llama_cpp.disable_logging()
        llama_cpp.ggml_backend_load_all()
        self._llama = llama_cpp
        path = os.path.expanduser(options.get("path") or next(iter(options["weights"].values())))  # noqa: PTH111
        self._model = llama_cpp.LlamaModel(path, llama_cpp.LlamaModelParams())
        self._vocabulary = self._model.get_vocab()
        self._template = self._model.get_default_chat_template()
        self._context_tokens = min(CONTEXT_TOKENS, self._model.n_ctx_train)
        self._default_tokens = int(options.get("default_tokens") or self._context_tokens)
        self._repeat_penalty = float(options.get("repeat_penalty") or NO_PENALTY)
        self._context = self._new_context(int(options.get("threads", 2)))
        # The prompt whose blocks are in the KV cache.
        self._computed: list[int] = []
        self.info = {"context_tokens": self._context_tokens, "revision": options.get("model_revision", "")}

    def run(self, run: Run) -> Result:
        wanted = run.parameters
        prompt = self._prompt(json.loads(run.inputs["messages"]))
        if len(prompt) >= self._context_tokens:
            raise InputError(
                "context_exceeded",
                f"the prompt has {len(prompt)} tokens, the model's context holds {self._context_tokens}, "
                "the answer included",
            )
        room = self._context_tokens - len(prompt)
        limit = min(wanted.get("max_tokens") or self._default_tokens, room)
        self._compute(prompt, run)
        answer = _Answer(tuple(wanted.get("stop") or ()))
        count, reason = 0, "length"
        for token in self._tokens(prompt, wanted):
            run.check_cancelled()
            if self._vocabulary.is_eog(token):
                reason = "stop"
                break
            count += 1
            _show(run, answer.add(self._bytes(token)), len(prompt), count)
            if answer.stopped:
                reason = "stop"
                break
            if count >= limit:
                break
        _show(run, answer.rest(), len(prompt), count)
        usage = {"prompt_tokens": len(prompt), "completion_tokens": count}
        return Result("text/plain", answer.text.encode(), {"finish_reason": reason, **usage})

    def _new_context(self, threads: int) -> llama_cpp.LlamaContext:
        parameters = self._llama.LlamaContextParams()
        parameters.n_ctx = self._context_tokens
        parameters.n_batch = parameters.n_ubatch = BLOCK_TOKENS
        parameters.n_threads = parameters.n_threads_batch = threads
        return self._llama.LlamaContext(self._model, parameters)

    def _prompt(self, messages: list[dict[str, str]]) -> list[int]:
        """Fill in the model's template; only the template's own text may contain control tokens."""
        stand_ins = [
            self._llama.LlamaChatMessage(role=message["role"], content=f"{_OPEN}{index}{_CLOSE}")
            for index, message in enumerate(messages)
        ]
        filled = self._model.chat_apply_template(self._template, stand_ins, True)
        tokens: list[int] = []
        head, *rest = filled.split(_OPEN)
        tokens += self._vocabulary.tokenize(head, add_special=True, parse_special=True)
        for piece in rest:
            index, _, between = piece.partition(_CLOSE)
            content = messages[int(index)]["content"]
            if content:
                tokens += self._vocabulary.tokenize(content, add_special=False, parse_special=False)
            if between:
                tokens += self._vocabulary.tokenize(between, add_special=False, parse_special=True)
        return tokens

    def _compute(self, prompt: list[int], run: Run) -> None:
        """Compute the prompt into the KV cache; complete blocks that are already there are kept."""
        same = _common(self._computed, prompt)
        # The last token is always computed: its output is needed to sample the first token of the answer.
        kept = min(same, len(prompt) - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        kept = min(kept, len(self._computed) // BLOCK_TOKENS * BLOCK_TOKENS)
        self._computed = prompt[:kept]
        if kept == 0:
            self._context.kv_cache_clear()
        else:
            self._context.memory_seq_rm(0, kept, -1)
        for start in range(kept, len(prompt), BLOCK_TOKENS):
            run.check_cancelled()
            block = prompt[start : start + BLOCK_TOKENS]
            self._context.decode(self._llama.llama_batch_get_one(block, start))
            self._computed = prompt[: start + len(block)]
            run.progress("reading", start + len(block), len(prompt), "tokens")

    def _tokens(self, prompt: list[int], wanted: dict[str, Any]) -> Iterator[int]:
        """Sample tokens without end; the caller stops before the context is full."""
        sampler = self._sampler(wanted)
        position = len(prompt)
        while True:
            token = sampler.sample(self._context, -1)
            yield token
            self._context.decode(self._llama.llama_batch_get_one([token], position))
            position += 1

    def _sampler(self, wanted: dict[str, Any]) -> llama_cpp.LlamaSampler:
        sampler = self._llama.LlamaSampler(self._llama.LlamaSamplerChainParams())
        frequency, presence = wanted.get("frequency_penalty"), wanted.get("presence_penalty")
        # A caller who says anything about repetition, be it 0, gets just that.
        repeat = self._repeat_penalty if frequency is None and presence is None else NO_PENALTY
        if frequency or presence or repeat != NO_PENALTY:
            sampler.add_penalties(PENALTY_TOKENS, repeat, frequency or 0.0, presence or 0.0)
        temperature = TEMPERATURE if wanted.get("temperature") is None else wanted["temperature"]
        if temperature == 0:
            sampler.add_greedy()
            return sampler
        top_p = TOP_P if wanted.get("top_p") is None else wanted["top_p"]
        sampler.add_top_p(top_p, 1)
        sampler.add_temp(temperature)
        seed = wanted.get("seed")
        drawn = random.SystemRandom().getrandbits(32) if seed is None else seed
        sampler.add_dist(drawn % _DRAWN_SEED)
        return sampler

    def _bytes(self, token: int) -> bytes:
        """Return a token's bytes: a character may be spread over several tokens."""
        text: str = self._vocabulary.token_to_piece(token, special=False)
        if _REPLACEMENT not in text:
            return text.encode()
        return bytes(_BYTE_OF[mark] for mark in self._vocabulary.get_text(token) if mark in _BYTE_OF)


class _Answer:
    """The text so far. A possible start of a stop string and incomplete characters are held back."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self.stopped = False
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._shown: list[str] = []
        self._held = ""

    @property
    def text(self) -> str:
        return "".join(self._shown)

    def add(self, content: bytes) -> str:
        """Take more of the answer; return what can be sent now."""
        self._held += self._decoder.decode(content)
        found = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self._show(min(found))
        return self._show(len(self._held) - self._doubtful())

    def rest(self) -> str:
        """Return what was held back; nothing after a stop string."""
        if self.stopped:
            return ""
        self._held += self._decoder.decode(b"", final=True)
        return self._show(len(self._held))

    def _show(self, length: int) -> str:
        text, self._held = self._held[:length], self._held[length:]
        self._shown.append(text)
        return text

    def _doubtful(self) -> int:
        """Return how many characters at the end may be the start of a stop string."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:size]):
                    longest = size
                    break
        return longest


def _show(run: Run, text: str, prompt_tokens: int, completion_tokens: int) -> None:
    if text:
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        run.segment(text.encode(), usage)


def _common(one: list[int], other: list[int]) -> int:
    """Return how many tokens at the start are the same."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _byte_marks() -> dict[str, int]:
    """Return the byte for each character of a byte-level vocabulary (GPT-2's table)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    marks = {chr(byte): byte for byte in plain}
    others = [byte for byte in range(256) if byte not in plain]
    return marks | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTE_OF = _byte_marks()
