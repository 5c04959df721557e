"""Speech by Kokoro-82M on a CPU: text in five languages to a WAV file.

The parameters arrive checked and complete. It knows neither jobs nor accounts nor callers' voices.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tenuto_engine import InputError, Result, Run

from . import audio, emotion, pace
from .cutting import Segment, Unit, segments, shared
from .languages import Languages, languages_of
from .styles import Style
from .synthesis import Synthesis
from .voices import Voices

MODEL_ID = "hexgrad/Kokoro-82M"

HONOURED = (
    "text",
    "lang",
    "stream",
    "voice_id",
    "duration_factor",
    "emotion_voice_id",
    "emo_alpha",
    "emo_vector",
    "use_emo_text",
    "emo_text",
    "use_random",
    "interval_silence",
    "max_text_tokens_per_segment",
    "text_normalization",
)

NOT_HONOURED: Mapping[str, str] = MappingProxyType(
    {
        "do_sample": "The model draws nothing: the same text gives the same samples.",
        "top_p": "The model draws nothing.",
        "top_k": "The model draws nothing.",
        "temperature": "The model draws nothing.",
        "repetition_penalty": "The model writes all sounds at once, so nothing can repeat.",
    }
)
"""Parameters that are accepted but have no effect, and why."""

PACES = MappingProxyType({"ar": 1.1})
"""How much slower than the model's default a language is spoken: one it was not trained on is then
clearer."""

LONGEST_CALL_S = 10.0
"""The most speech that one call of the model makes. Its memory grows by 22 MB for each second: so the process
stays under 700 MB at every duration_factor. Slow speech is therefore cut into more segments than was
allowed."""
FIRST_CALL_S = 4.0
"""The most speech that the first call makes where there are several."""
SOONEST_S = 1.0
"""The first call ends with the first clause after this much speech; a shorter one would sound chopped."""
CLAUSE_PAUSE_MS = 300
"""If the pauses between segments are longer than this, the first call ends with a sentence if it can."""
SECONDS_PER_SYMBOL = MappingProxyType({"zh": 0.05, "en": 0.06, "ja": 0.07, "es": 0.06, "ar": 0.065})
"""How long a symbol of each language lasts at most, on average over a segment, before paces and factors."""
SYMBOL_LIMIT = 505
"""The most symbols that the model takes."""

MOST_SEGMENTS = 1024
"""The most segments that a preview may have. What would be more are joined to neighbours, whether the job
streams or not; how each is spoken stays as it was asked for, and so do the pauses between them."""
JOINED_WARNING = "The text makes {:,} segments; neighbours were joined, for a result has at most {:,}."

THREADS = 2
TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>")
TAG_WARNING = "The text has tags such as <break/>; markup is not supported, and they are read as text."
WARNED_CHARACTERS = 20
"""How many of the omitted characters the warning lists."""


class KokoroEngine:
    """The loaded model. A language's own dictionaries are loaded when it is first spoken.

    With `concurrency`, several runs share it: their segments are spoken at once, and their texts and voices
    are read one after the other. What a run gives does not depend on the others.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        weights = {name: Path(path) for name, path in options["weights"].items()}
        threads = int(options.get("threads") or min(THREADS, os.cpu_count() or 1))
        self._revision = str(options.get("model_revision", ""))
        self._synthesis = Synthesis(weights["kokoro-v1.0-int8.onnx"], weights["kokoro-vocabulary"], threads)
        self._voices = Voices(weights["kokoro-voices"], weights["resemblyzer.pt"])
        self._languages = Languages(weights["text2tashkeel"])
        self._reading = threading.Lock()
        """Held while a text or a voice is read: dictionaries and the encoder are loaded then, and kept."""
        self.concurrency = int(options.get("concurrency") or 1)
        self.info = {
            "model_id": MODEL_ID,
            "sample_rate": audio.SAMPLE_RATE,
            "threads": threads,
            "runtime": self._synthesis.runtime,
        }

    def run(self, run: Run) -> Result:
        """Synthesise the text segment by segment; the result is the segments joined."""
        parameters = run.parameters
        feeling = emotion.wished(parameters, run.inputs, run.run_id)
        factor = float(parameters["duration_factor"]) * (feeling.factor if feeling else 1)
        with self._reading:
            units = self._units(parameters)
        is_short = parameters["interval_silence"] <= CLAUSE_PAUSE_MS
        lengths = (LONGEST_CALL_S, FIRST_CALL_S, SOONEST_S if is_short else FIRST_CALL_S)
        cap, first, soonest = (_symbols(seconds, parameters, factor) for seconds in lengths)
        limit = min(parameters["max_text_tokens_per_segment"], cap)
        pieces = segments(units, limit, cap, first=first, soonest=soonest)
        if not pieces:
            raise InputError("nothing_to_speak", _unspeakable(units))
        with self._reading:
            style, gain, warnings = self._voices.style_of(parameters, run.inputs)
        if feeling:
            style = emotion.moved(style, feeling)
        groups = shared(pieces, MOST_SEGMENTS)
        spoken: list[bytes] = []
        for group in groups:
            content = b""
            for piece in group:
                run.check_cancelled()
                pause = audio.silence(parameters["interval_silence"]) if spoken or content else b""
                samples = self._segment(piece, style, parameters["lang"], factor)
                content += pause + audio.pcm(audio.finished(samples, gain))
            spoken.append(content)
            if parameters["stream"]:
                run.segment(audio.wav(content), {"duration_ms": audio.duration_ms(content)})
            run.progress("synthesis", len(spoken), len(groups), "segments")
        warnings = [*_warnings(units, parameters["text"]), *warnings]
        if len(groups) < len(pieces):
            warnings.append(JOINED_WARNING.format(len(pieces), MOST_SEGMENTS))
        more = {"emotion": feeling and feeling.described(), "warnings": warnings}
        return self._result(b"".join(spoken), len(groups), more)

    def _units(self, parameters: dict[str, Any]) -> list[Unit]:
        read = self._languages.read(parameters["text"], parameters["lang"], parameters["text_normalization"])
        return [
            Unit(unit.text, self._synthesis.known(unit.phonemes), unit.ending, unit.skipped) for unit in read
        ]

    def _segment(self, piece: Segment, style: Style, lang: str, factor: float) -> audio.Samples:
        """The samples of one segment, `factor` times as long as the model's own."""
        speed = 1 / PACES.get(lang, 1.0)
        if factor != 1:
            speed = pace.speed_of(self._synthesis.durations(piece.phonemes, style), speed, factor)
        return self._synthesis.speak(piece.phonemes, style, speed)

    def _result(self, content: bytes, count: int, more: dict[str, Any]) -> Result:
        duration_ms = audio.duration_ms(content)
        metadata = {
            "sample_rate": audio.SAMPLE_RATE,
            "channels": 1,
            "duration_ms": duration_ms,
            "segments": count,
            "model_id": MODEL_ID,
            "model_revision": self._revision,
            **more,
        }
        return Result("audio/wav", audio.wav(content), metadata, duration_ms)


def _symbols(seconds: float, parameters: Mapping[str, Any], factor: float) -> int:
    """The maximum number of symbols in a call whose speech must not exceed this length."""
    lang = parameters["lang"]
    symbol_s = max(SECONDS_PER_SYMBOL[reader] for reader in languages_of(parameters["text"], lang))
    return min(SYMBOL_LIMIT, int(seconds / (symbol_s * PACES.get(lang, 1.0) * factor)))


def _warnings(units: Iterable[Unit], text: str) -> list[str]:
    """Warnings about how the text was read."""
    skipped = _skipped(units)
    left_out = [f"Characters that cannot be spoken were left out: {skipped}"] if skipped else []
    return left_out + ([TAG_WARNING] if TAG.search(text) else [])


def _unspeakable(units: Iterable[Unit]) -> str:
    """Why nothing of a text can be spoken."""
    skipped = _skipped(units)
    if not skipped:
        return "The text has no letter, digit or sign that can be spoken."
    return (
        "Nothing in the text can be spoken: it needs Latin, Han, kana or Arabic letters, digits, or signs"
        f" that have a name. No language here reads: {skipped}"
    )


def _skipped(units: Iterable[Unit]) -> str:
    """The omitted characters, each once, in the order of the text."""
    skipped = list(dict.fromkeys("".join(unit.skipped for unit in units)))
    shown = " ".join(skipped[:WARNED_CHARACTERS])
    more = f" and {len(skipped) - WARNED_CHARACTERS} more" if len(skipped) > WARNED_CHARACTERS else ""
    return shown + more
