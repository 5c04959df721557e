"""How well the speech engine speaks: Whisper base writes down what it says, and what it wrote is compared
with what should have been said, as both sound.

    python -m lab.quality.read_back [--write] [--sentences FILE] [--only zh,ar]

Sentences stand in sentences.tsv: language, text, and its sounds written by hand (numbers written out;
Japanese in kana as pronounced). They were not used for tuning the engine. new_sentences.tsv has more in four
languages, to compare changes of the engine by: their sounds are taken from the text. Exits with 1 when a
language misses its target.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from tenuto.features.models.cache import default_cache
from tenuto_kokoro import KokoroEngine
from tenuto_kokoro.styles import ORIGINAL_VOICES

from .document import write_head
from .sounding import error_rate, sounding

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

ROOT = Path(__file__).parents[2]
CACHE = default_cache()
WEIGHTS = ("kokoro-v1.0-int8.onnx", "kokoro-voices", "kokoro-vocabulary", "text2tashkeel", "resemblyzer.pt")
TARGETS = {"zh": 0.03, "en": 0.03, "ja": 0.05, "es": 0.03, "ar": 0.20}
RTF_TARGET, MEMORY_TARGET_MB = 0.35, 700
PROMPTS = {"zh": "以下是普通话的句子。"}
"""Without it Whisper writes Chinese in traditional characters."""
CLICK = 0.02
"""The largest step between neighbouring samples at a joint of segments that cannot be heard as a click (-34
dB)."""
FULL_SCALE = 0.995
PARAMETERS = {
    "stream": True,
    "voice_id": None,
    "duration_factor": 1.0,
    "interval_silence": 200,
    "max_text_tokens_per_segment": 120,
    "text_normalization": True,
}


@dataclass(frozen=True, slots=True)
class Sentence:
    """One line of the file."""

    lang: str
    text: str
    sounds: str


@dataclass(frozen=True, slots=True)
class Speech:
    """What the engine made of a text, and what that cost."""

    content: bytes
    segments: tuple[bytes, ...]
    rtf: float
    cpu_rtf: float
    """Processor seconds by seconds of speech: independent of what else runs on the machine."""
    peak_mb: int


class QuietRun:
    """A run that keeps what it is shown."""

    run_id = "read-back"

    def __init__(self, parameters: dict[str, Any]) -> None:
        self.parameters = parameters
        self.inputs: dict[str, bytes] = {}
        self.shown: list[bytes] = []

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        self.shown.append(content)

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        pass

    def check_cancelled(self) -> None:
        pass


def read_sentences(path: Path) -> list[Sentence]:
    """The lines of a tab-separated file."""
    return [Sentence(*line.split("\t")) for line in path.read_text("utf-8").splitlines() if line]


def speak_all(texts: list[tuple[str, str, dict[str, Any]]]) -> list[Speech]:
    """Speak every text in one engine, as a host would; runs in a process of its own to measure its memory."""
    engine = KokoroEngine({"weights": {name: str(CACHE / name) for name in WEIGHTS}})
    for lang in dict.fromkeys(lang for lang, _, _ in texts):  # dictionaries load before the clock runs
        engine.run(
            QuietRun({**PARAMETERS, "lang": lang, "text": next(t for at, t, _ in texts if at == lang)})
        )
    return [speak(engine, {**PARAMETERS, "lang": lang, "text": text, **more}) for lang, text, more in texts]


def speak(engine: KokoroEngine, parameters: dict[str, Any]) -> Speech:
    """What the engine makes of one text."""
    run = QuietRun(parameters)
    started, worked = time.perf_counter(), time.process_time()
    result = engine.run(run)
    took, work = time.perf_counter() - started, time.process_time() - worked
    seconds = (result.duration_ms or 0) / 1000
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Speech(result.content, tuple(run.shown), took / seconds, work / seconds, peak_mb)


def heard(model: WhisperModel, lang: str, content: bytes) -> str:
    """What Whisper writes down."""
    found, _ = model.transcribe(
        io.BytesIO(content),
        language=lang,
        beam_size=5,
        condition_on_previous_text=False,
        initial_prompt=PROMPTS.get(lang),
    )
    return "".join(piece.text for piece in found).strip()


def flaws(speech: Speech) -> list[str]:
    """Clipping, clicks at the joints of segments, and segments that do not make up the whole."""
    pcm = [np.frombuffer(shown[44:], "<i2").astype(np.float64) / 32767 for shown in speech.segments]
    whole = np.frombuffer(speech.content[44:], "<i2").astype(np.float64) / 32767
    found = []
    if not np.array_equal(np.concatenate(pcm), whole):
        found.append("the segments are not the whole")
    if np.abs(whole).max() > FULL_SCALE:
        found.append("clipping")
    joints = np.cumsum([len(samples) for samples in pcm])[:-1]
    edges = [abs(whole[at] - whole[at - 1]) for at in joints] + [abs(whole[0]), abs(whole[-1])]
    if max(edges) > CLICK:
        found.append(f"a step of {max(edges):.3f} at a joint")
    return found


def table(sentences: list[Sentence], model: WhisperModel, *, show: bool) -> tuple[list[str], bool]:
    """The table's lines, and whether every target is met."""
    langs = list(dict.fromkeys(sentence.lang for sentence in sentences))
    joined: dict[str, Any] = {"interval_silence": 0, "max_text_tokens_per_segment": 60}
    texts: list[tuple[str, str, dict[str, Any]]] = [(at.lang, at.text, {}) for at in sentences]
    texts += [
        (lang, " ".join(at.text for at in sentences if at.lang == lang)[:300], joined) for lang in langs
    ]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        spoken = pool.submit(speak_all, texts).result()
    lines = [
        "| language | voice | error, median | error, mean | target | RTF, median | CPU s per s | flaws |",
        "|---|---|---|---|---|---|---|---|",
    ]
    good = True
    for index, lang in enumerate(langs):
        pairs = zip(sentences, spoken, strict=False)
        own = [(at, speech) for at, speech in pairs if at.lang == lang]
        errors = [_error(model, at, speech, show=show) for at, speech in own]
        long = spoken[len(sentences) + index]
        wrong = sorted({flaw for speech in [*(one for _, one in own), long] for flaw in flaws(speech)})
        rtf, cpu = median(one.rtf for _, one in own), median(one.cpu_rtf for _, one in own)
        good = good and median(errors) <= TARGETS[lang] and mean(errors) <= TARGETS[lang] and not wrong
        lines.append(
            f"| {lang} | {ORIGINAL_VOICES[lang]} | {median(errors):.3f} | {mean(errors):.3f} "
            f"| {TARGETS[lang]:.2f} | {rtf:.2f} | {cpu:.2f} | {', '.join(wrong) or 'none'} |"
        )
    peak = max(speech.peak_mb for speech in spoken)
    overall = median(speech.rtf for speech in spoken[: len(sentences)])
    lines += ["", f"Real-time factor, median of all: {overall:.2f} (target {RTF_TARGET})."]
    lines += [f"Peak memory of the engine's process, all languages: {peak} MB (target {MEMORY_TARGET_MB})."]
    return lines, good and peak <= MEMORY_TARGET_MB


def _error(model: WhisperModel, sentence: Sentence, speech: Speech, *, show: bool) -> float:
    written = heard(model, sentence.lang, speech.content)
    error = error_rate(sounding(sentence.lang, sentence.sounds), sounding(sentence.lang, written))
    if show and error:
        print(f"{error:.3f} {sentence.lang} {sentence.text} → {written}", file=sys.stderr)
    return error


def document(lines: list[str]) -> str:
    """lab/records/quality.md."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    head = f"""# Quality of speech and recognition

Written by `make quality` on {today} at commit {commit}, on {os.cpu_count()} processor cores.

The speech engine: Whisper base (int8) transcribes ten sentences per language that were not used for tuning,
spoken by the original voice with default parameters. The error is the share of differing characters, compared
by sound: Chinese syllables without tones, Japanese kana, other languages in letters without spaces, numbers
written out. It includes Whisper's own mistakes. The samples are checked for clipping, for clicks between
segments, and that the segments add up to the whole. The real-time factor (RTF) is wall time divided by the
duration of the speech, so it depends on what else runs on the machine.
"""
    return "\n".join([head, *lines, ""])


def main() -> int:
    """Measure, print the table, and write it where asked."""
    from faster_whisper import WhisperModel

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write lab/records/quality.md")
    parser.add_argument("--sentences", type=Path, default=Path(__file__).with_name("sentences.tsv"))
    parser.add_argument("--only", default=",".join(TARGETS), help="languages, parted by commas")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    sentences = [at for at in read_sentences(arguments.sentences) if at.lang in wanted]
    model = WhisperModel(str(CACHE / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2)
    lines, good = table(sentences, model, show=True)
    print("\n".join(lines))
    if arguments.write:
        write_head(document(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
