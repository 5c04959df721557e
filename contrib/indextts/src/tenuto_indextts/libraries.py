"""The two packages that run the model, behind one interface.

`indextts` is upstream's own, from its repository; `indextts25-inference` is on PyPI. Both yield sound
segment by segment from one generator. It is used whether anybody listens or not, as the plain call cuts texts
in other places where the GPU is small. And it is asked for no silence: it would yield one after the last
segment, too; for a silence of 0 upstream yields a list instead of samples.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from tenuto_engine import EngineError, Run

from .reading import split

BIASES = (0.9375, 0.875, 1.0, 1.0, 0.9375, 0.9375, 0.6875, 0.5625)
MOST_EMOTION = 0.8
"""The maximum sum of an emotion vector; the rest is the voice's own emotion."""
_CACHE_VARIABLE = "HF_HUB_CACHE"


class Hearing:
    """Receives progress, in percent, and the package's warnings."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.warnings: list[str] = []

    def progress(self, share: float) -> None:
        """Report progress and check for cancellation."""
        self._run.check_cancelled()
        self._run.progress("synthesis", min(99, int(100 * share)), 100, "percent")


class Library(Protocol):
    """A package with its model loaded."""

    package: str
    reads_emotion: bool
    """Whether it can derive an emotion from a text."""

    def balanced(self, vector: list[float]) -> list[float]:
        """An emotion vector, normalised as by the package's own web page."""

    def speak(self, asked: dict[str, Any], hear: Hearing) -> Iterator[Any]:
        """Each segment's samples, in order."""


class Upstream:
    """`indextts`, as it is in its repository."""

    package = "indextts"

    def __init__(self, options: dict[str, Any]) -> None:
        with _own_cache():
            import torch
            from indextts.infer_v2_5 import IndexTTS2
        self._torch = torch
        self.reads_emotion = bool(options["use_qwen_emo"])
        self._tts = IndexTTS2(**_placed(options), use_qwen_emo=self.reads_emotion)

    def balanced(self, vector: list[float]) -> list[float]:
        return list(self._tts.normalize_emo_vec(vector, apply_bias=True))

    def speak(self, asked: dict[str, Any], hear: Hearing) -> Iterator[Any]:
        # The first releases of 2.5 accept the segment limit but ignore it.
        if hasattr(self._tts, "split_text_by_tokens"):
            texts = [asked["text"]]
        else:
            texts = split(asked["text"], asked["max_text_tokens_per_segment"], self._tokens)
        for index, text in enumerate(texts):
            self._tts.gr_progress = _share_of(hear, index, len(texts))
            made = self._tts.infer(
                **{**asked, "text": text}, output_path=None, interval_silence=0, stream_return=True
            )
            # Without no_grad the package keeps the whole graph of a voice: gigabytes.
            with self._torch.no_grad():
                yield from _heard(made, hear)

    def _tokens(self, text: str) -> int:
        return len(self._tts.tokenizer.encode(text, allowed_special="all"))


class Packaged:
    """`indextts25-inference`. Its simple interface always normalises texts, so the layer below is called."""

    package = "indextts25-inference"
    reads_emotion = False

    def __init__(self, options: dict[str, Any]) -> None:
        from indextts25.infer_v2_5 import IndexTTS2

        self._tts = IndexTTS2(**_placed(options))

    def balanced(self, vector: list[float]) -> list[float]:
        """As upstream does; this package leaves it to the caller."""
        biased = [share * bias for share, bias in zip(vector, BIASES)]  # noqa: B905 (both have eight)
        total = sum(biased)
        return biased if total <= MOST_EMOTION else [share * MOST_EMOTION / total for share in biased]

    def speak(self, asked: dict[str, Any], hear: Hearing) -> Iterator[Any]:
        length, spoken = max(1, len(asked["text"])), 0

        def sounds() -> Iterator[Any]:
            nonlocal spoken
            made = self._tts.infer_generator(
                **asked, output_path=None, interval_silence=0, stream_return=True, emit_text=True
            )
            for samples, text in made:
                spoken += len(text)
                hear.progress(spoken / length)
                yield samples

        yield from _heard(sounds(), hear)


def _placed(options: dict[str, Any]) -> dict[str, Any]:
    """Where the model is, and where it runs."""
    folder = Path(options["model_dir"]).expanduser()
    if not (folder / "config.yaml").is_file():
        fault = f"options.model_dir: {folder} has no config.yaml; download the model's files into it"
        raise EngineError("engine_not_ready", fault)
    return {
        "cfg_path": str(folder / "config.yaml"),
        "model_dir": str(folder),
        "use_bf16": options["use_bf16"],
        "device": options["device"] or None,
    }


def _heard(made: Iterator[Any], hear: Hearing) -> Iterator[Any]:
    """The sound among what a generator yields, and its warning that a segment was broken off."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RuntimeWarning)
        for samples in made:
            # A list stands for a silence that nobody asked for.
            if not isinstance(samples, list):
                yield samples.detach().cpu().float().numpy()
    if any("max_mel_tokens" in str(one.message) for one in caught):
        hear.warnings.append(
            "A segment was broken off before its end: ask for a smaller max_text_tokens_per_segment."
        )


def _share_of(hear: Hearing, index: int, count: int) -> Any:
    def heard(value: float, desc: str = "") -> None:
        hear.progress((index + value) / count)

    return heard


@contextlib.contextmanager
def _own_cache() -> Iterator[None]:
    """Importing the package points the hub's cache to the current folder, for everything in the process.

    The hub's client is imported before it, so that it has read the operator's own setting.
    """
    before = os.environ.get(_CACHE_VARIABLE)
    with contextlib.suppress(ImportError):
        import huggingface_hub.constants  # noqa: F401
    try:
        yield
    finally:
        os.environ.pop(_CACHE_VARIABLE, None)
        if before is not None:
            os.environ[_CACHE_VARIABLE] = before
