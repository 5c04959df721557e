"""The networks that draw, run by ONNX Runtime: phrase to concept, noise to picture, picture to a larger one.

How they were made: lab/train/image/. A picture here is premultiplied RGBA in 0..1. Knows no prompts and no
layout.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .encoder import SentenceEncoder

Floats = npt.NDArray[np.float32]

SIDE = 64
_FAINT = 0.08
_MAX_SHARE = 4.0
"""No more than this much of what guidance adds, or pictures burn out at high scales."""


class Pictograms:
    """The loaded networks; one thread at a time."""

    def __init__(self, folder: Path, encoder: Path, threads: int) -> None:
        about = json.loads((folder / "concepts.json").read_text("utf-8"))
        self.labels: list[str] = about["labels"]
        self.styles: list[str] = about["styles"]
        self.names: dict[str, int] = about["names"]
        """What means a concept as it stands, in five languages: its place among the labels."""
        self._numbers = int(about["numbers"])
        self._encoder = SentenceEncoder(encoder)
        self._words, self._generator, self._decoder, self._upscaler = (
            _session(folder / f"{name}.onnx", threads)
            for name in ("words", "generator", "decoder", "upscaler")
        )

    def concepts(self, phrases: list[str]) -> list[tuple[int, float]]:
        """For each phrase the nearest concept and how near it is, at most 1; a known name is nearest to
        itself."""
        encoded = self._encoder.encode(phrases)
        likeness = self._words.run(None, {"encoding": encoded})[0]
        found = []
        for phrase, row in zip(phrases, likeness, strict=True):
            known = self.names.get(phrase)
            best = int(row.argmax()) if known is None else known
            found.append((best, 1.0 if known is not None else float(row[best])))
        return found

    def generate(
        self, concepts: list[int], seed: int, steps: int, guidance: float, on_step: Callable[[int], None]
    ) -> Floats:
        """[n, 64, 64, 4]: one picture of each concept, from noise in `steps` steps. `on_step` may raise."""
        count = len(concepts)
        chances = (np.random.default_rng([seed, number]) for number in range(count))
        state = np.stack([chance.standard_normal(self._numbers, np.float32) for chance in chances])
        asked = np.array([*concepts, *[len(self.labels)] * count], np.int64)
        # All things of a picture in one style, which the seed chooses.
        styles = np.full(2 * count, seed % len(self.styles), np.int64)
        # At 1 what any picture would be is of no weight, and need not be known.
        rows = count if guidance == 1 else 2 * count
        for step in range(steps):
            on_step(step)
            time = np.full(rows, step / steps, np.float32)
            fed = {"noisy": np.concatenate([state, state])[:rows], "time": time}
            clean = self._generator.run(None, {**fed, "concept": asked[:rows], "style": styles[:rows]})[0]
            towards = _guided(clean[:count], clean[count:], guidance) if rows > count else clean
            state = state + (towards - state) / np.float32(steps - step)
        on_step(steps)
        decoded: Floats = self._decoder.run(None, {"numbers": state.astype(np.float32)})[0]
        return _clean(decoded.transpose(0, 2, 3, 1))

    def enlarged(self, picture: Floats) -> Floats:
        """Four times the side."""
        small = np.ascontiguousarray(picture.transpose(2, 0, 1)[None])
        large = self._upscaler.run(None, {"small": small})[0][0].transpose(1, 2, 0).clip(0, 1)
        # Colour is never more than alpha where alpha is premultiplied.
        large[..., :3] = np.minimum(large[..., :3], large[..., 3:])
        found: Floats = np.ascontiguousarray(large)
        return found


def _clean(pictures: Floats) -> Floats:
    """Without the faint residue of noise where nothing is, and whole where something is."""
    alpha = pictures[..., 3:]
    sure = ((alpha - _FAINT) / (1 - 2 * _FAINT)).clip(0, 1)
    colours = pictures[..., :3] * sure / np.maximum(alpha, _FAINT)
    return np.concatenate([np.minimum(colours, sure), sure], -1).astype(np.float32)


def _guided(asked: Floats, plain: Floats, guidance: float) -> Floats:
    """From what any picture would be towards the one asked for; beyond it, as far as its own length
    allows."""
    added = (guidance - 1) * (asked - plain)
    length = np.linalg.norm(added, axis=1, keepdims=True)
    limit = _MAX_SHARE * np.linalg.norm(asked, axis=1, keepdims=True)
    found: Floats = asked + added * np.minimum(1, limit / np.maximum(length, 1e-6))
    return found


def _session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Weights are restored from their 8 bits once, not at every run.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Threads that spin between runs take the processor from other engines.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
