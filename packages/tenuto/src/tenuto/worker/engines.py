"""The engine hosts of a worker: one process per engine, started when it is first needed.

A model composed of others has no host: it uses theirs, which may also be used by jobs of their own.
If memory is limited, idle engines are evicted for one that is needed.
"""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from tenuto.config import ModelSettings, Settings
from tenuto.errors import Unavailable, is_of_the_machine
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, Cancelled, EngineSpec, HostDraining, HostNotReady
from tenuto.host.registry import EngineEntry, engines_of
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds
from tenuto.kind.model import MAX_START_FAILURES, Model
from tenuto.kind.upstream_keys import read_key
from tenuto.logs import get_logger
from tenuto.worker.context import WorkCondition, WorkerContext
from tenuto.worker.fair_lock import FairLock
from tenuto.worker.heartbeat import Watched

MIB = 1 << 20
MAX_THREADS = 2

UPSTREAM_KEY = "UPSTREAM_KEY"
"""The environment variable that gives an engine the key of the server it calls."""

SPARE_PROCESSES = 3
"""How many processes of an engine that holds no model may finish their last runs beside a fresh one."""

_log = get_logger("tenuto.worker")


class EngineMemory:
    """Memory by engine: the peak that its manifest states, or more if more was measured."""

    def __init__(self, limit_mib: int, expected_mib: Mapping[str, int]) -> None:
        # 0: no limit.
        self.limit_mib = limit_mib
        self._expected = dict(expected_mib)
        self._measured: dict[str, int] = {}

    def measure(self, engine: str, resident_bytes: int | None) -> None:
        """Note what the engine takes now; that counts until it is measured again, loaded or not."""
        if resident_bytes is not None:
            self._measured[engine] = resident_bytes // MIB

    def takes_mib(self, engine: str) -> int:
        """What to count for the engine: one that is idle now will take its peak again."""
        return max(self._expected[engine], self._measured.get(engine, 0))

    def measured_mib(self, engine: str) -> int:
        """What it took when last measured."""
        return self._measured.get(engine, 0)

    def fits(self, engines: Iterable[str]) -> bool:
        """Whether these may be loaded together."""
        return self.limit_mib == 0 or sum(map(self.takes_mib, engines)) <= self.limit_mib


def missing_here(model: Model, settings: Settings) -> list[str]:
    """Interpreters, files and folders that the model's engines need and this machine lacks."""
    lacking = []
    for entry in engines_of(model.entry):
        if settings.models.get(entry.model, ModelSettings()).ray is not None:
            # They are on the pool's nodes, which report what is missing when the engine is loaded there.
            continue
        interpreter = _interpreter(entry, settings)
        lacking += [] if shutil.which(interpreter) else [interpreter]
        lacking += [path for path in entry.paths if not Path(path).expanduser().exists()]
    return lacking


def spec_of(entry: EngineEntry, settings: Settings) -> EngineSpec:
    """How an engine's host is started. OperatorError: the key of its upstream cannot be read."""
    own = settings.models.get(entry.model, ModelSettings())
    key = None
    if own.upstream is not None:
        key = read_key(own.upstream, os.environ, entry.model)
    options = {
        **entry.options,
        "weights": {name: str(settings.cache / name) for name in entry.weights},
        "model_revision": entry.revision,
        "threads": own.threads or MAX_THREADS,
    }
    return EngineSpec(
        engine=entry.engine,
        interpreter=_interpreter(entry, settings),
        options=options,
        installed=entry.installed,
        folder=entry.folder,
        network=entry.network or own.network,
        env={} if key is None else {UPSTREAM_KEY: key},
        # A pool may first have to find the engine a place.
        load_timeout_s=entry.load_timeout_s + (own.ray.wait_s if own.ray is not None else 0),
        ray=own.ray,
        spare_processes=SPARE_PROCESSES if own.upstream is not None or entry.fake else 0,
    )


def expected_mib(entry: EngineEntry, settings: Settings) -> int:
    """The memory an engine takes of this machine by its manifest: none if it runs in a pool."""
    in_pool = settings.models.get(entry.model, ModelSettings()).ray is not None
    return 0 if in_pool else entry.memory_mib


def _interpreter(entry: EngineEntry, settings: Settings) -> str:
    return settings.models.get(entry.model, ModelSettings()).interpreter or sys.executable


class Engines:
    """The hosts of this worker, by engine."""

    def __init__(
        self,
        context: WorkerContext,
        models: list[str],
        work: WorkCondition,
        make_host: Callable[[EngineSpec], ChildHost] = ChildHost,
    ) -> None:
        self._context = context
        self._work = work
        self._lock = threading.Lock()
        entries = {entry.model: entry for name in models for entry in engines_of(context.models[name].entry)}
        self._make_host = make_host
        self._specs = {name: spec_of(entry, context.settings) for name, entry in entries.items()}
        self._hosts: dict[str, ChildHost] = {name: make_host(spec) for name, spec in self._specs.items()}
        self._memory = EngineMemory(
            context.settings.engine_memory_mib,
            {name: expected_mib(entry, context.settings) for name, entry in entries.items()},
        )
        self._too_large: set[str] = set()
        # When each engine was last needed: the least recently used is evicted first.
        self._needed_at = dict.fromkeys(entries, 0.0)
        self._uses = {name: [name] for name in entries} | {
            name: [entry.model for entry in engines_of(context.models[name].entry)] for name in models
        }
        self._lines = {name: FairLock() for name in entries}
        self._sharing = {name: FairLock() for name in entries}
        self._offers = frozenset(models)
        self._failures = dict.fromkeys(self._uses, 0)
        self._running = dict.fromkeys(models, 0)
        self._loads: dict[str, Future[ChildHost]] = {}
        self._closed = False
        self.claiming = threading.Lock()
        """Held from `offered` to `begin`, so that two slots do not claim for one free place."""

    def offered(self) -> frozenset[str]:
        """The models whose jobs this worker claims now: their engines start, with a place and memory free."""
        with self._lock:
            busy = self._busy()
            return frozenset(
                name
                for name, failures in self._failures.items()
                if name in self._offers
                and failures < MAX_START_FAILURES
                and not self._is_full(name)
                and not any(self._hosts[engine].is_draining for engine in self._uses[name])
                and self._memory.fits(busy.union(self._uses[name]))
            )

    def begin(self, model: str) -> None:
        """An attempt of this model takes a place."""
        with self._lock:
            self._running[model] += 1
            self._needed_at.update(dict.fromkeys(self._uses[model], time.monotonic()))

    def end(self, model: str) -> None:
        """An attempt of this model frees its place; slots that wait for one are woken."""
        with self._lock:
            was_full = self._is_full(model) or self._memory.limit_mib
            self._running[model] -= 1
        if was_full:
            self._work.announce()

    def broken(self) -> list[str]:
        """The models whose engines failed to start too often; upkeep tries them again now and then."""
        with self._lock:
            return [name for name, failures in self._failures.items() if failures >= MAX_START_FAILURES]

    def ready(self, model: str, stop: Cancellation | None = None) -> ChildHost:
        """The model's host, loaded; for a composed model, all are loaded and the first is returned.

        Raises HostNotReady, counted and reported to the catalog unless the cause is memory, other runs or
        something that the machine lacks at the moment. Cancelled: `stop` was set during the load, which
        continues for other waiters and later calls.
        """
        if stop is None:
            return self._loading(model).result()
        hosts = [self._hosts[engine] for engine in self._uses[model]]
        if all(host.alive for host in hosts):
            return hosts[0]
        load, woken = self._loading(model), threading.Event()
        load.add_done_callback(lambda _: woken.set())
        with stop.calling(woken.set):
            if not stop.is_set():
                woken.wait()
        if not load.done():
            raise Cancelled(lost=False)
        return load.result()

    def _loading(self, model: str) -> Future[ChildHost]:
        """The model's load, in a thread of its own; one for all that wait for it."""
        with self._lock:
            load = self._loads.get(model)
            if load is None:
                load = Future()
                threading.Thread(
                    target=self._load_for, args=(model, load), name=f"load-{model}", daemon=True
                ).start()
                self._loads[model] = load
            return load

    def _load_for(self, model: str, load: Future[ChildHost]) -> None:
        """What the thread does. The load is removed before its outcome is published."""
        host, failure = None, None
        try:
            host = self._load(model)
        except Exception as error:
            failure = error
        with self._lock:
            del self._loads[model]
        if host is not None:
            load.set_result(host)
        else:
            load.set_exception(failure)

    def _load(self, model: str) -> ChildHost:
        self._evict_for(self._uses[model])
        hosts = [self._hosts[engine] for engine in self._uses[model]]
        try:
            for engine, host in zip(self._uses[model], hosts, strict=True):
                if not host.alive:
                    info = host.load()
                    resident = host.resident_bytes()
                    with self._lock:
                        self._memory.measure(engine, resident)
                    told = {"runtime": info.get("runtime"), "network": info.get("network")}
                    _log.info("engine.loaded", model=engine, pid=host.pid, resident_bytes=resident, **told)
        except HostDraining:
            raise
        except HostNotReady as error:
            if not is_of_the_machine(error) and not self._closed:
                self._note(model, error.message)
            raise
        self._note(model, None)
        return hosts[0]

    def warm(self, model: str) -> None:
        """Load it before it is needed, if that takes no other engine's memory. Raises as `ready` does."""
        with self._lock:
            loaded = {engine for engine, host in self._hosts.items() if host.alive} | self._busy()
            fits = self._memory.fits(loaded.union(self._uses[model]))
        if fits:
            self.ready(model)

    def measure(self) -> dict[str, int]:
        """Measure the loaded engines and unload idle ones beyond the limit; returns the MiB of the rest."""
        for engine, host in list(self._hosts.items()):
            resident = host.resident_bytes() if host.alive else None
            with self._lock:
                self._memory.measure(engine, resident)
        with contextlib.suppress(HostNotReady):
            self._evict_for([])
        self._report_too_large()
        with self._lock:
            loaded = [engine for engine, host in self._hosts.items() if host.alive]
            return {engine: self._memory.measured_mib(engine) for engine in loaded}

    def host(self, model: str) -> ChildHost:
        """The model's host as it is, loaded or not; for tests."""
        return self._hosts[self._uses[model][0]]

    @contextmanager
    def turn(self, engine: str, watched: Watched, account_id: str) -> Iterator[None]:
        """Wait for the engine, accounts in turn; raises Cancelled when `watched` is stopped."""
        with self._lines[engine].turn(watched.stop, account_id=account_id):
            yield

    @contextmanager
    def sharing(self, model: str, watched: Watched, *, is_alone: bool) -> Iterator[None]:
        """Use the engine together with other runs, or alone; waits in line. Raises Cancelled."""
        line = self._sharing[self._uses[model][0]]
        with line.turn(watched.stop, is_shared=not is_alone):
            yield

    def close(self) -> None:
        """End all hosts."""
        self._closed = True
        for host in self._hosts.values():
            host.close()

    def _report_too_large(self) -> None:
        """Report to the catalog which models are not offered because their engines take more than the limit,
        and which are again: a busy engine stays loaded and may take less later.
        """
        limit_mib = self._memory.limit_mib
        for model in self._offers:
            fits = self._memory.fits(self._uses[model])
            if fits and model in self._too_large:
                self._too_large.remove(model)
                self._report(model, 0, None)
            elif not fits and model not in self._too_large:
                taken_mib = sum(map(self._memory.takes_mib, self._uses[model]))
                self._too_large.add(model)
                _log.warning("engine.too_large", model=model, taken_mib=taken_mib, limit_mib=limit_mib)
                reason = f"it took {taken_mib} MiB, and engine_memory_mib is {limit_mib}"
                self._report(model, MAX_START_FAILURES, reason)

    def _evict_for(self, wanted: Sequence[str]) -> None:
        """Unload idle engines until the wanted ones fit beside the rest. HostNotReady: the rest is in use."""
        leaving = []
        with self._lock:
            staying = {engine for engine, host in self._hosts.items() if host.alive} | self._busy()
            staying.update(wanted)
            idle = sorted(staying - self._busy() - set(wanted), key=self._needed_at.__getitem__, reverse=True)
            while idle and not self._memory.fits(staying):
                engine = idle.pop()
                staying.remove(engine)
                leaving.append((engine, self._hosts[engine]))
                self._hosts[engine] = self._make_host(self._specs[engine])
            fits = self._memory.fits(staying)
        for engine, host in leaving:
            host.close()
            _log.info("engine.unloaded", model=engine, limit_mib=self._memory.limit_mib)
        if not fits:
            raise HostNotReady(f"no room for it in engine_memory_mib = {self._memory.limit_mib}")

    def _busy(self) -> set[str]:
        """The engines of running attempts, and those being loaded, whether or not an attempt still waits."""
        models = {model for model, count in self._running.items() if count}.union(self._loads)
        return {engine for model in models for engine in self._uses[model]}

    def _is_full(self, model: str) -> bool:
        entry = self._context.models[model].entry
        places = kinds()[entry.kind].jobs_at_once or entry.concurrency
        return self._running[model] >= places

    def _note(self, model: str, reason: str | None) -> None:
        with self._lock:
            before = self._failures[model]
            failures = self._failures[model] = 0 if reason is None else before + 1
        if failures == before:
            return
        if reason is not None:
            _log.error("engine.not_started", model=model, failures=failures)
        self._report(model, failures, reason)

    def _report(self, model: str, failures: int, reason: str | None) -> None:
        worker_id = self._context.worker_id
        try:
            if reason is None:
                self._context.database.write(lambda tx: catalog.engine_started(tx, worker_id, model))
            else:
                self._context.database.write(
                    lambda tx: catalog.engine_not_started(
                        tx, worker_id, model, failures=failures, reason=reason
                    )
                )
        except Unavailable as error:
            _log.warning("engine.state_not_told", model=model, reason=error.message)
