"""Two versions of the speech engine beside each other: both speak the same sentences, the same ear
transcribes both, and each sentence's errors are compared.

    python -m lab.quality.versions CHECKOUT [--sentences FILE] [--letters 12]

CHECKOUT is a folder with the other version of this repository, for example a `git worktree` of an older
commit; its `engines/kokoro/src` comes before this one's. The sentences are those of arabic_test.tsv, which
nothing was tuned on; arabic_tuning.tsv is for trying things out. The second table lists the letters that this
version's transcripts lack or confuse most often. Errors do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from statistics import mean, median, stdev

from faster_whisper import WhisperModel

from .read_back import CACHE, PARAMETERS, ROOT, WEIGHTS, Sentence, heard, read_sentences, speak
from .sounding import error_rate, sounding

ENGINE = "engines/kokoro/src"
NOTHING = "–"
"""Stands for no letter: the other one is missing, or too many."""


def speak_into(folder: Path, sentences: list[Sentence]) -> None:
    """The file NUMBER.wav for each sentence, by the version that this process imports."""
    from tenuto_kokoro import KokoroEngine

    engine = KokoroEngine({"weights": {name: str(CACHE / name) for name in WEIGHTS}})
    for number, sentence in enumerate(sentences):
        speech = speak(engine, {**PARAMETERS, "lang": sentence.lang, "text": sentence.text})
        (folder / f"{number}.wav").write_bytes(speech.content)


def spoken(checkout: Path, sentences: Path) -> list[bytes]:
    """What a version makes of each sentence, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(checkout / ENGINE), os.environ.get("PYTHONPATH", "")]
        subprocess.run(
            [sys.executable, "-m", __spec__.name, folder, "--sentences", str(sentences), "--speak"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            check=True,
        )
        count = len(read_sentences(sentences))
        return [(Path(folder) / f"{number}.wav").read_bytes() for number in range(count)]


def table(errors: Sequence[tuple[float, float]]) -> list[str]:
    """Each sentence's errors of the other version and of this one, as a table with one row."""
    before, after = zip(*errors, strict=True)
    differences = [second - first for first, second in errors]
    better, worse = sum(at < 0 for at in differences), sum(at > 0 for at in differences)
    return [
        "| sentences | error, mean, ± standard error | median | difference in pairs | better, same, worse |",
        "|---|---|---|---|---|",
        f"| {len(errors)} | {_uncertain(before)}, {_uncertain(after)} "
        f"| {median(before):.3f}, {median(after):.3f} "
        f"| {mean(differences):+.3f} ± {_standard_error(differences):.3f} "
        f"| {better}, {len(errors) - better - worse}, {worse} |",
    ]


def confusions(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], most: int) -> list[str]:
    """The most frequent differences between what was to be heard and what was, as a table."""
    counted = Counter(pair for spoken_letters, written in pairs for pair in aligned(spoken_letters, written))
    total = Counter(letter for letters, _ in pairs for letter in letters)
    lines = ["| spoken | transcribed | times | of |", "|---|---|---|---|"]
    for (spoken_letter, written_letter), times in counted.most_common():
        if spoken_letter != written_letter and len(lines) < most + 2:
            of = total[spoken_letter] or ""
            lines.append(f"| {spoken_letter} | {written_letter} | {times} | {of} |")
    return lines


def aligned(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The pairs of a shortest edit of one sequence into the other, from the end; NOTHING for what one
    lacks."""
    costs = [[row + column for column in range(len(second) + 1)] for row in range(len(first) + 1)]
    for row in range(1, len(first) + 1):
        for column in range(1, len(second) + 1):
            costs[row][column] = min(
                costs[row - 1][column - 1] + (first[row - 1] != second[column - 1]),
                costs[row - 1][column] + 1,
                costs[row][column - 1] + 1,
            )
    row, column = len(first), len(second)
    while row or column:
        cost = costs[row][column]
        if row and column and cost == costs[row - 1][column - 1] + (first[row - 1] != second[column - 1]):
            row, column = row - 1, column - 1
            yield first[row], second[column]
        elif row and cost == costs[row - 1][column] + 1:
            row -= 1
            yield first[row], NOTHING
        else:
            column -= 1
            yield NOTHING, second[column]


def _uncertain(errors: Sequence[float]) -> str:
    return f"{mean(errors):.3f} ± {_standard_error(errors):.3f}"


def _standard_error(numbers: Sequence[float]) -> float:
    return stdev(numbers) / sqrt(len(numbers)) if len(numbers) > 1 else 0.0


def main() -> int:
    """Speak, transcribe, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="the other version")
    parser.add_argument("--sentences", type=Path, default=Path(__file__).with_name("arabic_test.tsv"))
    parser.add_argument("--letters", type=int, default=12, help="how many confusions are listed")
    parser.add_argument("--speak", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sentences = read_sentences(arguments.sentences)
    if arguments.speak:
        speak_into(arguments.checkout, sentences)
        return 0
    versions = [spoken(checkout.resolve(), arguments.sentences) for checkout in (arguments.checkout, ROOT)]
    ear = WhisperModel(str(CACHE / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)
    errors, pairs = [], []
    for sentence, both in zip(sentences, zip(*versions, strict=True), strict=True):
        expected = sounding(sentence.lang, sentence.sounds)
        texts = [heard(ear, sentence.lang, content) for content in both]
        written = [sounding(sentence.lang, text) for text in texts]
        first, second = (error_rate(expected, letters) for letters in written)
        errors.append((first, second))
        pairs.append((expected, written[1]))
        print(f"{first:.3f} {second:.3f} {sentence.text} → {' | '.join(texts)}", file=sys.stderr, flush=True)
    print(*table(errors), "", *confusions(pairs, arguments.letters), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
