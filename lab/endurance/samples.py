"""Samples of the processes of a service and of its database, every few seconds, as medians of minutes."""

import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

import psutil

EVERY_S = 5.0
BLOCK_S = 60.0
"""One value a minute: neighbouring samples say nearly the same, and a trend's confidence counts each."""
MIB = 1 << 20
MEMORY, DESCRIPTORS, THREADS = "memory, MiB", "descriptors", "threads"
CONNECTIONS, PRIVATE = "connections", "private memory of backends, MiB"
PROCESSOR = "processor time of an act, ms"
_SPENT, _ACTS = "spent, s", "acts"


class Sampler(threading.Thread):
    """Samples until it is stopped; a series is named by its process and what was measured.

    The processes are `serve`, its worker, the engine hosts, in the order of their starts, and, as one, the
    backends of PostgreSQL. Short-lived processes, such as decoders, are left out.
    """

    def __init__(self, serve: int, postgres: int | None, acts: Callable[[], int]) -> None:
        super().__init__(name="sampler", daemon=True)
        self._serve, self._acts = psutil.Process(serve), acts
        self._postgres = None if postgres is None else psutil.Process(postgres)
        self._names: dict[int, str] = {serve: "serve"}
        self._samples: list[tuple[float, Mapping[str, float]]] = []
        self._stopping = threading.Event()
        self.loads: list[float] = []
        """Load averages of the machine."""
        self.series: dict[str, list[float]] = {}
        """What was measured, once it is."""

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        while not self._stopping.wait(EVERY_S):
            self._samples.append((time.monotonic(), self._sample()))
            self.loads.append(psutil.getloadavg()[0])

    def measure(self, since: float) -> None:
        """Keep the medians of each whole minute since that moment of the monotonic clock, by series.

        A process that was not there in each of them has no series.
        """
        whole = int((time.monotonic() - since) / BLOCK_S)
        collected: defaultdict[str, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for at, sample in self._samples:
            block = int((at - since) // BLOCK_S)
            if 0 <= block < whole:
                for name, value in sample.items():
                    collected[name][block].append(value)
        spent, acts = collected.pop(_SPENT), collected.pop(_ACTS)
        series = {
            name: [round(statistics.median(values[block]), 2) for block in range(whole)]
            for name, values in sorted(collected.items())
            if len(values) == whole
        }
        self.series = series | {f"all: {PROCESSOR}": [_each_ms(spent[n], acts[n]) for n in range(whole)]}

    def processes(self) -> dict[str, int]:
        """The long-lived processes that are there now: pids by name."""
        return {self._label(each): each.pid for each in [self._serve, *self._lasting()]}

    def _lasting(self) -> list[psutil.Process]:
        found = []
        for process in self._serve.children(recursive=True):
            try:
                words = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if "tenuto.process" in words or "tenuto_engine" in words:
                found.append(process)
        return sorted(found, key=lambda each: each.pid)

    def _label(self, process: psutil.Process) -> str:
        if process.pid not in self._names:
            is_worker = "tenuto.process" in " ".join(process.cmdline())
            hosts = sum(name.startswith("host") for name in self._names.values())
            self._names[process.pid] = "worker" if is_worker else f"host {hosts + 1}"
        return self._names[process.pid]

    def _sample(self) -> Mapping[str, float]:
        values: dict[str, float] = {}
        spent_s = 0.0
        for process in [self._serve, *self._lasting()]:
            try:
                with process.oneshot():
                    name = self._label(process)
                    memory = process.memory_info()
                    # Without pages of files: those the kernel takes and gives as other programs need memory.
                    values[f"{name}: {MEMORY}"] = (memory.rss - memory.shared) / MIB
                    values[f"{name}: {DESCRIPTORS}"] = process.num_fds()
                    values[f"{name}: {THREADS}"] = process.num_threads()
                    times = process.cpu_times()
                    spent_s += times.user + times.system + times.children_user + times.children_system
            except psutil.Error:
                continue
        values[_SPENT], values[_ACTS] = spent_s, self._acts()
        if self._postgres is not None:
            values |= self._backends(self._postgres)
        return values

    def _backends(self, postgres: psutil.Process) -> Mapping[str, float]:
        private, number = 0, 0
        for each in postgres.children():
            try:
                # A backend is `postgres: USER DATABASE …`; the server's own processes have other names.
                if each.cmdline()[0].startswith("postgres: postgres "):
                    number += 1
                    private += each.memory_full_info().uss
            except (psutil.Error, IndexError):
                continue
        return {f"PostgreSQL: {CONNECTIONS}": number, f"PostgreSQL: {PRIVATE}": private / MIB}


def _each_ms(spent_s: list[float], acts: list[float]) -> float:
    """What an act took in a block: between its first and its last sample."""
    return round((spent_s[-1] - spent_s[0]) / max(1.0, acts[-1] - acts[0]) * 1000, 2)
