"""Accepting with one API process of `tenuto serve`, and with several on one socket, in turns.

Client, service and database share the machine: on two cores several cannot be quicker, and what is seen is
what they cost each other.
"""

import statistics
from contextlib import ExitStack

from lab.bench.client import flood, for_seconds
from lab.bench.report import Row
from lab.bench.stage import Stage, clients, stage

from servers.postgres import PostgresServer

PROCESSES = (1, 2, 4)
CLIENTS = 32
ROUNDS, ROUND_S = 7, 1.5


def measure(postgres: PostgresServer | None) -> list[Row]:
    """Jobs accepted each second, jobs/s, and processor time of the service for one, µs."""
    with ExitStack() as stages:
        running = {
            number: stages.enter_context(stage(postgres, TENUTO_API_PROCESSES=str(number)))
            for number in PROCESSES
        }
        for each in running.values():
            # The only slot is occupied, so that accepting is measured, not running.
            each.wait(each.submit("[fake:sleep=3600] Busy."), "running")
        rates: dict[int, list[float]] = {number: [] for number in PROCESSES}
        costs: dict[int, list[float]] = {number: [] for number in PROCESSES}
        for _ in range(ROUNDS):
            for number, each in running.items():
                began_s = _processor_s(each)
                tally = flood(each.port, clients(each.keys, CLIENTS), for_seconds(ROUND_S))
                assert not tally.other, tally.other
                rates[number].append(tally.new / tally.seconds)
                costs[number].append((_processor_s(each) - began_s) / tally.answers * 1e6)
        return [
            Row(
                f"{running[number].name}: accept, {CLIENTS} clients, API processes: {number}",
                f"{statistics.median(rates[number]):.0f} jobs/s",
                reason=f"no limit; beside one process {_beside(rates[number], rates[1])}; "
                f"{statistics.median(costs[number]):.0f} µs of the service's processor time each",
            )
            for number in PROCESSES
        ]


def _beside(rates: list[float], ones: list[float]) -> str:
    """The lowest, the median and the highest of what each round was beside the one before it."""
    ratios = sorted(rate / one for rate, one in zip(rates, ones, strict=True))
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f}"


def _processor_s(running: Stage) -> float:
    """Of all processes of the service, without its database's server."""
    times = [process.cpu_times() for process in running.processes()]
    return sum(each.user + each.system for each in times)
