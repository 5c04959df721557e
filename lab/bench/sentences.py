"""Thirty-two sentences at once by OpenAI's route, beside the same engine behind the simplest server.

The peer (`bench.plain_speech`) has the same weights and options, and stores, charges and checks nothing.
Kokoro-FastAPI itself cannot be run here: it needs PyTorch weights, and its text front end a GPL library.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import psutil
from lab.bench import ROOT
from lab.bench.overhead import MODEL
from lab.bench.report import Row, below
from lab.bench.stage import Stage, stage

from servers.postgres import PostgresServer
from servers.service import PLAIN

SENTENCES = 32
PAIRS = 2
ADDED_PERCENT = 10.0


def measure(postgres: PostgresServer | None, sentences: int = SENTENCES) -> list[Row]:
    """Rounds in turns, on SQLite alone: what is compared is the way to the engine."""
    if postgres is not None:
        return []
    with stage(postgres, TENUTO_ENGINES="real", TENUTO_CONFIG="") as running:
        ours = f"http://127.0.0.1:{running.port}"
        _round(ours, running.keys[0], 1)  # loads the model
        [given] = running.query("select parameters from job limit 1")
        with _peer(given["parameters"]) as (theirs, process):
            _round(theirs, "none", 1)
            pairs = [
                (
                    _measured(running.processes(), ours, running.keys[0], sentences),
                    _measured([process], theirs, "none", sentences),
                )
                for _ in range(PAIRS)
            ]
    return _rows(running, pairs, sentences)


Round = tuple[float, float, float]
"""Wall seconds, processor seconds, and the median of seconds until the first byte."""


def _rows(running: Stage, pairs: list[tuple[Round, Round]], sentences: int) -> list[Row]:
    (wall, cpu, first), (their_wall, their_cpu, their_first) = (
        [statistics.median(each[side][part] for each in pairs) for part in range(3)] for side in (0, 1)
    )
    how = f"the same engine behind a lock and uvicorn, {PAIRS} rounds of each in turns"
    name = f"{running.name}: {sentences} sentences at once as WAV"
    return [
        below(
            f"{name}, processor time added to the engine behind the simplest server",
            (cpu / their_cpu - 1) * 100,
            ADDED_PERCENT,
            "%",
            f"{how}: {cpu:.1f} s beside {their_cpu:.1f} s",
            digits=1,
        ),
        Row(
            f"{name}, until the last one",
            f"{wall:.1f} s beside {their_wall:.1f} s",
            reason=f"{how}; first byte after {first:.1f} s beside {their_first:.1f} s at the median",
        ),
    ]


@contextmanager
def _peer(parameters: str) -> Iterator[tuple[str, psutil.Process]]:
    words = [sys.executable, "-m", "lab.bench.plain_speech", parameters]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}", psutil.Process(process.pid)
        finally:
            process.terminate()


def _measured(processes: list[psutil.Process], base: str, key: str, sentences: int) -> Round:
    before, began = _cpu_s(processes), time.monotonic()
    first_s = _round(base, key, sentences)
    return time.monotonic() - began, _cpu_s(processes) - before, statistics.median(first_s)


def _cpu_s(processes: list[psutil.Process]) -> float:
    return sum(each.cpu_times().user + each.cpu_times().system for each in processes)


def _round(base: str, key: str, sentences: int) -> list[float]:
    """Seconds until the first byte of each."""

    def speak(number: int) -> float:
        body = {"model": MODEL, "input": f"Sentence {number + 1} is spoken beside the others.", "lang": "en"}
        began = time.monotonic()
        with http.stream(
            "POST", "/v1/audio/speech", json=body | {"response_format": "wav"}, headers=headers
        ) as answer:
            assert answer.status_code == 200, json.loads(answer.read())
            first_s, size = 0.0, 0
            for piece in answer.iter_bytes():
                first_s, size = first_s or time.monotonic() - began, size + len(piece)
            assert size > 44, size
        return first_s

    headers = {"Authorization": f"Bearer {key}"}
    limits = httpx2.Limits(max_connections=sentences)
    with (
        httpx2.Client(base_url=base, timeout=600, verify=PLAIN, limits=limits) as http,
        ThreadPoolExecutor(sentences) as pool,
    ):
        return list(pool.map(speak, range(sentences)))
