"""Who speaks which words: short groups of words, their voices as embeddings, groups of like voices. Knows no
text and no types of sound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .transcription import SAMPLE_RATE, Word

Floats = npt.NDArray[np.float32]

GROUP_S = 3.0
"""The longest group: somebody else may go on without a pause."""
GROUP_PAUSE_S = 0.35
LOOK_S = 1.6
"""The shortest sound that an embedding is made of; a shorter group takes it from around itself."""
APART = 0.30
"""Voices whose mean cosine distance is greater are two persons'."""
SHORT_S = 1.2
"""A person heard for less in a row, between two stretches of others, is a mistake."""


@dataclass(frozen=True, slots=True)
class Group:
    """Words one after the other, taken to be one person's: the first, and the one after the last."""

    first: int
    last: int
    start: float
    end: float


def groups(words: Sequence[Word]) -> list[Group]:
    """Words in groups of at most 3 s, parted at pauses."""
    found: list[Group] = []
    for number, word in enumerate(words):
        last = found[-1] if found else None
        if last and word.start - last.end < GROUP_PAUSE_S and word.end - last.start <= GROUP_S:
            found[-1] = Group(last.first, number + 1, last.start, max(last.end, word.end))
        else:
            found.append(Group(number, number + 1, word.start, word.end))
    return found


def clip(samples: Floats, group: Group) -> Floats:
    """The sound that a group's embedding is made of."""
    middle = (group.start + group.end) / 2
    half = max(LOOK_S, group.end - group.start) / 2
    return samples[max(0, int((middle - half) * SAMPLE_RATE)) : int((middle + half) * SAMPLE_RATE)]


def assign(found: Sequence[Group], embeddings: Floats) -> list[int]:
    """The speaker of each group, as a number."""
    labels = cluster(embeddings, APART)
    for number in range(len(found)):
        _settle(found, labels, number)
    return labels


def centres(found: Sequence[Group], labels: Sequence[int], embeddings: Floats) -> dict[int, Floats]:
    """Each speaker's embedding: the mean of his groups, weighted with their length, of unit length."""
    lengths = np.array([group.end - group.start for group in found], dtype=np.float32)
    of: dict[int, Floats] = {}
    for label in set(labels):
        own = np.array([one == label for one in labels])
        total = (embeddings[own] * np.maximum(lengths[own], 0.1)[:, None]).sum(axis=0)
        of[label] = total / max(float(np.linalg.norm(total)), 1e-9)
    return of


def cluster(embeddings: Floats, apart: float) -> list[int]:
    """Average-linkage clustering by cosine distance: the two nearest clusters become one until all are apart.

    Every step looks at one matrix of mean distances, which is kept up to date (Lance and Williams).
    """
    count = len(embeddings)
    labels = list(range(count))
    sizes = np.ones(count)
    distances = (1 - embeddings @ embeddings.T).astype(np.float64)
    np.fill_diagonal(distances, np.inf)
    for _ in range(count - 1):
        one, other = np.unravel_index(int(np.argmin(distances)), distances.shape)
        if distances[one, other] > apart:
            break
        mean = (sizes[one] * distances[one] + sizes[other] * distances[other]) / (sizes[one] + sizes[other])
        distances[one], distances[:, one] = mean, mean
        distances[one, one] = np.inf
        distances[other], distances[:, other] = np.inf, np.inf
        sizes[one] += sizes[other]
        labels = [int(one) if label == other else label for label in labels]
    return labels


def _settle(found: Sequence[Group], labels: list[int], number: int) -> None:
    """A stretch too short to tell a voice goes to the nearer of its neighbours."""
    first = last = number
    while first > 0 and labels[first - 1] == labels[number]:
        first -= 1
    while last + 1 < len(labels) and labels[last + 1] == labels[number]:
        last += 1
    if found[last].end - found[first].start >= SHORT_S:
        return
    before = found[first].start - found[first - 1].end if first else np.inf
    after = found[last + 1].start - found[last].end if last + 1 < len(labels) else np.inf
    # A pause of a second on both sides: it is an answer of its own, however short.
    if min(before, after) >= 1.0:
        return
    labels[first : last + 1] = [labels[first - 1 if before <= after else last + 1]] * (last + 1 - first)
