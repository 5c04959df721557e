"""Who is who across the parts of a recording: labels that mean one part become labels of the whole. Pure.

A part's engine names its speakers S01, S02, … by itself. The same person is recognised by how the voice
sounds (the cosine of embeddings) and by who speaks in the seconds that two parts share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Segment = dict[str, Any]

SAME_SPEAKER = 0.75
"""The least score of one person: the cosine of two embeddings, raised by what is said at the same time."""
SHARED_WEIGHT = 0.3
"""How much speaking all of the shared seconds together adds to a score."""


class Speakers:
    """Everybody heard so far, numbered from 0 in the order of their parts."""

    def __init__(self) -> None:
        self._sums: list[list[float]] = []

    def numbers(
        self, part: Sequence[Segment], embeddings: Mapping[str, Sequence[float]], before: Sequence[Segment]
    ) -> dict[str, int]:
        """The number of each label of a part.

        `before` is what the parts before said, speakers as numbers; where times agree, both heard one person.
        """
        spoken_s: dict[str, float] = {}
        for segment in part:
            if segment.get("speaker"):
                length_s = segment["end"] - segment["start"]
                spoken_s[segment["speaker"]] = spoken_s.get(segment["speaker"], 0.0) + length_s
        found = self._pairs(spoken_s, embeddings, _shared(part, before))
        for label, length_s in spoken_s.items():
            if label not in found:
                found[label] = len(self._sums)
                self._sums.append([])
            self._add(found[label], embeddings.get(label, ()), length_s)
        return found

    def _pairs(
        self,
        labels: Mapping[str, float],
        embeddings: Mapping[str, Sequence[float]],
        shared: Mapping[tuple[str, int], float],
    ) -> dict[str, int]:
        """The best pairs first; nobody is paired twice, as an engine told a part's speakers apart."""
        scores = sorted(
            (
                (_cosine(embeddings.get(label, ()), known) + SHARED_WEIGHT * shared.get((label, number), 0.0))
                if known and embeddings.get(label)
                else shared.get((label, number), 0.0),
                -number,
                label,
            )
            for label in labels
            for number, known in enumerate(self._sums)
        )
        found: dict[str, int] = {}
        for score, negative, label in reversed(scores):
            if score >= SAME_SPEAKER and label not in found and -negative not in found.values():
                found[label] = -negative
        return found

    def _add(self, number: int, embedding: Sequence[float], weight: float) -> None:
        """A person's embedding is the mean over the parts, weighted with how long each heard him."""
        known = self._sums[number] or [0.0] * len(embedding)
        if len(embedding) == len(known):
            self._sums[number] = [old + weight * new for old, new in zip(known, embedding, strict=True)]


def _shared(part: Sequence[Segment], before: Sequence[Segment]) -> dict[tuple[str, int], float]:
    """For each label and number, the share of the label's seconds beside `before` in which both speak."""
    together: dict[tuple[str, int], float] = {}
    beside: dict[str, float] = {}
    end_s = max((segment["end"] for segment in before), default=0.0)
    for segment in part:
        label = segment.get("speaker")
        if not label or segment["start"] >= end_s:
            continue
        beside[label] = beside.get(label, 0.0) + min(segment["end"], end_s) - segment["start"]
        for other in before:
            common = min(segment["end"], other["end"]) - max(segment["start"], other["start"])
            if common > 0 and other.get("speaker") is not None:
                pair = (label, other["speaker"])
                together[pair] = together.get(pair, 0.0) + common
    # At least a second counts, or a word at the edge would speak for a person.
    return {pair: min(1.0, common / max(1.0, beside[pair[0]])) for pair, common in together.items()}


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    length = math.hypot(*one) * math.hypot(*other)
    return sum(a * b for a, b in zip(one, other, strict=False)) / length if length else 0.0
