"""Assigns words to speakers: groups words, computes an embedding of each group's voice, and clusters similar
voices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .transcription import SAMPLE_RATE, Word

Floats = npt.NDArray[np.float32]

GROUP_S = 3.0
"""The longest group: another speaker may continue without a pause."""
PAUSE_S = 0.2
"""After such a pause another person may speak."""
LOOK_S = 1.6
"""The shortest audio for an embedding; a shorter group is extended on both sides."""
APART = 0.30
"""Voices with a greater mean cosine distance are different speakers."""
SHORT_S = 1.2
"""Shorter speech of one person between two others is a mistake."""
RARE_S, LIKE = 2.5, 0.5
"""A person with less speech in total is merged with the most similar one, if any is similar: such short
speech cannot be told apart reliably."""


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive words, assumed to be one person's: the first, and the one after the last."""

    first: int
    last: int
    start: float
    end: float
    breath: tuple[float, float]
    """Start and end of the words around it that no pause separates."""


def groups(words: Sequence[Word]) -> list[Group]:
    """Words in groups of at most 3 s; speech between two pauses is divided evenly."""
    found: list[Group] = []
    for first, last in _breaths(words):
        start, end = words[first].start, max(word.end for word in words[first:last])
        count = math.ceil((end - start) / GROUP_S) or 1
        # The middle of a word decides its group.
        places = [
            min(count - 1, int(((word.start + word.end) / 2 - start) / max(end - start, 1e-3) * count))
            for word in words[first:last]
        ]
        for place in range(count):
            own = [first + at for at, one in enumerate(places) if one == place]
            if own:
                finish = max(words[at].end for at in own)
                found.append(Group(own[0], own[-1] + 1, words[own[0]].start, finish, (start, end)))
    return found


def clip(samples: Floats, group: Group) -> Floats:
    """The audio for a group's embedding. It contains no pause, because another person may speak after one."""
    middle = (group.start + group.end) / 2
    half = max(LOOK_S, group.end - group.start) / 2
    start = max(group.breath[0], min(middle - half, group.breath[1] - 2 * half))
    end = min(group.breath[1], max(middle + half, group.breath[0] + 2 * half))
    return samples[round(start * SAMPLE_RATE) : round(end * SAMPLE_RATE)]


def _breaths(words: Sequence[Word]) -> Iterator[tuple[int, int]]:
    first = 0
    for at in range(1, len(words) + 1):
        if at == len(words) or words[at].start - words[at - 1].end >= PAUSE_S:
            yield first, at
            first = at


def assign(found: Sequence[Group], embeddings: Floats) -> list[int]:
    """The speaker of each group, as a number."""
    labels = cluster(embeddings, APART)
    _absorb(found, labels, embeddings)
    for number in range(len(found)):
        _settle(found, labels, number)
    return labels


def centres(found: Sequence[Group], labels: Sequence[int], embeddings: Floats) -> dict[int, Floats]:
    """Each speaker's embedding: the mean over their groups, weighted by duration, of unit length."""
    lengths = np.array([group.end - group.start for group in found], dtype=np.float32)
    of: dict[int, Floats] = {}
    for label in set(labels):
        own = np.array([one == label for one in labels])
        total = (embeddings[own] * np.maximum(lengths[own], 0.1)[:, None]).sum(axis=0)
        of[label] = total / max(float(np.linalg.norm(total)), 1e-9)
    return of


def cluster(embeddings: Floats, apart: float) -> list[int]:
    """Average-linkage clustering by cosine distance: merges the two nearest clusters until all are far apart.

    It updates one matrix of mean distances in every step (Lance and Williams).
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


def _absorb(found: Sequence[Group], labels: list[int], embeddings: Floats) -> None:
    """Merge speakers with too little speech into the most similar of the others."""
    spoken_s: dict[int, float] = {}
    for group, label in zip(found, labels, strict=True):
        spoken_s[label] = spoken_s.get(label, 0.0) + group.end - group.start
    often = [label for label, seconds in spoken_s.items() if seconds >= RARE_S]
    known = centres(found, labels, embeddings)
    for number, label in enumerate(labels):
        if label not in often and often:
            nearest = max(often, key=lambda other: float(known[other] @ embeddings[number]))
            if known[nearest] @ embeddings[number] >= LIKE:
                labels[number] = nearest


def _settle(found: Sequence[Group], labels: list[int], number: int) -> None:
    """Speech too short to identify a voice is given to the more similar neighbour."""
    first = last = number
    while first > 0 and labels[first - 1] == labels[number]:
        first -= 1
    while last + 1 < len(labels) and labels[last + 1] == labels[number]:
        last += 1
    if found[last].end - found[first].start >= SHORT_S:
        return
    before = found[first].start - found[first - 1].end if first else np.inf
    after = found[last + 1].start - found[last].end if last + 1 < len(labels) else np.inf
    # With a pause of a second on both sides it is a separate utterance, however short.
    if min(before, after) >= 1.0:
        return
    labels[first : last + 1] = [labels[first - 1 if before <= after else last + 1]] * (last + 1 - first)
