"""What emotion, pace and streaming do to speech, measured on its samples.

    python -m lab.quality.emotions [--write] [--only zh,en] [--each 4]

Sentences are the shortest of sentences.tsv; none was used to fit the engine's directions. Exits with 1 when a
target is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt
import soxr
from faster_whisper import WhisperModel

from tenuto_engine_kit.speaker_embedding import SAMPLE_RATE as EMBEDDED_RATE
from tenuto_engine_kit.speaker_embedding import SpeakerEncoder
from tenuto_kokoro import KokoroEngine, audio, prosody
from tenuto_kokoro.emotion import EMOTIONS, SHIFTS

from . import document
from .read_back import CACHE, PARAMETERS, WEIGHTS, QuietRun, Sentence, heard, read_sentences
from .sounding import error_rate, sounding

Numbers = npt.NDArray[np.float64]

MEASURES = ("pitch", "spread", "loudness", "length")
NOISE: Numbers = np.array([0.7, 0.25, 1.0, 0.06])
"""About how much the measures differ from sentence to sentence; the classifier starts from it."""
ALPHAS = (0.3, 0.6, 1.0)
FACTORS = (0.5, 0.75, 1.5, 2.0)
LONG_S = 60
CHANCE = 1 / len(EMOTIONS)
ACCURACY, COSINE, WORSE, FIRST_S, LENGTH = 3 * CHANCE, 0.75, 0.03, 2.0, 0.1


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence in one emotion (-1: none)."""

    sentence: Sentence
    emotion: int
    content: bytes

    @property
    def samples(self) -> Numbers:
        """In -1..1."""
        return np.frombuffer(self.content[44:], "<i2") / 32768

    def measures(self) -> Numbers:
        """The four measures of a shift; length by the text."""
        found = prosody.measured(self.samples, audio.SAMPLE_RATE)
        assert found is not None, self.sentence
        length = np.log2(self.samples.size / len(self.sentence.sounds))
        return np.array([found.pitch, np.log2(found.spread), found.loudness, length])


class Studio:
    """The engine and the judges, loaded once."""

    def __init__(self) -> None:
        weights = {name: str(CACHE / name) for name in WEIGHTS}
        self.engine = KokoroEngine({"weights": weights})

    @cached_property
    def whisper(self) -> WhisperModel:
        """Writes down what it hears."""
        return WhisperModel(str(CACHE / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)

    @cached_property
    def encoder(self) -> SpeakerEncoder:
        """Tells voices apart."""
        return SpeakerEncoder(CACHE / "resemblyzer.pt")

    def speak(self, sentence: Sentence, emotion: int = -1, **parameters: Any) -> Spoken:
        """A sentence in an emotion at full strength, unless parameters say otherwise."""
        vector = [float(index == emotion) for index in range(len(EMOTIONS))] if emotion >= 0 else None
        given = {"lang": sentence.lang, "text": sentence.text, "emo_vector": vector}
        run = QuietRun({**PARAMETERS, **given, **parameters})
        return Spoken(sentence, emotion, self.engine.run(run).content)

    def error(self, spoken: Spoken) -> float:
        """The share of sounds that Whisper does not hear as they were meant."""
        lang = spoken.sentence.lang
        written = heard(self.whisper, lang, spoken.content)
        return error_rate(sounding(lang, spoken.sentence.sounds), sounding(lang, written))

    def cosine(self, one: Spoken, other: Spoken) -> float:
        """How alike two voices are."""
        clips = [
            soxr.resample(at.samples, audio.SAMPLE_RATE, EMBEDDED_RATE).astype(np.float32)
            for at in (one, other)
        ]
        left, right = self.encoder.embed_all(clips)
        return float(left @ right)


def chosen(sentences: list[Sentence], langs: list[str], each: int) -> list[Sentence]:
    """The shortest sentences of each language, without digits."""
    found = []
    for lang in langs:
        own = [at for at in sentences if at.lang == lang and not any(map(str.isdecimal, at.text))]
        found += sorted(own, key=lambda at: len(at.sounds))[:each]
    return found


def emotion_section(studio: Studio, sentences: list[Sentence]) -> tuple[list[str], bool]:
    """Every sentence in every emotion: what moved, who spoke, what was understood, and which was told."""
    plain = {at: studio.speak(at) for at in sentences}
    moved = [studio.speak(at, emotion) for at in sentences for emotion in range(len(EMOTIONS))]
    errors = {at: studio.error(spoken) for at, spoken in plain.items()}
    lines = [
        "| emotion | pitch, semitones | spread, × | loudness, dB | length, × "
        "| cosine to neutral, least | error, mean |",
        "|---|---|---|---|---|---|---|",
    ]
    worse, cosines = [], []
    for index, name in enumerate(EMOTIONS):
        own = [spoken for spoken in moved if spoken.emotion == index]
        shift = np.mean([at.measures() - plain[at.sentence].measures() for at in own], axis=0)
        alike = [studio.cosine(at, plain[at.sentence]) for at in own]
        error = mean(studio.error(at) for at in own)
        worse.append(error - mean(errors.values()))
        cosines += alike
        wished = SHIFTS[index]
        lines.append(
            f"| {name} | {shift[0]:+.1f} ({wished[0]:+.1f}) | {2 ** shift[1]:.2f} ({2 ** wished[1]:.2f}) "
            f"| {shift[2]:+.1f} ({wished[2]:+.1f}) | {2 ** shift[3]:.2f} ({2 ** wished[3]:.2f}) "
            f"| {min(alike):.2f} | {error:.3f} |"
        )
    accuracy = told_apart(list(plain.values()), moved)
    growth, is_growing = grown(studio, list(plain.values()), moved)
    lines += [
        "",
        f"In brackets: the requested value. Without emotion the error is {mean(errors.values()):.3f}.",
    ]
    lines += [f"Error, all emotions: {mean(worse):+.3f} compared with no emotion (target {WORSE:+.2f})."]
    lines += [
        f"Emotions classified correctly: {accuracy:.2f} (chance {CHANCE:.3f}, target {ACCURACY:.3f}).",
        *growth,
    ]
    good = accuracy >= ACCURACY and min(cosines) >= COSINE and mean(worse) <= WORSE and is_growing
    return lines, good


def told_apart(plain: list[Spoken], moved: list[Spoken]) -> float:
    """The share of emotions that a linear discriminant names rightly, fitted on every other sentence.

    Measures are taken against the mean of the speaker's neutral sentences of the fit; the neutral reading of
    a sentence that is judged is not looked at.
    """
    order = {spoken.sentence: index for index, spoken in enumerate(plain)}
    fitted = [spoken for spoken in plain if not order[spoken.sentence] % 2]
    usual = {
        lang: np.mean([at.measures() for at in fitted if at.sentence.lang == lang], axis=0)
        for lang in {at.sentence.lang for at in plain}
    }
    found = [(at, at.measures() - usual[at.sentence.lang]) for at in moved]
    fit = [(at.emotion, value) for at, value in found if not order[at.sentence] % 2]
    rest = [(at.emotion, value) for at, value in found if order[at.sentence] % 2]
    centres = np.array([np.mean([v for e, v in fit if e == k], axis=0) for k in range(len(EMOTIONS))])
    left = np.array([value - centres[emotion] for emotion, value in fit])
    inverse = np.linalg.inv((left.T @ left + 4 * np.diag(NOISE**2)) / (len(left) + 4))

    def named(value: Numbers) -> int:
        return int(np.argmin([(value - centre) @ inverse @ (value - centre) for centre in centres]))

    return mean(float(named(value) == emotion) for emotion, value in rest)


def grown(studio: Studio, plain: list[Spoken], moved: list[Spoken]) -> tuple[list[str], bool]:
    """How far speech moves towards its emotion as emo_alpha grows, on the first sentence of a language."""
    firsts = {at.sentence.lang: at for at in reversed(plain)}
    reached = []
    for alpha in ALPHAS:
        ways = [[_way(at, spoken) for spoken in _at(studio, at, alpha, moved)] for at in firsts.values()]
        reached.append(np.mean(ways, axis=0))
    neutral = next(iter(firsts.values()))
    silent = studio.speak(neutral.sentence, 0, emo_alpha=0.0).content == neutral.content
    is_growing = all(bool((after > before).all()) for before, after in pairwise(reached))
    shown = ", ".join(f"{row.mean():.2f} at {alpha}" for alpha, row in zip(ALPHAS, reached, strict=True))
    return [
        f"Distance moved towards the emotion, relative to the difference between sentences: {shown}; "
        f"{'increasing' if is_growing else 'not increasing'} for each of the eight. "
        f"At emo_alpha 0 the file is {'the same to the byte' if silent else 'another'}."
    ], is_growing and silent


def _at(studio: Studio, neutral: Spoken, alpha: float, moved: list[Spoken]) -> list[Spoken]:
    """A sentence in every emotion at some strength; at full strength it was spoken before."""
    own = [at for at in moved if at.sentence == neutral.sentence]
    return own if alpha == 1 else [studio.speak(at.sentence, at.emotion, emo_alpha=alpha) for at in own]


def _way(neutral: Spoken, spoken: Spoken) -> float:
    """How far a sentence went in the direction of its emotion."""
    wished = SHIFTS[spoken.emotion] / NOISE
    done = (spoken.measures() - neutral.measures()) / NOISE
    return float(done @ wished / np.linalg.norm(wished))


def pace_section(studio: Studio, sentences: list[Sentence]) -> tuple[list[str], bool]:
    """How far the length is from what duration_factor asks for, and what it does to the pitch."""
    lines = [
        "| language | " + " | ".join(f"× {factor}: length, pitch" for factor in FACTORS) + " |",
        "|---|" + "---|" * len(FACTORS),
    ]
    farthest = 0.0
    for lang in dict.fromkeys(at.lang for at in sentences):
        cells = []
        own = [at for at in sentences if at.lang == lang][-2:]
        plain = [studio.speak(at).samples for at in own]
        for factor in FACTORS:
            paced = [studio.speak(at, duration_factor=factor).samples for at in own]
            lengths = [after.size / before.size / factor for before, after in zip(plain, paced, strict=True)]
            pitches = [_hz(after) / _hz(before) for before, after in zip(plain, paced, strict=True)]
            farthest = max(farthest, *(abs(length - 1) for length in lengths))
            cells.append(f"{mean(lengths):.2f}, {mean(pitches):.2f}")
        lines.append(f"| {lang} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Measured length divided by requested length, and pitch divided by normal pitch; 1 is exact. "
        f"Largest deviation of length: {farthest:.2f}.",
    ]
    return lines, farthest <= LENGTH


def _hz(samples: Numbers) -> float:
    return prosody.median_hz(samples, audio.SAMPLE_RATE)


class FirstHeard(Exception):
    """The first segment is there."""


class ListeningRun(QuietRun):
    """A run that ends with its first segment."""

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        """End it."""
        raise FirstHeard(metadata["duration_ms"])


def streaming_section(studio: Studio, sentences: list[Sentence]) -> tuple[list[str], bool]:
    """How long a loaded engine takes for the first segment of a text of a minute."""
    lines = ["| language | characters | first segment after | its length |", "|---|---|---|---|"]
    slowest = 0.0
    for lang in dict.fromkeys(at.lang for at in sentences):
        text = _long(studio, [at for at in sentences if at.lang == lang])
        started = time.perf_counter()
        try:
            studio.engine.run(ListeningRun({**PARAMETERS, "lang": lang, "text": text}))
        except FirstHeard as first:
            took_s = time.perf_counter() - started
            lines.append(f"| {lang} | {len(text)} | {took_s:.2f} s | {first.args[0] / 1000:.1f} s |")
            slowest = max(slowest, took_s)
    return [*lines, "", f"Target: {FIRST_S:.0f} s."], slowest <= FIRST_S


def _long(studio: Studio, own: list[Sentence]) -> str:
    """The sentences again and again, for a minute of speech."""
    seconds = mean(studio.speak(at).samples.size / audio.SAMPLE_RATE for at in own)
    return " ".join(own[index % len(own)].text for index in range(int(LONG_S / seconds) + 1))


SECTIONS: dict[str, Callable[[Studio, list[Sentence]], tuple[list[str], bool]]] = {
    "Emotion": emotion_section,
    "Pace": pace_section,
    "Streaming": streaming_section,
}


def measured(arguments: argparse.Namespace) -> Iterator[bool]:
    """Whether each section is good, printed and written where asked."""
    all_sentences = read_sentences(Path(__file__).with_name("sentences.tsv"))
    studio = Studio()
    sentences = chosen(all_sentences, arguments.only.split(","), arguments.each)
    for title in arguments.sections.split(","):
        lines, is_good = SECTIONS[title](studio, sentences)
        print(f"## {title}\n", *lines, "", sep="\n")
        if arguments.write:
            document.write_section(title, [document.provenance(), "", *lines])
        yield is_good


def main() -> int:
    """Measure, print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the sections into lab/records/quality.md")
    parser.add_argument("--only", default="zh,en,ja,es,ar", help="languages, parted by commas")
    parser.add_argument("--each", type=int, default=4, help="sentences of each language")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="which, parted by commas")
    return 0 if all(list(measured(parser.parse_args()))) else 1


if __name__ == "__main__":
    sys.exit(main())
