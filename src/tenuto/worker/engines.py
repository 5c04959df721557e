"""The engine hosts of a worker: one process per engine, started when it is first needed.

A model that is composed of others has no host: it uses theirs, and they may be used by their own jobs, too.
"""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from tenuto.catalog import operations as catalog
from tenuto.catalog.keys import read_key
from tenuto.catalog.rules import MAX_START_FAILURES, Model
from tenuto.config import ModelSettings, Settings
from tenuto.engines.registry import EngineEntry, engines_of, weights_of
from tenuto.errors import Unavailable
from tenuto.hosts.child import ChildHost
from tenuto.hosts.host import EngineSpec, Host, HostNotReady
from tenuto.weights.cache import is_verified, location
from tenuto.worker.heartbeat import Watched
from tenuto.worker.line import Line
from tenuto.worker.parts import Bell, Parts

MAX_THREADS = 2

UPSTREAM_KEY = "UPSTREAM_KEY"
"""The variable in which an engine that calls a server finds the server's secret."""

TAKING_TURNS = 8
"""Recognition jobs of one model that a worker has under way: they use the engine in turn, part by part."""

_log = structlog.get_logger("tenuto.worker")


def missing_weights(model: Model, cache: Path) -> list[str]:
    """The weights that the model needs and that are not there, verified."""
    return [name for name in weights_of(model.entry) if not is_verified(cache, name)]


def missing_here(model: Model, settings: Settings) -> list[str]:
    """Interpreters, files and folders that the model's engines need and this machine has not."""
    lacking = []
    for entry in engines_of(model.entry):
        if settings.models.get(entry.model, ModelSettings()).ray is not None:
            # They are on the pool's nodes, which say so when the engine is loaded there.
            continue
        interpreter = _interpreter(entry, settings)
        lacking += [] if shutil.which(interpreter) else [interpreter]
        lacking += [path for path in entry.paths if not Path(path).expanduser().exists()]
    return lacking


def spec_of(entry: EngineEntry, settings: Settings) -> EngineSpec:
    """How an engine's host is started. OperatorError: the key of its upstream is not where it should be."""
    own = settings.models.get(entry.model, ModelSettings())
    key = None
    if own.upstream is not None:
        key = read_key(own.upstream, os.environ, entry.model)
    options = {
        **entry.options,
        "weights": {name: str(location(settings.cache, name)) for name in entry.weights},
        "model_revision": entry.revision,
        "threads": own.threads or MAX_THREADS,
    }
    return EngineSpec(
        engine=entry.engine,
        interpreter=_interpreter(entry, settings),
        options=options,
        installed=entry.installed,
        env={} if key is None else {UPSTREAM_KEY: key},
        # A pool may first have to find the engine a place.
        load_timeout_s=entry.load_timeout_s + (own.ray.wait_s if own.ray is not None else 0),
        ray=own.ray,
    )


def _interpreter(entry: EngineEntry, settings: Settings) -> str:
    return settings.models.get(entry.model, ModelSettings()).interpreter or sys.executable


class Engines:
    """Hosts by engine. `make_host` is the seam where another kind of host goes in."""

    def __init__(
        self,
        parts: Parts,
        models: list[str],
        bell: Bell,
        make_host: Callable[[EngineSpec], Host] = ChildHost,
    ) -> None:
        self._parts = parts
        self._bell = bell
        self._lock = threading.Lock()
        entries = {entry.model: entry for name in models for entry in engines_of(parts.models[name].entry)}
        self._hosts: dict[str, Host] = {
            name: make_host(spec_of(entry, parts.settings)) for name, entry in entries.items()
        }
        self._uses = {name: [name] for name in entries} | {
            name: [entry.model for entry in engines_of(parts.models[name].entry)] for name in models
        }
        self._lines = {name: Line() for name in entries}
        self._offers = frozenset(models)
        self._failures = dict.fromkeys(self._uses, 0)
        self._running = dict.fromkeys(models, 0)
        self.claiming = threading.Lock()
        """Held from `offered` to `begin`, so that two slots do not claim for one free place."""

    def offered(self) -> frozenset[str]:
        """The models whose jobs this worker claims now: their engines start, and have a place free."""
        with self._lock:
            return frozenset(
                name
                for name, failures in self._failures.items()
                if name in self._offers and failures < MAX_START_FAILURES and not self._is_full(name)
            )

    def begin(self, model: str) -> None:
        """An attempt of this model takes a place."""
        with self._lock:
            self._running[model] += 1

    def end(self, model: str) -> None:
        """The engine is done with it; who waited for a place is woken."""
        with self._lock:
            was_full = self._is_full(model)
            self._running[model] -= 1
        if was_full:
            self._bell.ring()

    def broken(self) -> list[str]:
        """The models whose engines failed to start too often; upkeep tries them again now and then."""
        with self._lock:
            return [name for name, failures in self._failures.items() if failures >= MAX_START_FAILURES]

    def ready(self, model: str) -> Host:
        """The model's host, loaded; of a composed model all are loaded and the first is given.

        Raises HostNotReady, counted and told to the catalog.
        """
        hosts = [self._hosts[engine] for engine in self._uses[model]]
        if all(host.alive for host in hosts):
            return hosts[0]
        try:
            for engine, host in zip(self._uses[model], hosts, strict=True):
                if not host.alive:
                    host.load()
                    _log.info("engine.loaded", model=engine, pid=host.pid)
        except HostNotReady as error:
            self._note(model, error.message)
            raise
        self._note(model, None)
        return hosts[0]

    def host(self, model: str) -> Host:
        """The model's host as it is, for tests and for upkeep."""
        return self._hosts[self._uses[model][0]]

    @contextmanager
    def turn(self, engine: str, watched: Watched) -> Iterator[None]:
        """Wait until everybody who came earlier has used the engine; raises Cancelled when told to stop."""
        with self._lines[engine].turn(watched.stop, watched.live):
            yield

    def close(self) -> None:
        """End all hosts."""
        for host in self._hosts.values():
            host.close()

    def _is_full(self, model: str) -> bool:
        entry = self._parts.models[model].entry
        places = TAKING_TURNS if entry.kind == "recognition" else entry.concurrency
        return self._running[model] >= places

    def _note(self, model: str, reason: str | None) -> None:
        with self._lock:
            before = self._failures[model]
            failures = self._failures[model] = 0 if reason is None else before + 1
        if failures == before:
            return
        if reason is not None:
            _log.error("engine.not_started", model=model, failures=failures)
        worker_id = self._parts.worker_id
        try:
            if reason is None:
                self._parts.database.write(lambda tx: catalog.engine_started(tx, worker_id, model))
            else:
                self._parts.database.write(
                    lambda tx: catalog.engine_not_started(
                        tx, worker_id, model, failures=failures, reason=reason
                    )
                )
        except Unavailable:
            _log.warning("engine.state_not_told", model=model)
