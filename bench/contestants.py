"""Who runs in the race: Tenuto, and the programs of bench/peers, each with a database or broker of its own.

All take the same requests from the same client. Every store syncs what it has accepted.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from bench import ROOT
from bench.client import Connection, get
from bench.stage import Stage, stage
from servers.ports import free_port
from servers.postgres import PostgresServer, start_postgres

ENVIRONMENT = ROOT / "build" / "race"
PYTHON = ENVIRONMENT / "bin" / "python"
PEERS = ROOT / "bench" / "peers"
SLOTS = 8
READY_S = 120.0
HOST = "127.0.0.1"

SUCCEEDED = {"succeeded", "SUCCESS"}


@dataclass(frozen=True, slots=True)
class Runs:
    """How often each job was begun and ran to its end; `last_at`: the latest moment, in wall seconds."""

    begun: Counter[str]
    ended: Counter[str]
    last_at: float


class Contestant(Protocol):
    """A running service."""

    name: str
    store: str
    port: int
    key: str

    def service(self) -> list[psutil.Process]:
        """The processes of the service that nobody of it started."""

    def stores(self) -> list[psutil.Process]:
        """The same of its database or broker."""

    def is_waiting(self, state: str) -> bool:
        """Whether no worker has begun a job of this state."""

    def runs(self) -> Runs: ...

    def kill(self) -> None:
        """SIGKILL for all processes of the service, not of its store."""

    def restart(self) -> None: ...


@dataclass(slots=True)
class Tenuto:
    """`tenuto serve` with the fake engine; `server`: its PostgreSQL, or None for SQLite."""

    name: str
    store: str
    stage: Stage
    server: PostgresServer | None

    @property
    def port(self) -> int:
        return self.stage.port

    @property
    def key(self) -> str:
        return self.stage.keys[0]

    def service(self) -> list[psutil.Process]:
        return [self.stage.api()]

    def stores(self) -> list[psutil.Process]:
        return [] if self.server is None else [psutil.Process(self.server.pid)]

    def is_waiting(self, state: str) -> bool:
        return state == "queued"

    def runs(self) -> Runs:
        rows = self.stage.query(
            "select job_id, count(*) as begun, count(blob_id) as ended, max(ended_at) as last_at"
            " from attempt group by job_id"
        )
        return Runs(
            Counter({row["job_id"]: row["begun"] for row in rows}),
            Counter({row["job_id"]: row["ended"] for row in rows}),
            max(row["last_at"] or 0 for row in rows) / 1000,
        )

    def kill(self) -> None:
        _kill(self.service())
        assert self.stage.service.process is not None
        self.stage.service.process.wait()

    def restart(self) -> None:
        self.stage.service.start()


@dataclass(slots=True)
class Program:
    """One of bench/peers: uvicorn with its routes, and its worker."""

    name: str
    store: str
    module: str
    worker: tuple[str, ...]
    waiting: str
    url: str
    store_pid: int
    folder: Path
    port: int
    variables: dict[str, str]
    key: str = "none"
    processes: tuple[subprocess.Popen[bytes], ...] = ()

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    def service(self) -> list[psutil.Process]:
        return [psutil.Process(process.pid) for process in self.processes]

    def stores(self) -> list[psutil.Process]:
        return [psutil.Process(self.store_pid)]

    def is_waiting(self, state: str) -> bool:
        return state == self.waiting

    def runs(self) -> Runs:
        lines = [line.split() for line in self.journal.read_text().splitlines()]
        begun, ended = (
            Counter(job for event, job, _ in lines if event == which) for which in ("begin", "end")
        )
        return Runs(begun, ended, max(float(at) for _, _, at in lines))

    def kill(self) -> None:
        _kill(self.service())
        for process in self.processes:
            process.wait()

    def restart(self) -> None:
        api = ("uvicorn", f"{self.module}:api", "--host", HOST, "--port", str(self.port), "--no-access-log")
        self.processes = (self._start(*self.worker),)
        self.processes += (self._start("-m", *api, "--log-level", "warning"),)
        until = time.monotonic() + READY_S
        while not self._answers():
            assert time.monotonic() < until, self.log() or "it does not answer"
            assert all(process.poll() is None for process in self.processes), self.log()
            time.sleep(0.05)

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def run(self, *command: str) -> None:
        """One command to its end, before the first start."""
        subprocess.run(
            [PYTHON, *command],
            cwd=PEERS,
            env=self._environment(),
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [PYTHON, *command],
                cwd=PEERS,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _environment(self) -> dict[str, str]:
        own = {"RACE_STORE": self.url, "RACE_JOURNAL": str(self.journal)}
        return dict(os.environ) | own | self.variables

    def _answers(self) -> bool:
        try:
            connection = Connection(self.port)
        except ConnectionRefusedError:
            return False
        try:
            return connection.ask(get("/openapi.json", self.key)).status == 200
        finally:
            connection.close()


@contextmanager
def tenuto(name: str, is_sqlite: bool) -> Iterator[Tenuto]:
    """Tenuto on a database of its own, eight slots of speech; a price is on every job."""
    if is_sqlite:
        with stage(None, TENUTO_SPEECH_SLOTS=str(SLOTS)) as running:
            yield Tenuto(name, "SQLite, synchronous=full", running, None)
        return
    with _postgres() as server, stage(server, TENUTO_SPEECH_SLOTS=str(SLOTS)) as running:
        yield Tenuto(name, "PostgreSQL, fsync on", running, server)


@contextmanager
def procrastinate(name: str) -> Iterator[Program]:
    """FastAPI + Procrastinate."""
    worker = ("-m", "procrastinate", "--app", "with_procrastinate.app", "worker")
    with _postgres() as server:
        peer = _program(name, "with_procrastinate", (*worker, "--concurrency", str(SLOTS)), "todo", server)
        peer.run("-m", "procrastinate", "--app", "with_procrastinate.app", "schema", "--apply")
        with _running(peer):
            yield peer


@contextmanager
def dbos(name: str) -> Iterator[Program]:
    """FastAPI + DBOS."""
    with _postgres() as server:
        peer = _program(name, "with_dbos", ("with_dbos.py",), "ENQUEUED", server)
        peer.run(str(ENVIRONMENT / "bin" / "dbos"), "migrate", "--sys-db-url", peer.url)
        with _running(peer):
            yield peer


@contextmanager
def celery(name: str, visibility_s: int = 3600) -> Iterator[Program]:
    """FastAPI + Celery; one worker process of eight threads, as the others have."""
    folder = Path(tempfile.mkdtemp(prefix="race-"))
    port = free_port()
    command = ("--port", str(port), "--bind", HOST, "--dir", str(folder), "--save", "")
    with (folder / "redis-log").open("ab") as log:
        redis = subprocess.Popen(
            [
                ENVIRONMENT / "bin" / "redis-server",
                *command,
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ],
            stdout=log,
            stderr=log,
        )
    worker = ("-m", "celery", "-A", "with_celery", "worker", "--loglevel", "WARNING", "--pool", "threads")
    try:
        _await_port(port)
        peer = Program(
            name,
            "Redis, appendfsync always",
            "with_celery",
            (*worker, "--concurrency", str(SLOTS)),
            "PENDING",
            f"redis://{HOST}:{port}/0",
            redis.pid,
            folder,
            free_port(),
            {"RACE_VISIBILITY_S": str(visibility_s)},
        )
        with _running(peer):
            yield peer
    finally:
        redis.terminate()
        redis.wait()
        shutil.rmtree(folder, ignore_errors=True)


def family(roots: list[psutil.Process]) -> list[psutil.Process]:
    """These and all that they started."""
    return [process for root in roots for process in (root, *root.children(recursive=True))]


def spent_s(roots: list[psutil.Process]) -> float:
    """Processor time of a family so far, of those of it that have ended, too."""
    total = 0.0
    for process in family(roots):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def memory_bytes(roots: list[psutil.Process]) -> int:
    """Proportional set size of a family: what several processes share counts once."""
    total = 0
    for process in family(roots):
        with suppress(psutil.NoSuchProcess):
            total += process.memory_full_info().pss
    return total


def _program(
    name: str, module: str, worker: tuple[str, ...], waiting: str, server: PostgresServer
) -> Program:
    folder = Path(tempfile.mkdtemp(prefix="race-"))
    server.run("create database race")
    url = server.url("race")
    return Program(
        name, "PostgreSQL, fsync on", module, worker, waiting, url, server.pid, folder, free_port(), {}
    )


@contextmanager
def _running(peer: Program) -> Iterator[Program]:
    try:
        peer.restart()
        yield peer
    finally:
        _kill([psutil.Process(process.pid) for process in peer.processes if process.poll() is None])
        for process in peer.processes:
            process.wait()
        shutil.rmtree(peer.folder, ignore_errors=True)


@contextmanager
def _postgres() -> Iterator[PostgresServer]:
    server = start_postgres(is_durable=True)
    try:
        yield server
    finally:
        server.stop()


def _await_port(port: int) -> None:
    until = time.monotonic() + READY_S
    while True:
        try:
            Connection(port).close()
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.02)
        else:
            return


def _kill(roots: list[psutil.Process]) -> None:
    """All of the family at once: who is stopped first can start nobody."""
    processes = family(roots)
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(how)
    psutil.wait_procs(processes, timeout=10)
