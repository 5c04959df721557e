"""Recognition by Qwen3-ASR, with times from its forced aligner, chunk by chunk.

Runs in the interpreter that has `qwen-asr`. The recogniser produces text without times; the aligner finds the
time of each word, in the languages that it knows. In other languages, and without an aligner, the audio is
cut into short pieces whose ends are the times. It knows neither jobs nor other chunks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tenuto_engine import Result, Run
from tenuto_engine_kit.languages import understood, unknown_language
from tenuto_engine_kit.recognition import RATE, Floats, Heard, letters, number, part_of, pieces

LANGUAGES = {
    "zh": "Chinese", "yue": "Cantonese", "en": "English", "ar": "Arabic", "de": "German", "fr": "French",
    "es": "Spanish", "pt": "Portuguese", "id": "Indonesian", "it": "Italian", "ko": "Korean", "ru": "Russian",
    "th": "Thai", "vi": "Vietnamese", "ja": "Japanese", "tr": "Turkish", "hi": "Hindi", "ms": "Malay",
    "nl": "Dutch", "sv": "Swedish", "da": "Danish", "fi": "Finnish", "pl": "Polish", "cs": "Czech",
    "fil": "Filipino", "fa": "Persian", "el": "Greek", "ro": "Romanian", "hu": "Hungarian",
    "mk": "Macedonian",
}  # fmt: skip
"""The package's names of the recogniser's languages; it refuses all other names."""
ALIGNED = frozenset({"zh", "yue", "en", "fr", "de", "it", "ja", "ko", "pt", "ru", "es"})
"""The aligner's languages; for others its times are meaningless."""
ALIGNED_PIECE_S, SHORT_PIECE_S, AGAIN_SHARE = 120.0, 15.0, 0.5
"""The package cuts at 180 s before it aligns; we cut earlier, to check for cancellation in between."""
MOST_TOKENS = 4096
"""Per piece. The package's default of 512 would silently truncate two minutes of fast speech."""
LONGEST_SEGMENT_S, PAUSE_S = 20.0, 0.8

_SENTENCE_END = re.compile(r"[。！？!?…]|[.](?=\s|\Z)")
_CLAUSE_END = re.compile(r"[，、；：,;:]")


@dataclass(frozen=True)
class _Word:
    """A piece of the text, with the punctuation after it, and its times."""

    text: str
    start: float
    end: float


class Qwen3Asr:
    """The loaded models; one chunk at a time."""

    def __init__(self, options: dict[str, Any]) -> None:
        import torch
        from qwen_asr import Qwen3ASRModel

        self._model_id, self._revision = str(options["model"]), str(options["model_revision"])
        device = options["device"] or ("cuda:0" if torch.cuda.is_available() else "cpu")
        placed = {
            "dtype": torch.bfloat16 if device.startswith("cuda") else torch.float32,
            "device_map": device,
        }
        aligner = options["aligner_dir"]
        self._model = Qwen3ASRModel.from_pretrained(
            str(Path(options["model_dir"]).expanduser()),
            forced_aligner=str(Path(aligner).expanduser()) if aligner else None,
            forced_aligner_kwargs=dict(placed) if aligner else None,
            max_inference_batch_size=1,
            max_new_tokens=MOST_TOKENS,
            **placed,
        )
        self._aligns = bool(aligner)
        self.info = {"model_id": self._model_id, "device": device, "aligner": self._aligns}

    def run(self, run: Run) -> Result:
        """Recognise `run.inputs["audio"]`: PCM16, little-endian, mono, 16 kHz."""
        samples = part_of(run)
        heard = Heard(len(samples) / RATE)
        said = run.parameters.get("language")
        language = understood(said, LANGUAGES)
        aligned = self._aligns and language in ALIGNED
        longest = ALIGNED_PIECE_S if aligned else SHORT_PIECE_S
        # Decoding is greedy: only a different piece of audio gives a different answer.
        longest *= AGAIN_SHARE if run.parameters.get("again") else 1
        spoken: Counter[str] = Counter()
        for at, piece in pieces(samples, longest):
            run.check_cancelled()
            found = self._written(piece, language, aligned)
            spoken[found.language] += len(letters(found.text))
            self._add(found, at, len(piece) / RATE, aligned, heard)
            run.progress("recognising", int(at + len(piece) / RATE), max(1, int(heard.length_s)), "seconds")
        if language is None:
            names = [name for name, _ in spoken.most_common() if name]
            heard.warnings += unknown_language(said, f"{', '.join(names) or 'none'} was heard")
            language = next((code for code, name in LANGUAGES.items() if name in names[:1]), None)
        return heard.told(self._model_id, self._revision, language)

    def _written(self, piece: Floats, language: str | None, aligned: bool) -> Any:
        (found,) = self._model.transcribe(
            (piece, RATE),
            language=None if language is None else LANGUAGES[language],
            return_time_stamps=aligned,
        )
        return found

    def _add(self, found: Any, at: float, length_s: float, aligned: bool, heard: Heard) -> None:
        """The piece's text as segments in chunk time."""
        if not letters(found.text):
            return
        words = _words(found.text, found.time_stamps or (), length_s) if aligned else None
        if words is None:
            if aligned:
                heard.doubts.append(f"The words from {at:.0f} s on could not be aligned with the audio.")
            words = [_Word(found.text, 0.0, length_s)]
        for sentence in _sentences(words):
            heard.add(at + sentence[0].start, at + sentence[-1].end, "".join(one.text for one in sentence))


def _words(text: str, items: Sequence[Any], length_s: float) -> list[_Word] | None:
    """The text split at the aligner's items, which have its letters without punctuation; None if they
    differ."""
    found: list[_Word] = []
    at = 0
    for item in items:
        start, end = number(item.start_time), number(item.end_time)
        if start is None or end is None or not 0 <= start <= end <= length_s + 1:
            return None
        stop = _behind(text, at, len(letters(item.text)))
        if letters(text[at:stop]) != letters(item.text):
            return None
        found.append(_Word(text[at:stop], start, end))
        at = stop
    return found if found and not letters(text[at:]) else None


def _behind(text: str, at: int, count: int) -> int:
    """The index after `count` letters of the text and the punctuation and spaces that follow them."""
    while at < len(text) and (count > 0 or not text[at].isalnum()):
        count -= len(letters(text[at]))
        at += 1
    return at


def _sentences(words: Sequence[_Word]) -> Iterator[list[_Word]]:
    """Words up to the end of a sentence or a pause; a long sentence is split after a clause, or anywhere."""
    sentence: list[_Word] = []
    for word in words:
        if sentence and (
            word.start - sentence[-1].end >= PAUSE_S or word.end - sentence[0].start > LONGEST_SEGMENT_S
        ):
            yield sentence
            sentence = []
        sentence.append(word)
        long = word.end - sentence[0].start > LONGEST_SEGMENT_S / 2
        if _SENTENCE_END.search(word.text) or (long and _CLAUSE_END.search(word.text)):
            yield sentence
            sentence = []
    if sentence:
        yield sentence
