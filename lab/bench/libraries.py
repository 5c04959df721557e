"""Our engines beside other libraries that run the same weights, on the same texts and recordings, in turns.

Each is a program of its own (`bench.own_engine`, `lab/bench/peers`), as the library's README would have it;
all
are loaded, and idle while another one's turn lasts. The service is not in between: what it adds is measured
elsewhere. `make bench` installs the libraries into `build/peers`, and these programs alone see them.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from lab.bench import ROOT, ggml
from lab.bench.overhead import TEXT
from lab.bench.references import cpu_s
from lab.bench.report import Row

from servers.postgres import PostgresServer
from tenuto.features.models.cache import default_cache

PYTHON = ROOT / "build" / "peers" / "bin" / "python"
PROGRAMS = Path(__file__).parent / "peers"
MISSING = "not measured: `make bench` installs it (`requirements/peers.txt`)"
THREADS = min(2, os.cpu_count() or 1)
LOADS, ROUNDS = 3, 3
VOICE = "af_heart"
SHORT = "Hold the note for its full value."
TEXTS = (SHORT, TEXT[: TEXT.index(" Later")], TEXT)
"""Of 2, 10 and 28 seconds."""
PAUSE_S = 1.0
BATCH = 4
"""Windows that faster-whisper decodes at once: as many as our engines."""
TIMES_BEST = 1.1
"""How much more processor time than the best library an engine of ours may take: rounds differ by as much."""
MIB = 1 << 10
"""In the kibibytes of /proc."""

Request = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A program and the options that it takes."""

    name: str
    command: tuple[str, ...]
    options: dict[str, Any]
    does_more: str = ""
    """What it does that the others do not; such a contestant has no limit."""

    @property
    def is_ours(self) -> bool:
        return self.command[0] == sys.executable


@dataclass(slots=True)
class Figures:
    """What a contestant took: (real seconds, processor seconds) of each load, and for each second of sound in
    each round."""

    loads: list[tuple[float, float]] = field(default_factory=list)
    rounds: list[tuple[float, float]] = field(default_factory=list)
    sound_s: float = 0.0
    """In a round."""
    text: str = ""
    peak_mib: float = 0.0


def measure(postgres: PostgresServer | None) -> list[Row]:
    """No database is asked, so they are measured once."""
    if postgres is not None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        return _speech(Path(folder)) + _recognition(Path(folder))


def _speech(folder: Path) -> list[Row]:
    from lab.quality.recordings import SPEAKING

    cache = default_cache()
    styles = np.fromfile(cache / "kokoro-voices" / f"{VOICE}.bin", np.float32).reshape(-1, 1, 256)
    voices: dict[str, Any] = {VOICE: styles}
    np.savez(folder / "voices.npz", **voices)
    model = {"model": str(cache / SPEAKING[0]), "voices": str(folder / "voices.npz"), "voice": VOICE}
    contestants = [
        own_speech(),
        _peer("kokoro-onnx", "with_kokoro_onnx.py", model),
    ]
    figures = in_turns(contestants, [{"text": text} for text in TEXTS], {"text": SHORT})
    return rows("speech, Kokoro-82M in 8 bits, three English texts", figures)


def _recognition(folder: Path) -> list[Row]:
    from lab.quality.human import clips
    from lab.quality.recordings import HEARING, silence
    from lab.quality.sounding import error_rate, sounding

    people = clips()
    samples = np.concatenate([part for _, clip in people for part in (clip, silence(PAUSE_S))])
    samples.astype(np.float32).tofile(folder / "all")
    people[-1][1].astype(np.float32).tofile(folder / "one")
    weights = default_cache() / "whisper-base"
    ggml.write(weights, folder / "ggml")
    more = "detects the language, times each word, separates speakers, and finds music and noise"
    contestants = [
        _own("ours, timed segments", "whisper-given-language", HEARING, {"language": "en"}),
        _own("ours, words and speakers", "whisper", HEARING, {"language": None}, does_more=more),
        _peer("faster-whisper", "with_faster_whisper.py", {"model": str(weights), "batch": 0}),
        _peer(
            f"faster-whisper, {BATCH} windows at once",
            "with_faster_whisper.py",
            {"model": str(weights), "batch": BATCH},
        ),
        _peer("whisper.cpp", "with_whisper_cpp.py", {"model": str(folder / "ggml")}),
    ]
    figures = in_turns(contestants, [{"samples": str(folder / "all")}], {"samples": str(folder / "one")})
    spoken = sounding("en", " ".join(source.text for source, _ in people))
    errors = {
        name: f"; {error_rate(spoken, sounding('en', one.text)):.1%} of the words wrong"
        for name, (_, one) in figures.items()
        if one.text
    }
    return rows("recognition, Whisper base in 8 bits, people reading English", figures, errors)


def own_speech() -> Contestant:
    """Our engine."""
    from lab.quality.recordings import SPEAKING

    parameters = {
        "lang": "en",
        "stream": False,
        "voice": {"profile": {"style": VOICE}},
        "duration_factor": 1,
        "interval_silence": 200,
        "max_text_tokens_per_segment": 120,
        "text_normalization": True,
    }
    return _own("ours", "kokoro", SPEAKING, parameters)


def _own(
    name: str,
    engine: str,
    weights: Sequence[str],
    parameters: dict[str, Any],
    does_more: str = "",
    **options: str,
) -> Contestant:
    paths = {each: str(default_cache() / each) for each in weights}
    given = {"engine": engine, "weights": paths, "parameters": parameters, "threads": THREADS, **options}
    return Contestant(name, (sys.executable, "-m", "lab.bench.own_engine"), given, does_more)


def _peer(name: str, program: str, options: dict[str, Any]) -> Contestant:
    return Contestant(name, (str(PYTHON), str(PROGRAMS / program)), options | {"threads": THREADS})


class Program:
    """A contestant's process, loaded."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, request: Request) -> dict[str, Any]:
        """One request; without its fields (`{}`), the answer that it has loaded."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if request:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{self._process.args!r} ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def turn(self, requests: Sequence[Request], figures: Figures) -> None:
        """A round of one contestant."""
        began, before = time.perf_counter(), self.cpu_s()
        answers = [self.ask(request) for request in requests]
        took_s, spent_s = time.perf_counter() - began, self.cpu_s() - before
        figures.sound_s = sum(answer["seconds"] for answer in answers)
        figures.text = " ".join(answer.get("text", "") for answer in answers).strip()
        figures.rounds.append((took_s / figures.sound_s, spent_s / figures.sound_s))
        figures.peak_mib = self.peak_mib()

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / MIB

    def cpu_s(self) -> float:
        return cpu_s(self._process.pid)


@contextmanager
def loaded(contestant: Contestant, figures: Figures) -> Iterator[Program]:
    command = [*contestant.command, json.dumps(contestant.options)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, **pipes) as process:
        program = Program(process)
        try:
            program.ask({})
            figures.loads.append((time.perf_counter() - began, program.cpu_s()))
            yield program
        finally:
            process.terminate()


def in_turns(
    contestants: Sequence[Contestant], requests: Sequence[Request], first: Request
) -> dict[str, tuple[Contestant, Figures]]:
    """Every contestant loads, then answers all requests, once a round, another one first each time; `first`
    is not counted. What is not installed has no figures."""
    every = {one.name: (one, Figures()) for one in contestants}
    here = [pair for pair in every.values() if pair[0].is_ours or PYTHON.exists()]
    with ExitStack() as stack:
        for _ in range(LOADS - 1):
            for contestant, figures in here:
                with loaded(contestant, figures):
                    pass
        running = [(stack.enter_context(loaded(*pair)), pair[1]) for pair in here]
        for program, _ in running:
            program.ask(first)
        for number in range(ROUNDS):
            at = number % len(running)
            for program, figures in running[at:] + running[:at]:
                program.turn(requests, figures)
    return every


def rows(
    what: str, every: dict[str, tuple[Contestant, Figures]], more: dict[str, str] | None = None
) -> list[Row]:
    measured = [(one, figures) for one, figures in every.values() if figures.rounds]
    best = min((_medians(figures.rounds)[1] for one, figures in measured if not one.is_ours), default=None)
    return [
        _row(f"{what}: {one.name}", one, figures, best, (more or {}).get(one.name, ""))
        for one, figures in every.values()
    ]


def _row(name: str, one: Contestant, figures: Figures, best: float | None, more: str) -> Row:
    if not figures.rounds:
        return Row(name, MISSING)
    real, cpu = _medians(figures.rounds)
    load, load_cpu = _medians(figures.loads)
    reason = (
        f"{real:.2f} of real time; {figures.peak_mib:.0f} MiB at most; loaded in {load:.1f} s "
        f"({load_cpu:.1f} s of the processor); {figures.sound_s:.0f} s of sound, median of {ROUNDS} rounds "
        f"in turns, {THREADS} threads{more}"
    )
    value, unit = f"{cpu:.3f} s", "of the processor for a second"
    if not one.is_ours or one.does_more or best is None:
        return Row(
            name, f"{value} {unit}", "", f"also {one.does_more}; {reason}" if one.does_more else reason
        )
    limit = TIMES_BEST * best
    reason = f"{TIMES_BEST} × the best library; {reason}"
    return Row(name, f"{value} {unit}", f"≤ {limit:.3f} s", reason, cpu <= limit)


def _medians(values: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Real time, and the processor's."""
    return statistics.median(real for real, _ in values), statistics.median(cpu for _, cpu in values)
