"""Whisper on at most 30 seconds of audio: language, words and times.

The weights are those of faster-whisper, run by CTranslate2. (faster-whisper would add PyAV to decode files,
which is not needed here and whose wheels contain GPL code.)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import numpy.typing as npt

from tenuto_engine_kit import mel

from .vocabulary import Vocabulary

Floats = npt.NDArray[np.float32]

SAMPLE_RATE = 16_000
THREADS = 2
LONGEST_S = 30
"""The longest input of the model."""

BATCH = 4
"""Windows decoded at once, at most: each takes up to 40 MiB for the decoder's view of its audio."""
BEAM_SEARCH: dict[str, Any] = {"beam_size": 5}
LOOPING = 2.4
"""A text with a higher zlib compression ratio repeats itself (the value of OpenAI's decoder)."""
UNSURE = -1.0
"""A text with a lower mean log probability per token is retried (OpenAI's value)."""
NO_SPEECH = 0.6
"""With a higher probability of no speech, an uncertain text is dropped (OpenAI's value)."""
SECOND_TEMPERATURE = 0.4
_TOKENS_PER_SECOND, _LEAST_TOKENS, _MOST_TOKENS = 16, 24, 400
"""There is no faster speech; the limit stops repetitions early in short windows."""

_WINDOW, _STEP, _BANDS = 400, 160, 80
_LEAST_ENERGY = 1e-10
_HANN = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)).astype(np.float32)
_MEL = mel.slaney(_BANDS, _WINDOW, SAMPLE_RATE)
_FRAMES_PER_SECOND = 50
"""In the encoder's output."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word with the space before it and its punctuation; times in seconds."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as the model divided the text; times in seconds from the start of the window."""

    text: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Heard:
    """Encoded audio."""

    encoded: ctranslate2.StorageView
    seconds: float

    @property
    def most_tokens(self) -> int:
        """The longest text that this audio can hold, in tokens."""
        return min(_MOST_TOKENS, _LEAST_TOKENS + round(_TOKENS_PER_SECOND * self.seconds))


@dataclass(frozen=True, slots=True)
class Draft:
    """The model's output, words and perhaps times, and how reliable it is."""

    tokens: list[int]
    looping: bool
    unsure: bool
    likelihood: float

    @property
    def good(self) -> bool:
        return not self.looping and not self.unsure


class Whisper:
    """The loaded model; one call at a time."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._model = ctranslate2.models.Whisper(
            str(folder), device="cpu", compute_type="int8", intra_threads=threads, inter_threads=1
        )
        self._vocabulary = Vocabulary(folder / "tokenizer.json")

    def hear(self, samples: Floats) -> Heard:
        """Encode mono audio at 16 kHz of at most 30 s."""
        encoded = self._model.encode(ctranslate2.StorageView.from_array(features(samples)), to_cpu=True)
        return Heard(encoded, len(samples) / SAMPLE_RATE)

    def detect(self, heard: Heard) -> dict[str, float]:
        """The probability of each language."""
        found = self._model.detect_language(heard.encoded)[0]
        return {token.strip("<|>"): float(probability) for token, probability in found}

    @property
    def languages(self) -> frozenset[str]:
        """The codes of the languages that the model knows."""
        return self._vocabulary.languages

    def write(self, batch: Sequence[tuple[Heard, str]], *, timed: bool = False) -> list[Draft]:
        """The most probable text of each window in its language; `batch` has at most `BATCH` windows.

        A text that repeats itself or is uncertain is retried once with some randomness. With `timed`, the
        model divides its text into segments and times them; the text is then often different. A window's
        text does not depend on the windows beside it.
        """
        firsts = self._drafts(batch, timed)
        return [self._settled(first, *one, timed) for first, one in zip(firsts, batch, strict=True)]

    def _settled(self, first: Draft, heard: Heard, language: str, timed: bool) -> Draft:
        """The draft, or the better one of two."""
        if first.good:
            return first
        second = self._draft(heard, language, SECOND_TEMPERATURE, timed)
        better = max(first, second, key=lambda draft: (not draft.looping, draft.likelihood))
        if not better.looping:
            return better
        return replace(better, tokens=without_loops(better.tokens, self._vocabulary.is_time))

    def words(self, heard: Heard, language: str, draft: Draft) -> list[Word]:
        """The words of a draft with their times, from the cross-attention of each token."""
        if not draft.tokens:
            return []
        frames = max(1, min(LONGEST_S * 100, round(heard.seconds * 100)))
        start = self._vocabulary.prompt(language)[-4:-1]
        aligned = self._model.align(heard.encoded, start, [draft.tokens], frames)[0]
        moments = _first_frames(aligned.alignments, len(draft.tokens))
        words, at = [], 0
        for text, count in self._vocabulary.words(draft.tokens, language):
            begin, end = moments[at], moments[at + count]
            at += count
            if text.strip():
                words.append(Word(text, begin / _FRAMES_PER_SECOND, end / _FRAMES_PER_SECOND))
        return words

    def segments(self, heard: Heard, draft: Draft) -> list[Segment]:
        """The segments of a timed draft, with the model's own times, limited to the audio."""
        last = heard.seconds
        return [
            Segment(text, min(start, last), last if end is None else min(end, last))
            for text, start, end in self._vocabulary.segments(draft.tokens)
        ]

    def _drafts(self, batch: Sequence[tuple[Heard, str]], timed: bool) -> list[Draft]:
        """First drafts. Those whose prompts have the same length are decoded together."""
        prompts = [self._vocabulary.prompt(language, timed=timed) for _, language in batch]
        drafts: dict[int, Draft] = {}
        for length in sorted({len(prompt) for prompt in prompts}):
            members = [at for at, prompt in enumerate(prompts) if len(prompt) == length]
            encoded = np.concatenate([np.asarray(batch[at][0].encoded) for at in members])
            most = max(batch[at][0].most_tokens for at in members)
            results = self._generate(
                ctranslate2.StorageView.from_array(encoded),
                [prompts[at] for at in members],
                most,
                BEAM_SEARCH,
            )
            for at, result in zip(members, results, strict=True):
                heard, language = batch[at]
                # By itself, a shorter window would have been stopped earlier: CTranslate2 ends a text at
                # half of the maximum length.
                if heard.most_tokens < most and len(result.sequences_ids[0]) >= heard.most_tokens // 2:
                    drafts[at] = self._draft(heard, language, 0.0, timed)
                else:
                    drafts[at] = self._draft_of(result, timed)
        return [drafts[at] for at in range(len(batch))]

    def _draft(self, heard: Heard, language: str, temperature: float, timed: bool) -> Draft:
        """One window by itself."""
        how = BEAM_SEARCH
        if temperature:
            # CTranslate2 reads it when a thread first draws: later retries of a process continue from there.
            ctranslate2.set_random_seed(0)
            how = {"beam_size": 1, "sampling_topk": 0, "sampling_temperature": temperature}
        prompt = self._vocabulary.prompt(language, timed=timed)
        return self._draft_of(self._generate(heard.encoded, [prompt], heard.most_tokens, how)[0], timed)

    def _generate(
        self, encoded: ctranslate2.StorageView, prompts: list[list[int]], most: int, how: dict[str, Any]
    ) -> list[Any]:
        """The model's texts after prompts of one length, each of `most` tokens at most."""
        results: list[Any] = self._model.generate(
            encoded,
            prompts,
            max_length=min(448, len(prompts[0]) + most),
            return_scores=True,
            return_no_speech_prob=True,
            **how,
        )
        return results

    def _draft_of(self, result: Any, timed: bool) -> Draft:
        tokens = [
            token
            for token in result.sequences_ids[0]
            if token < self._vocabulary.end or (timed and self._vocabulary.is_time(token))
        ]
        likelihood = result.scores[0] * len(result.sequences_ids[0]) / (len(result.sequences_ids[0]) + 1)
        if is_made_up(likelihood, result.no_speech_prob):
            return Draft([], looping=False, unsure=False, likelihood=likelihood)
        return Draft(tokens, loops(self._vocabulary.text(tokens)), likelihood < UNSURE, likelihood)


def features(samples: Floats) -> Floats:
    """Log mel energies as the model was trained on, of audio padded with silence to 30 s: [1, 80, 3000]."""
    padded = np.pad(samples, (0, LONGEST_S * SAMPLE_RATE - len(samples)))
    padded = np.pad(padded, _WINDOW // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[:-1:_STEP]
    # The frames after these hold nothing but the padding.
    sounding = min(len(frames), (len(samples) + _WINDOW // 2) // _STEP + 1)
    power = np.abs(np.fft.rfft(frames[:sounding] * _HANN)) ** 2
    energies = np.full((len(frames), _BANDS), np.log10(_LEAST_ENERGY))
    energies[:sounding] = np.log10(np.maximum(power @ _MEL, _LEAST_ENERGY))
    energies = (np.maximum(energies, energies.max() - 8) + 4) / 4
    return np.ascontiguousarray(energies.T[None], dtype=np.float32)


def without_loops(tokens: Sequence[int], is_time: Callable[[int], bool]) -> list[int]:
    """The tokens, with words that are repeated at least four times in a row kept once; times between them
    stay."""
    places = [at for at, token in enumerate(tokens) if not is_time(token)]
    words = [tokens[at] for at in places]
    kept: set[int] = set()
    at = 0
    while at < len(words):
        for period in range(1, (len(words) - at) // 4 + 1):
            again = at
            while words[again : again + period] == words[again + period : again + 2 * period]:
                again += period
            if again - at >= 3 * period:
                at = again
                break
        kept.add(places[at])
        at += 1
    return [token for at, token in enumerate(tokens) if at in kept or is_time(token)]


def is_made_up(likelihood: float, no_speech: float) -> bool:
    """Whether there are no words: the model is uncertain and detects no speech."""
    return likelihood < UNSURE and no_speech > NO_SPEECH


def loops(text: str) -> bool:
    """Whether the text repeats itself."""
    content = text.strip().encode()
    return bool(content) and len(content) / len(zlib.compress(content)) > LOOPING


def _first_frames(alignments: Sequence[tuple[int, int]], count: int) -> list[int]:
    """The first frame of each token, and of what follows the last."""
    first: dict[int, int] = {}
    for token, frame in alignments:
        first.setdefault(token, frame)
    last = alignments[-1][1] if alignments else 0
    moments: list[int] = []
    for token in range(count + 1):
        moments.append(first.get(token, moments[-1] if moments and token < count else last))
    return moments
