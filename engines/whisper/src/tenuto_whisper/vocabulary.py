"""Whisper's tokens: their text, the words that they form, and the control tokens."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

SPACELESS = frozenset({"zh", "yue", "ja", "th", "lo", "my", "km"})
"""Languages written without spaces: each character counts as a word."""

SIMPLIFIED = (220, 3588, 4438, 1541, 29993, 19550, 21596, 1546, 34592, 7626, 1543)
"""The tokens of " 以下是普通话的句子。". Without them Whisper writes Chinese in traditional characters."""

TIMES_PER_SECOND = 50

_OPENING = "\"'“‘¿¡([{«「『（《【"


class Vocabulary:
    """The tokens of one model, from its `tokenizer.json`."""

    def __init__(self, file: Path) -> None:
        content = json.loads(file.read_text("utf-8"))
        marks = {one["content"]: one["id"] for one in content["added_tokens"]}
        byte_of = _bytes_of_signs()
        self._bytes = {
            number: bytes(byte_of[sign] for sign in token)
            for token, number in content["model"]["vocab"].items()
            if token not in marks
        }
        self._marks = marks
        self.end = marks["<|endoftext|>"]
        self._first_time: int = marks["<|notimestamps|>"] + 1
        languages = range(marks["<|startoftranscript|>"] + 1, marks["<|translate|>"])
        self.languages = frozenset(mark.strip("<|>") for mark, number in marks.items() if number in languages)

    def prompt(self, language: str, *, timed: bool = False) -> list[int]:
        """The prompt for transcription in this language, with or without times between segments."""
        start = [self._marks["<|startoftranscript|>"], self._marks[f"<|{language}|>"]]
        start += [self._marks["<|transcribe|>"], *([] if timed else [self._marks["<|notimestamps|>"]])]
        return [self._marks["<|startofprev|>"], *SIMPLIFIED, *start] if language == "zh" else start

    def is_time(self, token: int) -> bool:
        """Whether a token is a timestamp."""
        return token >= self._first_time

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens; control tokens have none, incomplete characters become U+FFFD."""
        return b"".join(self._bytes.get(token, b"") for token in tokens).decode("utf-8", "replace")

    def segments(self, tokens: Sequence[int]) -> list[tuple[str, float, float | None]]:
        """The text between two timestamps, with both, in seconds from the start of the window.

        The last has no end if the model produced none.
        """
        segments: list[tuple[str, float, float | None]] = []
        start, inside = 0.0, list[int]()
        for token in [*tokens, None]:
            if token is not None and not self.is_time(token):
                inside.append(token)
                continue
            at = None if token is None else (token - self._first_time) / TIMES_PER_SECOND
            if text := self.text(inside).strip():
                segments.append((text, start, at))
            start, inside = start if at is None else at, []
        return segments

    def words(self, tokens: Sequence[int], language: str) -> list[tuple[str, int]]:
        """Each word, with the space before it and its punctuation, and its number of tokens."""
        words: list[tuple[str, int]] = []
        joins_next = False
        for text, count in self._characters(tokens):
            bare = text.strip()
            closes = bool(bare) and all(_is_mark(sign) and sign not in _OPENING for sign in bare)
            opens = bool(bare) and all(sign in _OPENING for sign in bare) and (text != bare or not words)
            new = language in SPACELESS or text.startswith(" ")
            if words and (joins_next or closes or not new):
                words[-1] = (words[-1][0] + text, words[-1][1] + count)
            else:
                words.append((text, count))
            joins_next = opens
        return words

    def _characters(self, tokens: Sequence[int]) -> Iterator[tuple[str, int]]:
        """Consecutive groups of as few tokens as form complete characters."""
        waiting, count = b"", 0
        for token in tokens:
            waiting += self._bytes.get(token, b"")
            count += 1
            try:
                text = waiting.decode("utf-8")
            except UnicodeDecodeError:
                continue
            yield text, count
            waiting, count = b"", 0
        if waiting:
            yield waiting.decode("utf-8", "ignore"), count


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign).startswith("P")


def _bytes_of_signs() -> dict[str, int]:
    """GPT-2's alphabet of bytes: printable ones are themselves, the others are signs from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
