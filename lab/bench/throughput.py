"""Waiting sentences by one process of the speech engine one by one, beside two ways to speak two at once.

One process can speak two at once with the same threads (its option `concurrency`), and so can two processes
with half of them each, which are what a second worker gives. No process can take several sentences in one run
of the model: the first axis of the file's inputs is fixed at 1.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from lab.bench.libraries import SHORT, THREADS, Figures, Program, loaded, own_speech
from lab.bench.report import Row

from servers.postgres import PostgresServer

SENTENCES = 8
AT_ONCE = 2
PAIRS = 3
TEXT = "Sentence {} of round {} is spoken beside the others, and nobody waits for long."
WORTH = 1.3
"""How much faster two at once must be, to be worth their memory."""


class Round(NamedTuple):
    """What all sentences took."""

    wall_s: float
    cpu_s: float
    latency_s: float
    """From the first submission to the end of a sentence, at the median."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """No database is asked, so they are measured once."""
    return [] if postgres is not None else _rows()


def _rows() -> list[Row]:
    whole = own_speech()
    half = replace(whole, options=whole.options | {"threads": max(1, THREADS // AT_ONCE)})
    with ExitStack() as stack:
        one, shared, *halves = (
            stack.enter_context(loaded(each, Figures())) for each in (whole, whole, *[half] * AT_ONCE)
        )
        ways: dict[str, list[Program]] = {"": [one], "one process": [shared], "two processes": halves}
        for program in (one, shared, *halves):
            program.ask({"text": SHORT})
        rounds: dict[str, list[Round]] = {way: [] for way in ways}
        for number in range(PAIRS):
            for way, programs in ways.items():
                rounds[way].append(_round(programs, number, AT_ONCE if programs == [shared] else 1))
        peaks = {way: sum(program.peak_mib() for program in programs) for way, programs in ways.items()}
    return [_row(way, rounds[""], rounds[way], peaks[""], peaks[way]) for way in ways if way]


def _row(name: str, singles: list[Round], doubles: list[Round], peak: float, peak_2: float) -> Row:
    gain = statistics.median(
        single.wall_s / double.wall_s for single, double in zip(singles, doubles, strict=True)
    )
    (_, cpu, latency), (_, cpu_2, latency_2) = (
        [statistics.median(each[part] for each in rounds) for part in range(3)]
        for rounds in (singles, doubles)
    )
    return Row(
        f"{SENTENCES} waiting sentences, {name}, two at once, beside one by one",
        f"{gain:.2f} × as fast",
        reason=f"{THREADS} threads in all; median of {PAIRS} pairs in turns; processor time {cpu_2:.1f} s "
        f"beside {cpu:.1f} s; until the median sentence {latency_2:.1f} s beside {latency:.1f} s; "
        f"{peak_2:.0f} beside {peak:.0f} MiB at most; worth it from {WORTH} on",
    )


def _round(programs: list[Program], number: int, at_once: int) -> Round:
    """All sentences, each by the first process that is free; one process may take some at once."""
    texts = [TEXT.format(at, number) for at in range(SENTENCES)]
    waiting = iter(texts)
    began, before = time.perf_counter(), sum(program.cpu_s() for program in programs)
    ends: list[float] = []

    def work(program: Program) -> None:
        if at_once > 1:
            ends.extend(program.ask({"texts": texts, "at_once": at_once})["ends"])
            return
        # A list's iterator gives each of its items once, to whichever thread asks.
        for text in waiting:
            program.ask({"text": text})
            ends.append(time.perf_counter() - began)

    with ThreadPoolExecutor(len(programs)) as pool:
        list(pool.map(work, programs))
    spent_s = sum(program.cpu_s() for program in programs) - before
    return Round(max(ends), spent_s, statistics.median(ends))
