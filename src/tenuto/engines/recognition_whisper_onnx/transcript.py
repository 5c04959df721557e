"""A recording's transcript: windows are searched some at a time, and what was found is put in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from . import guards
from .model_file import Floats
from .network import Heard, Network
from .search import Found, Search
from .spectra import RATE, Spectra
from .vocabulary import BEFORE, FIRST_LANGUAGE, FIRST_SPECIAL, LAST_LANGUAGE, START, TRANSCRIBE, Vocabulary
from .windows import Span, halves, left_over
from .windows import windows as packed

TOGETHER = 3
"""Windows that are searched at once: the decoder's weights are then read once for them. Each takes 70 MB."""
TRIES = 3
"""How often a stretch is heard at most: as it is, then what was wrong or left over of it."""
_SHORTEST_HALVED_S = 4.0
"""A window so short is not cut in two when it goes wrong."""
_PROMPTS = MappingProxyType(
    {
        "zh": (3588, 4438, 1541, 29993, 19550, 21596, 1546, 34592, 7626, 1543),
        "ja": (25212, 27311, 31348, 2972, 17174, 11957, 254, 4767, 1543),
    }
)
"""What is taken to be said before: 以下是普通话的句子。 makes the model write simplified characters,
これは日本語の文章です。 makes it write punctuation."""
_LANGUAGES = slice(FIRST_LANGUAGE - FIRST_SPECIAL, LAST_LANGUAGE + 1 - FIRST_SPECIAL)


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of the recording, in seconds."""

    start: float
    end: float
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a recording's windows."""

    pieces: list[Piece]
    repetitions: int
    """How many windows went round in circles even when they were heard again."""


@dataclass(frozen=True, slots=True)
class _Task:
    window: Span
    tries: int = 1


class Transcriber:
    """The loaded model with its vocabulary."""

    def __init__(self, network: Network, vocabulary: Vocabulary) -> None:
        self._network = network
        self._vocabulary = vocabulary
        self._search = Search(network, vocabulary.barred)
        self._spectra = Spectra()

    def language(self, samples: Floats, windows: Sequence[Span]) -> str:
        """The likeliest language of the windows."""
        scores = self._search.languages(self._heard(samples, windows, lambda: None), _LANGUAGES)
        return self._vocabulary.languages[int(scores.argmax())]

    def tell(
        self, samples: Floats, voices: Sequence[Span], language: str, look: Callable[[float], None]
    ) -> Told:
        """What the voices say. `look` is called at every step with the share that is done, and may raise."""
        windows = packed(voices, samples, RATE)
        waiting = deque(_Task(window) for window in windows)
        total = max(1.0, sum(window.length for window in windows))
        pieces: list[Piece] = []
        repetitions = 0
        while waiting:
            share = 1 - min(1.0, sum(task.window.length for task in waiting) / total)
            some = [waiting.popleft() for _ in range(min(TOGETHER, len(waiting)))]
            searched = self._found(samples, [task.window for task in some], language, partial(look, share))
            for task, found in zip(some, searched, strict=True):
                if self._again(task, found):
                    waiting.extend(_Task(half, task.tries + 1) for half in halves(task.window, samples, RATE))
                    continue
                told = self._pieces(task.window, found)
                repetitions += guards.collapsed(self._text(found))
                pieces += told
                rest = left_over(task.window, told[-1].end if told else task.window.end, voices)
                if rest and task.tries < TRIES:
                    waiting.append(_Task(rest, task.tries + 1))
        return Told(sorted(pieces, key=lambda piece: piece.start), repetitions)

    def _found(
        self, samples: Floats, windows: Sequence[Span], language: str, look: Callable[[], None]
    ) -> list[Found]:
        spoken = FIRST_LANGUAGE + self._vocabulary.languages.index(language)
        before = [BEFORE, *_PROMPTS[language]] if language in _PROMPTS else []
        heard = self._heard(samples, windows, look)
        lengths = [window.length for window in windows]
        return self._search.find(heard, [*before, START, spoken, TRANSCRIBE], lengths, look)

    def _heard(self, samples: Floats, windows: Sequence[Span], look: Callable[[], None]) -> Heard:
        spectra = []
        for window in windows:
            look()
            spectra.append(self._spectra.of(samples[round(window.start * RATE) : round(window.end * RATE)]))
        return self._network.hear(spectra)

    def _again(self, task: _Task, found: Found) -> bool:
        """Whether a window is heard once more, in halves: the model guessed, or went round in circles."""
        wrong = guards.guessed(found) or guards.collapsed(self._text(found))
        return wrong and task.tries == 1 and task.window.length > _SHORTEST_HALVED_S

    def _text(self, found: Found) -> str:
        return self._vocabulary.text(found.tokens)

    def _pieces(self, window: Span, found: Found) -> list[Piece]:
        if guards.made_up(found):
            return []
        pieces: list[Piece] = []
        for words in self._vocabulary.words(found.tokens):
            start = min(window.start + words.start, window.end)
            end = window.end if words.end is None else min(window.start + words.end, window.end)
            pieces.append(Piece(start, end, guards.unfolded(words.text)))
        return pieces
