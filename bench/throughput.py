"""Waiting sentences by one process of the speech engine with all threads, beside two with half of them each.

Two processes are what a second worker gives (`speech_slots = 2`). One process cannot take several sentences
in one run of the model: the first axis of the file's inputs is fixed at 1.
"""

import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from bench.libraries import RUNTIMES, SHORT, THREADS, Figures, Program, loaded, own_speech
from bench.report import Row
from servers.postgres import PostgresServer

SENTENCES = 8
PAIRS = 3
TEXT = "Sentence {} of round {} is spoken beside the others, and nobody waits for long."
WORTH = 1.3
"""How much faster two processes must be to be worth the memory of the second one."""


class Round(NamedTuple):
    """What all sentences took."""

    wall_s: float
    cpu_s: float
    latency_s: float
    """From the first submission to the end of a sentence, at the median."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """No database is asked, so they are measured once."""
    return [] if postgres is not None else [_row(name) for name in RUNTIMES]


def _row(name: str) -> Row:
    whole = own_speech(name)
    half = replace(whole, options=whole.options | {"threads": max(1, THREADS // 2)})
    with ExitStack() as stack:
        one, two = (
            [stack.enter_context(loaded(each, Figures())) for each in contestants]
            for contestants in ([whole], [half, half])
        )
        for program in [*one, *two]:
            program.ask({"text": SHORT})
        pairs = [(_round(one, number), _round(two, number)) for number in range(PAIRS)]
        peaks = [sum(program.peak_mib() for program in programs) for programs in (one, two)]
    gain = statistics.median(single.wall_s / double.wall_s for single, double in pairs)
    (_, cpu, latency), (_, cpu_2, latency_2) = (
        [statistics.median(each[side][part] for each in pairs) for part in range(3)] for side in (0, 1)
    )
    return Row(
        f"{SENTENCES} waiting sentences, {name}: two processes with a thread each, beside one with two",
        f"{gain:.2f} × as fast",
        reason=f"median of {PAIRS} pairs in turns; processor time {cpu_2:.1f} s beside {cpu:.1f} s; until "
        f"the median sentence {latency_2:.1f} s beside {latency:.1f} s; {peaks[1]:.0f} beside "
        f"{peaks[0]:.0f} MiB at most; worth it from {WORTH} on",
    )


def _round(programs: list[Program], number: int) -> Round:
    """All sentences, each by the first process that is free."""
    waiting = iter([TEXT.format(at, number) for at in range(SENTENCES)])
    began, before = time.perf_counter(), sum(program.cpu_s() for program in programs)
    ends: list[float] = []

    def work(program: Program) -> None:
        # A list's iterator gives each of its items once, to whichever thread asks.
        for text in waiting:
            program.ask({"text": text})
            ends.append(time.perf_counter() - began)

    with ThreadPoolExecutor(len(programs)) as pool:
        list(pool.map(work, programs))
    spent_s = sum(program.cpu_s() for program in programs) - before
    return Round(max(ends), spent_s, statistics.median(ends))
