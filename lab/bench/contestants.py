"""Who runs in the race: Tenuto, and the programs of lab/bench/peers, each with a store of its own.

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import httpx2
import psutil
from lab.bench import ROOT
from lab.bench.client import Connection
from lab.bench.stage import Stage, stage

from servers.ports import free_port
from servers.postgres import PostgresServer, start_postgres
from servers.service import PLAIN

BUILD = ROOT / "build"
"""Where `make race` installs each peer, in the environment of its name."""
PEERS = Path(__file__).parent / "peers"
SLOTS = 8
READY_S = 240.0
ANSWER_S = 10.0
HOST = "127.0.0.1"
REDIS = "Redis, appendfsync always"
REDIS_SERVER = BUILD / "race" / "bin" / "redis-server"

SUCCEEDED = {"succeeded", "SUCCESS", "completed"}


def python(environment: str) -> Path:
    """The interpreter of an environment under `build`, whether it is there or not."""
    return BUILD / environment / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where a service takes the requests of a race, and how it names what it answers."""

    submit: str = "/v1/jobs"
    show: str = "/v1/jobs/{}"
    id: str = "id"
    state: str = "state"
    accepted: int = 202

    def submission(self, request: bytes) -> bytes:
        """The same bytes, to the path of this service."""
        return request.replace(b"POST /v1/jobs ", f"POST {self.submit} ".encode(), 1)


DIALECT = Dialect()
TASKS = Dialect("/v1/jobs/submit", "/v1/jobs/status?task_id={}", "task_id", "status", 200)
"""BentoML's."""


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
    dialect: Dialect

    def service(self) -> list[psutil.Process]:
        """The processes of the service that nobody of it started."""

    def stores(self) -> list[psutil.Process]:
        """The same of its database or broker."""

    def is_waiting(self, job_id: str, state: str) -> bool:
        """Whether no worker has begun a job, of which a poll has just shown this state."""

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
    dialect: Dialect = DIALECT

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

    def is_waiting(self, job_id: str, state: str) -> bool:
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
    """One of lab/bench/peers. `commands`: of its processes, for the interpreter of `environment`."""

    name: str
    store: str
    environment: str
    commands: tuple[tuple[str, ...], ...]
    waiting: str
    """Its state of a job that no worker has begun; empty where it has none."""
    url: str
    store_pid: int | None
    folder: Path
    port: int
    variables: dict[str, str] = field(default_factory=dict)
    key: str = "none"
    dialect: Dialect = DIALECT
    ready: str = "/openapi.json"
    """A path that is answered with 200 when it serves."""
    processes: tuple[subprocess.Popen[bytes], ...] = ()

    @property
    def journal(self) -> Path:
        return self.folder / "journal"

    def service(self) -> list[psutil.Process]:
        return [psutil.Process(process.pid) for process in self.processes]

    def stores(self) -> list[psutil.Process]:
        return [] if self.store_pid is None else [psutil.Process(self.store_pid)]

    def is_waiting(self, job_id: str, state: str) -> bool:
        return state == self.waiting if self.waiting else not self.runs().begun[job_id]

    def runs(self) -> Runs:
        text = self.journal.read_text() if self.journal.exists() else ""
        lines = [line.split() for line in text.splitlines()]
        begun, ended = (
            Counter(job for event, job, _ in lines if event == which) for which in ("begin", "end")
        )
        return Runs(begun, ended, max((float(at) for _, _, at in lines), default=0.0))

    def kill(self) -> None:
        _kill(self.service())
        for process in self.processes:
            process.wait()

    def restart(self) -> None:
        self.processes = tuple(self._start(*command) for command in self.commands)
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
            [python(self.environment), *command],
            cwd=PEERS,
            env=self._environment(),
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [python(self.environment), *command],
                cwd=PEERS,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _environment(self) -> dict[str, str]:
        own = {
            "RACE_STORE": self.url,
            "RACE_JOURNAL": str(self.journal),
            "RACE_FOLDER": str(self.folder),
            "RACE_PORT": str(self.port),
            # Whatever this shell says: some would take a minute to compile what they import, at each start.
            "PYTHONDONTWRITEBYTECODE": "",
        }
        return dict(os.environ) | own | self.variables

    def _answers(self) -> bool:
        try:  # a whole client: what a server says before it is ready may have no length, or take its time
            url = f"http://{HOST}:{self.port}{self.ready}"
            return httpx2.get(url, timeout=ANSWER_S, verify=PLAIN).status_code == 200
        except httpx2.TransportError:
            return False


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
    app = ("-m", "procrastinate", "--app", "with_procrastinate.app")
    worker = (*app, "worker", "--concurrency", str(SLOTS))
    with _postgres() as server, _on_postgres(name, "with_procrastinate", worker, "todo", server) as peer:
        peer.run(*app, "schema", "--apply")
        with _running(peer):
            yield peer


@contextmanager
def dbos(name: str) -> Iterator[Program]:
    """FastAPI + DBOS."""
    worker = ("with_dbos.py",)
    with _postgres() as server, _on_postgres(name, "with_dbos", worker, "ENQUEUED", server) as peer:
        peer.run(str(BUILD / "race" / "bin" / "dbos"), "migrate", "--sys-db-url", peer.url)
        with _running(peer):
            yield peer


@contextmanager
def celery(name: str, visibility_s: int = 3600) -> Iterator[Program]:
    """FastAPI + Celery; one worker process of eight threads, as the others have."""
    app = ("-m", "celery", "-A", "with_celery", "worker", "--loglevel", "WARNING", "--pool", "threads")
    port = free_port()
    with _redis() as (url, store_pid), _folder() as folder:
        commands = ((*app, "--concurrency", str(SLOTS)), uvicorn("with_celery", port))
        peer = Program(name, REDIS, "race", commands, "PENDING", url, store_pid, folder, port)
        peer.variables["RACE_VISIBILITY_S"] = str(visibility_s)
        with _running(peer):
            yield peer


@contextmanager
def ray_serve(name: str, visibility_s: int = 3600) -> Iterator[Program]:
    """Ray Serve with its asynchronous inference: a cluster of one machine, one consumer of eight threads."""
    with _redis() as (url, store_pid), _folder() as folder:
        commands = (("with_ray.py",),)
        peer = Program(name, REDIS, "race-ray", commands, "PENDING", url, store_pid, folder, free_port())
        peer.variables |= {"RACE_VISIBILITY_S": str(visibility_s), "RAY_USAGE_STATS_ENABLED": "0"}
        # A token would be left in the user's folder; by default, workers give way to all else on the machine.
        peer.variables |= {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
        with _running(peer):
            yield peer


@contextmanager
def bentoml(name: str) -> Iterator[Program]:
    """BentoML's task endpoint: one process of eight threads, with a queue of its own."""
    port = free_port()
    with _folder() as folder:
        serve = ("-m", "bentoml", "serve", "with_bentoml:Speech", "--quiet")
        commands = ((*serve, "--host", HOST, "--port", str(port)),)
        peer = Program(name, "its own, not kept", "race-bentoml", commands, "", "", None, folder, port)
        peer.variables |= {"BENTOML_DO_NOT_TRACK": "True", "BENTOML_HOME": str(folder / "bentoml")}
        peer.dialect, peer.ready = TASKS, "/readyz"
        with _running(peer):
            yield peer


@contextmanager
def program(
    name: str, environment: str, commands: tuple[tuple[str, ...], ...], port: int, variables: dict[str, str]
) -> Iterator[Program]:
    """One that has no store."""
    with _folder() as folder:
        peer = Program(name, "none", environment, commands, "", "", None, folder, port, variables)
        with _running(peer):
            yield peer


def uvicorn(module: str, port: int) -> tuple[str, ...]:
    """The command that serves the `api` of a module of lab/bench/peers."""
    quiet = ("--no-access-log", "--log-level", "warning")
    return ("-m", "uvicorn", f"{module}:api", "--host", HOST, "--port", str(port), *quiet)


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


@contextmanager
def _on_postgres(
    name: str, module: str, worker: tuple[str, ...], waiting: str, server: PostgresServer
) -> Iterator[Program]:
    """A worker and a web server on a new database; not started yet."""
    server.run("create database race")
    port = free_port()
    with _folder() as folder:
        commands = (worker, uvicorn(module, port))
        url = server.url("race")
        yield Program(name, "PostgreSQL, fsync on", "race", commands, waiting, url, server.pid, folder, port)


@contextmanager
def _running(peer: Program) -> Iterator[None]:
    try:
        peer.restart()
        yield
    finally:
        _kill([psutil.Process(process.pid) for process in peer.processes if process.poll() is None])
        for process in peer.processes:
            process.wait()


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="race-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _postgres() -> Iterator[PostgresServer]:
    server = start_postgres(is_durable=True)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def _redis() -> Iterator[tuple[str, int]]:
    """A new Redis that syncs each write; its address and process id."""
    port = free_port()
    with _folder() as folder, (folder / "log").open("ab") as log:
        place = ("--port", str(port), "--bind", HOST, "--dir", str(folder), "--save", "")
        durable = ("--appendonly", "yes", "--appendfsync", "always")
        redis = subprocess.Popen([REDIS_SERVER, *place, *durable], stdout=log, stderr=log)
        try:
            _await_port(port)
            yield f"redis://{HOST}:{port}/0", redis.pid
        finally:
            redis.terminate()
            redis.wait()


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
