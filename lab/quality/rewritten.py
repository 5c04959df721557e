"""Compares Kokoro as the engine rewrites it with the unmodified file: both synthesise each sentence in turns,
each in its own process, so that other load on the machine slows down both.

    python -m lab.quality.rewritten [--write] [--only zh,en] [--sentences FILE] [--threads 2]
        [--keep FOLDER | --judge FOLDER]

Errors are measured as in `read_back`. `--keep` only synthesises, for a machine without Whisper; `--judge`
then transcribes the folder on another one. Exits with 1 if the mean error is more than 0.005 above the
file's.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

import soundfile

from tenuto_kokoro import KokoroEngine
from tenuto_kokoro.model import Model

from . import document
from .read_back import CACHE, PARAMETERS, WEIGHTS, Sentence, Speech, heard, read_sentences, speak
from .sounding import error_rate, sounding

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

FILE, REWRITTEN = "file", "rewritten"
MODELS = (FILE, REWRITTEN)
MOST_WORSE = 0.005
COSTS = "spoken.jsonl"


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence by each model."""

    sentence: Sentence
    speech: dict[str, Speech]


@cache
def engine(model: str, threads: int) -> KokoroEngine:
    """Loaded once in a process."""
    if model == FILE:
        Model._rewritten = Model._part  # type: ignore[method-assign]
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    started, worked = time.perf_counter(), time.process_time()
    loaded = KokoroEngine({"weights": weights, "threads": threads})
    took, work = time.perf_counter() - started, time.process_time() - worked
    print(f"{model} loaded in {took:.2f} s, {work:.2f} s of the processor", file=sys.stderr, flush=True)
    return loaded


def spoken(model: str, threads: int, sentence: Sentence) -> Speech:
    """A sentence by the original voice of its language."""
    return speak(engine(model, threads), {**PARAMETERS, "lang": sentence.lang, "text": sentence.text})


def spoken_in_turns(sentences: list[Sentence], threads: int) -> Iterator[Spoken]:
    """Which model is first changes with each sentence."""
    pools = {name: ProcessPoolExecutor(1, mp_context=get_context("spawn")) for name in MODELS}
    known: set[str] = set()
    for number, sentence in enumerate(sentences):
        order = MODELS[:: 1 if number % 2 else -1]
        for _ in range(1 if sentence.lang in known else 2):  # dictionaries load before the clock runs
            made = {name: pools[name].submit(spoken, name, threads, sentence).result() for name in order}
        known.add(sentence.lang)
        yield Spoken(sentence, {name: made[name] for name in MODELS})
    for pool in pools.values():
        pool.shutdown()


def keep(folder: Path, made: Iterator[Spoken]) -> None:
    """Sounds as FLAC, and a line with what they cost for each sentence."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / COSTS).open("w", encoding="utf-8") as lines:
        for number, one in enumerate(made):
            costs = {}
            for name, speech in one.speech.items():
                samples, rate = soundfile.read(io.BytesIO(speech.content), dtype="int16")
                soundfile.write(folder / f"{number}-{name}.flac", samples, rate)
                costs[name] = [speech.rtf, speech.cpu_rtf, speech.peak_mb]
            lines.write(json.dumps({"sentence": asdict(one.sentence), "costs": costs}) + "\n")


def kept(folder: Path) -> Iterator[Spoken]:
    """What another machine kept."""
    for number, line in enumerate((folder / COSTS).read_text("utf-8").splitlines()):
        value = json.loads(line)
        speech = {
            name: Speech((folder / f"{number}-{name}.flac").read_bytes(), (), *costs)
            for name, costs in value["costs"].items()
        }
        yield Spoken(Sentence(**value["sentence"]), speech)


@dataclass(frozen=True, slots=True)
class Judged:
    """A sentence's errors and speech, in the order of MODELS."""

    errors: list[float]
    speech: list[Speech]


def judged(made: Iterator[Spoken]) -> dict[str, list[Judged]]:
    """By language."""
    from faster_whisper import WhisperModel

    model = WhisperModel(str(CACHE / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)
    found: dict[str, list[Judged]] = {}
    for one in made:
        speech = [one.speech[name] for name in MODELS]
        errors = [_error(model, one.sentence, *of) for of in zip(MODELS, speech, strict=True)]
        found.setdefault(one.sentence.lang, []).append(Judged(errors, speech))
    return found


def _error(model: WhisperModel, sentence: Sentence, name: str, speech: Speech) -> float:
    written = heard(model, sentence.lang, speech.content)
    error = error_rate(sounding(sentence.lang, sentence.sounds), sounding(sentence.lang, written))
    if error:
        print(f"{name} {error:.3f} {sentence.lang} {sentence.text} → {written}", file=sys.stderr, flush=True)
    return error


def section(measured: dict[str, list[Judged]]) -> tuple[list[str], bool]:
    """The document's lines, and whether every language is within the limit."""
    rows = {lang: row(lang, own) for lang, own in measured.items()}
    speech = [one.speech for own in measured.values() for one in own]
    peaks = [max(both[at].peak_mb for both in speech) for at in (0, 1)]
    lines = [
        "| language | sentences | error, mean | difference, standard error | sentences with errors "
        "| CPU s per s | ratio | RTF | ratio |",
        "|---|---|---|---|---|---|---|---|---|",
        *(line for line, _ in rows.values()),
        "",
        f"Peak memory of their processes: {peaks[0]}, {peaks[1]} MB.",
    ]
    return lines, all(within for _, within in rows.values())


def row(lang: str, measured: list[Judged]) -> tuple[str, bool]:
    """A line of the table, and whether the error is within the limit."""
    first, second = (mean(one.errors[at] for one in measured) for at in (0, 1))
    differences = [one.errors[1] - one.errors[0] for one in measured]
    deviation = stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else 0.0
    wrong = [sum(one.errors[at] > 0 for one in measured) for at in (0, 1)]
    cpu = [mean(one.speech[at].cpu_rtf for one in measured) for at in (0, 1)]
    wall = [mean(one.speech[at].rtf for one in measured) for at in (0, 1)]
    line = (
        f"| {lang} | {len(measured)} | {first:.3f}, {second:.3f} | {second - first:+.3f} ± {deviation:.3f} "
        f"| {wrong[0]}, {wrong[1]} | {cpu[0]:.2f}, {cpu[1]:.2f} | {cpu[0] / cpu[1]:.2f} "
        f"| {wall[0]:.2f}, {wall[1]:.2f} | {wall[0] / wall[1]:.2f} |"
    )
    return line, second - first <= MOST_WORSE


def introduction() -> str:
    """What the section measures."""
    return f"""\
Written by `python -m lab.quality.rewritten --write` {document.circumstances()}.

The unmodified file and the model as the engine rewrites it synthesise each of the new sentences in turns,
each in its own process, and Whisper transcribes both. Pairs of figures are the file's and the engine's; the
difference of the mean errors may be at most {MOST_WORSE}; ratios above 1 are the engine's gain."""


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section into lab/records/quality.md")
    parser.add_argument("--sentences", type=Path, default=Path(__file__).with_name("new_sentences.tsv"))
    parser.add_argument("--only", default="zh,en,ja,es", help="languages, parted by commas")
    parser.add_argument("--each", type=int, default=0, help="the first so many of each language")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="only synthesise, into this folder")
    parser.add_argument("--judge", type=Path, help="transcribe a folder that another machine kept")
    arguments = parser.parse_args()
    every = read_sentences(arguments.sentences)
    sentences = [
        at
        for lang in arguments.only.split(",")
        for at in [at for at in every if at.lang == lang][: arguments.each or None]
    ]
    made = kept(arguments.judge) if arguments.judge else spoken_in_turns(sentences, arguments.threads)
    if arguments.keep:
        keep(arguments.keep, made)
        return 0
    lines, good = section(judged(made))
    print(*lines, sep="\n")
    if arguments.write:
        document.write_section("Kokoro, rewritten", [*introduction().splitlines(), "", *lines])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
