"""Accuracy of the first recognition engine: people reading English, the service's own speech in five
languages, and a meeting of 25 minutes in parts.

    python -m lab.quality.recognition [--write] [--only human,speech,meeting]

Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from difflib import SequenceMatcher
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from tenuto.features.recognition import flac_child
from tenuto.features.recognition.transcript_merge import ChunkTranscript, merge_segment_text

from .document import provenance, write_section
from .human import clips
from .meeting import meeting
from .read_back import read_sentences
from .recordings import RATE, VOICES, Floats, Recording, recognised, silence, speech
from .sounding import error_rate, sounding

TITLE = "Accuracy of the first recognition engine"
TARGETS = {"zh": 0.05, "es": 0.05, "ja": 0.08, "ar": 0.25, "en": 0.05}
WORD_TARGET, SPEAKER_TARGET, MUSIC_TARGET_S, RTF_TARGET = 0.05, 0.85, 1.0, 0.2
SENTENCES = Path(__file__).with_name("sentences.tsv")
DOUBLED_OR_LOST = 3
"""This many extra or missing words in a row are a fault of merging, not of recognition."""


def recognise_all(recordings: Sequence[Floats]) -> tuple[list[dict[str, Any]], float, float, int]:
    """What one engine hears in each; real-time factor, processor seconds by second, peak memory in MB.

    Runs in a process of its own, so that the memory is the engine's.
    """
    recognised(silence(1))  # the weights load before the clock runs
    started, worked = time.perf_counter(), time.process_time()
    values = [recognised(samples) for samples in recordings]
    took, work = time.perf_counter() - started, time.process_time() - worked
    seconds = sum(len(samples) for samples in recordings) / RATE
    return values, took / seconds, work / seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def human(pool: ProcessPoolExecutor) -> tuple[list[str], bool]:
    """People reading English: the share of words that differ."""
    found = clips()
    values, *_ = pool.submit(recognise_all, [samples for _, samples in found]).result()
    wrong = count = 0.0
    for (source, _), value in zip(found, values, strict=True):
        truth, heard = _words(source.text), _words(_text(value["segments"]))
        wrong += error_rate(truth, heard) * len(truth)
        count += len(truth)
        if truth != heard:
            print(f"{source.member}: {' '.join(heard)}", file=sys.stderr)
    minutes = sum(len(samples) for _, samples in found) / RATE / 60
    line = (
        f"People reading English ({len(found)} recordings, {minutes:.1f} minutes, {count:.0f} words, from "
        f"the packages moonshine-voice and pocketsphinx-testdata): word error {wrong / count:.3f} "
        f"(target {WORD_TARGET})."
    )
    return [line], wrong / count <= WORD_TARGET


def spoken(pool: ProcessPoolExecutor) -> tuple[list[str], bool]:
    """The service's own speech: the share of characters that sound different."""
    lines = ["| language | detected as | error | target |", "|---|---|---|---|"]
    good = True
    sentences = read_sentences(SENTENCES)
    for lang, target in TARGETS.items():
        own = [one for one in sentences if one.lang == lang]
        values, *_ = pool.submit(recognise_all, [speech(one.text, lang) for one in own]).result()
        errors = []
        for one, value in zip(own, values, strict=True):
            written = _text(value["segments"])
            errors.append(error_rate(sounding(lang, one.sounds), sounding(lang, written)))
            if errors[-1]:
                print(f"{errors[-1]:.3f} {one.text} → {value['language']} {written}", file=sys.stderr)
        languages = ", ".join(sorted({str(value["language"]) for value in values}))
        lines.append(f"| {lang} | {languages} | {mean(errors):.3f} | {target} |")
        good = good and mean(errors) <= target
    return lines, good


def long_meeting(pool: ProcessPoolExecutor) -> tuple[list[str], bool]:
    """The meeting, in parts as the service cuts them, merged as it merges them."""
    made = meeting()
    samples = made.samples
    spans = flac_child.plan_chunks(_loudness(samples), made.length / RATE)
    pieces = [samples[round(start * RATE) : round(end * RATE)] for start, end in spans]
    values, rtf, cpu, peak_mb = pool.submit(recognise_all, pieces).result()
    merged = merge_segment_text(
        [ChunkTranscript(start, end, value) for (start, end), value in zip(spans, values, strict=True)]
    )
    truth, heard = _words(" ".join(made.texts)), _words(_text(merged.segments))
    error, stray = error_rate(truth, heard), longest_stray(truth, heard)
    right, people = speaker_share(made, merged.segments)
    off_s = music_off(made, merged.segments)
    lines = [
        f"A made-up meeting of {made.length / RATE / 60:.1f} minutes ({len(truth)} words, three voices in "
        f"turns, music in between, {len(spans)} chunks):",
        "",
        "| measure | value | target |",
        "|---|---|---|",
        f"| longest run of doubled or lost words | {stray} | under {DOUBLED_OR_LOST} |",
        f"| word error | {error:.3f} | {WORD_TARGET} |",
        f"| correct speaker, share of speech time | {right:.3f} | {SPEAKER_TARGET} |",
        f"| speakers detected | {people} | {len(VOICES)} |",
        f"| start and end of music, largest error | {off_s:.2f} s | {MUSIC_TARGET_S} s |",
        f"| real-time factor | {rtf:.2f} | {RTF_TARGET} |",
        f"| CPU seconds per second | {cpu:.2f} | |",
        f"| peak memory | {peak_mb} MB | |",
        f"| warnings | {len(merged.warnings)} | |",
    ]
    good = (
        stray < DOUBLED_OR_LOST
        and error <= WORD_TARGET
        and right >= SPEAKER_TARGET
        and off_s <= MUSIC_TARGET_S
    )
    return lines, good


def longest_stray(truth: Sequence[str], heard: Sequence[str]) -> int:
    """The most words in a row that stand in one of both alone, those heard wrongly not counted."""
    found = SequenceMatcher(None, truth, heard, autojunk=False).get_opcodes()
    return max((abs((end - start) - (finish - begin)) for _, start, end, begin, finish in found), default=0)


def speaker_share(made: Recording, segments: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """The share of hundredths of a second of speech with the right label, and how many labels there are.

    Labels are given to voices so that the share is greatest. Speech without a segment is wrong.
    """
    labels = sorted({one["speaker"] for one in segments if one["speaker"]})
    count = round(made.length / RATE * 100)
    true, heard = np.full(count, -1), np.full(count, -2)
    for start, end, what in made.turns:
        if what in VOICES:
            true[round(start * 100) : round(end * 100)] = VOICES.index(what)
    for one in segments:
        if one["speaker"]:
            heard[round(one["start"] * 100) : round(one["end"] * 100)] = labels.index(one["speaker"])
    size = max(len(labels), len(VOICES))
    common = np.zeros((size, len(VOICES)))
    for label, voice in itertools.product(range(len(labels)), range(len(VOICES))):
        common[label, voice] = ((heard == label) & (true == voice)).sum()
    chosen = max(
        sum(common[label, voice] for voice, label in enumerate(choice))
        for choice in itertools.permutations(range(size), len(VOICES))
    )
    return float(chosen / (true >= 0).sum()), len(labels)


def music_off(made: Recording, segments: Sequence[dict[str, Any]]) -> float:
    """How far the begin or end of a piece of music is from where it was found, at most, in seconds."""
    found = [(one["start"], one["end"]) for one in segments if one["type"] == "music"]
    return max(
        min((max(abs(start - begin), abs(end - finish)) for begin, finish in found), default=float("inf"))
        for start, end, what in made.turns
        if what == "music"
    )


def _loudness(samples: Floats) -> list[float]:
    frame = round(flac_child.FRAME_S * RATE)
    whole = samples[: len(samples) // frame * frame].reshape(-1, frame)
    return [float(one) for one in np.square(whole).mean(axis=1)]


def _text(segments: Sequence[dict[str, Any]]) -> str:
    return " ".join(one["text"] for one in segments if one["text"])


def _words(text: str) -> list[str]:
    """English words as they sound: no marks, no case, hyphens as spaces."""
    written = text.lower().replace("-", " ").replace("mr.", "mister").replace("’", "'")
    return ["".join(sign for sign in word if sign.isalnum() or sign == "'") for word in written.split()]


def main() -> int:
    """Measure, print, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write it into lab/records/quality.md")
    parser.add_argument("--only", default="human,speech,meeting", help="parted by commas")
    arguments = parser.parse_args()
    kinds = {"human": human, "speech": spoken, "meeting": long_meeting}
    # As in a host; the process of the pool reads it as it starts.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    lines, all_good = [provenance(), "", HEAD], True
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for name in arguments.only.split(","):
            more, good = kinds[name](pool)
            print("\n".join(more), flush=True)
            lines += ["", *more]
            all_good = all_good and good
    if arguments.write:
        write_section(TITLE, lines)
    return 0 if all_good else 1


HEAD = """Whisper base (int8) detects the language itself. Word errors are substitutions, insertions and
deletions divided by the number of words; character errors compare sounds, as for speech. The meeting is
spoken by the service's own voices; it is cut into chunks and merged as in the service."""


if __name__ == "__main__":
    sys.exit(main())
