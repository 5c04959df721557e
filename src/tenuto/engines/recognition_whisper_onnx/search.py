"""Which words were said: a beam search over the decoder, for some windows of sound at once. Knows no text.

Tokens come in Whisper's order: a time, words, a time, and so on, each time at or after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .model_file import Floats
from .network import Heard, Network, Past, Step
from .vocabulary import END, FIRST_SPECIAL, FIRST_TIME, SILENCE, START, TIMES_PER_SECOND

BEAMS = 5
CANDIDATES = BEAMS + 1
"""Next tokens of each hypothesis that are looked at: enough to go on with when one of them ends it."""
LONGEST = 200
"""The most tokens of a window: nobody says more in half a minute."""
_LATEST_START_S = 1.0
"""A window begins with speech, so its first segment begins in the first second."""
_BARRED = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class Found:
    """The likeliest tokens of a window."""

    tokens: tuple[int, ...]
    likelihood: float
    """The logarithm of a token's probability, on average."""
    silence: float
    """How likely it is that nobody speaks."""


@dataclass(slots=True)
class _Row:
    """A hypothesis: its tokens, the sum of their logarithms, and the row of the past that it goes on from."""

    tokens: tuple[int, ...]
    score: float
    parent: int


@dataclass(slots=True)
class _Window:
    """A window whose hypotheses are still growing."""

    index: int
    seconds: float
    silence: float
    rows: list[_Row]
    ended: list[_Row] = field(default_factory=list)


class Search:
    """Searches with one network. `barred` are tokens that never come: symbols that nobody says."""

    def __init__(self, network: Network, barred: list[int]) -> None:
        self._network = network
        self._barred = np.zeros(network.words, np.float32)
        self._barred[barred] = _BARRED
        self._barred[FIRST_SPECIAL:FIRST_TIME] = _BARRED
        self._barred[END] = 0

    def languages(self, heard: Heard, languages: slice) -> Floats:
        """How likely each language is in all of the windows together, as logarithms."""
        rows = heard.windows
        said, _ = self._network.step(
            heard,
            self._network.past(rows),
            tokens=np.full((rows, 1), START, np.int64),
            parents=np.arange(rows),
            barred=np.zeros((rows, self._network.words), np.float32),
        )
        sums: Floats = said.specials[:, languages].sum(axis=0)
        return sums

    def find(
        self, heard: Heard, prompt: Sequence[int], seconds: Sequence[float], look: Callable[[], None]
    ) -> list[Found]:
        """The tokens of each window, so many seconds long. `look` is called at every step and may raise."""
        live, past = self._opened(heard, prompt, seconds)
        found: dict[int, Found] = {}
        for _ in range(LONGEST):
            look()
            said, past = self._network.step(
                heard,
                past,
                tokens=np.array([[row.tokens[-1]] for window in live for row in window.rows]),
                parents=np.array([row.parent for window in live for row in window.rows]),
                barred=np.stack(
                    [self._barred_after(row.tokens, at.seconds) for at in live for row in at.rows]
                ),
            )
            for number, window in enumerate(live):
                _grow(window, said, number * BEAMS)
            growing = [place for place, window in enumerate(live) if len(window.ended) < BEAMS]
            if len(growing) < len(live):
                found |= {window.index: _best(window) for window in live if len(window.ended) >= BEAMS}
                live = [live[place] for place in growing]
                if not live:
                    break
                heard = heard.only(growing)
        found |= {window.index: _best(window) for window in live}
        return [found[index] for index in range(len(seconds))]

    def _opened(
        self, heard: Heard, prompt: Sequence[int], seconds: Sequence[float]
    ) -> tuple[list[_Window], Past]:
        """Each window with its first hypotheses, behind the prompt."""
        count = heard.windows
        said, past = self._network.step(
            heard,
            self._network.past(count),
            tokens=np.tile(np.array(prompt, np.int64), (count, 1)),
            parents=np.arange(count),
            barred=np.stack([self._barred_after((), length) for length in seconds]),
            opening=prompt.index(START),
        )
        windows = [
            _Window(index, seconds[index], _silence(said, index), _first_rows(said, index))
            for index in range(count)
        ]
        return windows, past

    def _barred_after(self, tokens: tuple[int, ...], seconds: float) -> Floats:
        """What may come next by the order of times and words, 0, and what may not."""
        barred = self._barred.copy()
        barred[FIRST_TIME + round(seconds * TIMES_PER_SECOND) + 1 :] = _BARRED
        if not tokens:
            barred[:FIRST_TIME] = _BARRED
            barred[FIRST_TIME + round(_LATEST_START_S * TIMES_PER_SECOND) + 1 :] = _BARRED
            return barred
        last = next(token for token in reversed(tokens) if token >= FIRST_TIME)
        after_time = tokens[-1] >= FIRST_TIME
        if after_time and (len(tokens) < 2 or tokens[-2] >= FIRST_TIME):
            barred[FIRST_TIME:] = _BARRED
        elif after_time:
            barred[:END] = _BARRED
            barred[FIRST_TIME:last] = _BARRED
        else:
            barred[FIRST_TIME : last + 1] = _BARRED
        return barred


def _silence(said: Step, index: int) -> float:
    return float(np.exp(said.specials[index, SILENCE - FIRST_SPECIAL]))


def _first_rows(said: Step, index: int) -> list[_Row]:
    pairs = zip(said.choices[index, :BEAMS], said.scores[index, :BEAMS], strict=True)
    return [_Row((int(token),), float(score), index) for token, score in pairs]


def _grow(window: _Window, said: Step, first: int) -> None:
    """The likeliest of all that the hypotheses may become; those that end leave the search."""
    sums = np.array([row.score for row in window.rows])[:, None] + said.scores[first : first + BEAMS]
    rows: list[_Row] = []
    for place in np.argsort(-sums, axis=None, kind="stable"):
        number, choice = divmod(int(place), CANDIDATES)
        token = int(said.choices[first + number, choice])
        grown = _Row((*window.rows[number].tokens, token), float(sums[number, choice]), first + number)
        if token == END:
            window.ended.append(grown)
        else:
            rows.append(grown)
        if len(rows) == BEAMS:
            break
    window.rows = rows


def _best(window: _Window) -> Found:
    """The likeliest for its length; those that never ended count where none did."""
    best = max(window.ended or window.rows, key=lambda row: row.score / len(row.tokens))
    tokens = tuple(token for token in best.tokens if token != END)
    return Found(tokens, best.score / len(best.tokens), window.silence)
