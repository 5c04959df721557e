"""Vectors of texts in a hundred languages, by the encoder that also reads the prompts of pictures.

The model knows two kinds of text, by the words before them: `query: ` and `passage: `. A text that begins
with neither is taken for a query, as its authors advise wherever texts are compared with each other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tenuto_engine import InputError, Result, Run

from .encoder import DIMENSIONS, MAX_TOKENS, SentenceEncoder

PREFIXES = ("query: ", "passage: ")
MOST_TOKENS = 32_768
"""Of all texts of a run together: about half a minute of one core."""
BATCH_TOKENS = 4096
"""Of texts that are computed at once: attention over them takes some 100 MB."""


class SentenceVectors:
    """The loaded model; takes one run at a time. `options["weights"]` names one file."""

    def __init__(self, options: dict[str, Any]) -> None:
        (weights,) = options["weights"].values()
        self._encoder = SentenceEncoder(Path(weights))
        self.info = {"dimensions": DIMENSIONS, "revision": options.get("model_revision", "")}

    def run(self, run: Run) -> Result:
        """`inputs`: a JSON list of texts. The result: a row of 384 little-endian 32-bit floats for each."""
        split = self._split(run, json.loads(run.inputs["inputs"]))
        vectors = np.empty((len(split), DIMENSIONS), "<f4")
        count = 0
        for batch in _batches(split):
            run.check_cancelled()
            vectors[batch] = self._encoder.encode_tokens([split[number] for number in batch])
            count += len(batch)
            run.progress("embedding", count, len(split), "texts")
        tokens = sum(map(len, split))
        return Result("application/octet-stream", vectors.tobytes(), {"prompt_tokens": tokens})

    def _split(self, run: Run, texts: list[str]) -> list[list[int]]:
        """The tokens of each text. InputError: one is too long, or all together are."""
        split, count = [], 0
        for number, text in enumerate(texts):
            run.check_cancelled()
            tokens = self._encoder.tokens(text if text.startswith(PREFIXES) else PREFIXES[0] + text)
            if tokens is None:
                where = f"input {number + 1} of {len(texts)}" if len(texts) > 1 else "the input"
                message = f"{where} has more than {MAX_TOKENS} tokens, which the model reads at most"
                raise InputError("context_exceeded", f"{message}; split it")
            count += len(tokens)
            if count > MOST_TOKENS:
                message = f"the inputs have more than {MOST_TOKENS} tokens together; send fewer at once"
                raise InputError("context_exceeded", message)
            split.append(tokens)
        return split


def _batches(split: list[list[int]]) -> list[list[int]]:
    """Numbers of texts, the shortest first, so that those of a batch are of similar length."""
    batches: list[list[int]] = [[]]
    for number in sorted(range(len(split)), key=lambda each: len(split[each])):
        if (len(batches[-1]) + 1) * len(split[number]) > BATCH_TOKENS:
            batches.append([])
        batches[-1].append(number)
    return batches
