"""Kokoro through OpenVINO beside ONNX Runtime: each sentence is spoken by both in turns, each in a process of
its own, so that what else runs on the machine slows down both.

    python -m tests.quality.runtimes [--write] [--only zh,en] [--sentences FILE] [--threads 2]

Errors are those of `read_back`, by the same ear. Exits with 1 where OpenVINO's mean error is more than 0.005
above ONNX Runtime's.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import sqrt
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev

from faster_whisper import WhisperModel

from tenuto_kokoro import KokoroEngine
from tenuto_kokoro.runtimes import ONNXRUNTIME, OPENVINO

from . import document
from .read_back import CACHE, PARAMETERS, WEIGHTS, Sentence, Speech, heard, read_sentences, speak
from .sounding import error_rate, sounding

RUNTIMES = (ONNXRUNTIME, OPENVINO)
MOST_WORSE = 0.005


@dataclass(frozen=True, slots=True)
class Pair:
    """What both runtimes made of a sentence: errors and speech in the order of RUNTIMES."""

    errors: list[float]
    speech: list[Speech]


@cache
def engine(runtime: str, threads: int) -> KokoroEngine:
    """Loaded once in a process."""
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    return KokoroEngine({"weights": weights, "threads": threads, "runtime": runtime})


def spoken(runtime: str, threads: int, sentence: Sentence) -> Speech:
    """A sentence by the original voice of its language."""
    return speak(engine(runtime, threads), {**PARAMETERS, "lang": sentence.lang, "text": sentence.text})


def pairs(sentences: list[Sentence], threads: int) -> dict[str, list[Pair]]:
    """By language. Which runtime is first changes with each sentence."""
    model = WhisperModel(str(CACHE / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)
    pools = {name: ProcessPoolExecutor(1, mp_context=get_context("spawn")) for name in RUNTIMES}
    found: dict[str, list[Pair]] = {}
    for number, sentence in enumerate(sentences):
        order = RUNTIMES[:: 1 if number % 2 else -1]
        for _ in range(1 if sentence.lang in found else 2):  # dictionaries load before the clock runs
            speech = {name: pools[name].submit(spoken, name, threads, sentence).result() for name in order}
        own = [speech[name] for name in RUNTIMES]
        errors = [_error(model, sentence, *of) for of in zip(RUNTIMES, own, strict=True)]
        found.setdefault(sentence.lang, []).append(Pair(errors, own))
    for pool in pools.values():
        pool.shutdown()
    return found


def _error(model: WhisperModel, sentence: Sentence, runtime: str, speech: Speech) -> float:
    written = heard(model, sentence.lang, speech.content)
    error = error_rate(sounding(sentence.lang, sentence.sounds), sounding(sentence.lang, written))
    if error:
        print(
            f"{runtime} {error:.3f} {sentence.lang} {sentence.text} → {written}", file=sys.stderr, flush=True
        )
    return error


def section(measured: dict[str, list[Pair]]) -> tuple[list[str], bool]:
    """The document's lines, and whether every language is within the limit."""
    rows = {lang: row(lang, own) for lang, own in measured.items()}
    speech = [pair.speech for own in measured.values() for pair in own]
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


def row(lang: str, measured: list[Pair]) -> tuple[str, bool]:
    """A line of the table, and whether OpenVINO's error is within the limit."""
    first, second = (mean(pair.errors[at] for pair in measured) for at in (0, 1))
    differences = [pair.errors[1] - pair.errors[0] for pair in measured]
    deviation = stdev(differences) / sqrt(len(differences)) if len(differences) > 1 else 0.0
    wrong = [sum(pair.errors[at] > 0 for pair in measured) for at in (0, 1)]
    cpu = [mean(pair.speech[at].cpu_rtf for pair in measured) for at in (0, 1)]
    wall = [mean(pair.speech[at].rtf for pair in measured) for at in (0, 1)]
    line = (
        f"| {lang} | {len(measured)} | {first:.3f}, {second:.3f} | {second - first:+.3f} ± {deviation:.3f} "
        f"| {wrong[0]}, {wrong[1]} | {cpu[0]:.2f}, {cpu[1]:.2f} | {cpu[0] / cpu[1]:.2f} "
        f"| {wall[0]:.2f}, {wall[1]:.2f} | {wall[0] / wall[1]:.2f} |"
    )
    return line, second - first <= MOST_WORSE


def introduction() -> str:
    """What the section measures."""
    return f"""\
Written by `python -m tests.quality.runtimes --write` {document.circumstances()}.

Both runtimes speak each of the new sentences in turns, in processes of their own, and Whisper transcribes
both. Pairs of figures are ONNX Runtime's and OpenVINO's; the difference of the mean errors may be at most
{MOST_WORSE}; ratios above 1 are OpenVINO's gain."""


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section into docs/quality.md")
    parser.add_argument("--sentences", type=Path, default=Path(__file__).with_name("new_sentences.tsv"))
    parser.add_argument("--only", default="zh,en,ja,es", help="languages, parted by commas")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    sentences = [at for at in read_sentences(arguments.sentences) if at.lang in wanted]
    lines, good = section(pairs(sentences, arguments.threads))
    print(*lines, sep="\n")
    if arguments.write:
        document.write_section("Kokoro through OpenVINO", [*introduction().splitlines(), "", *lines])
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
