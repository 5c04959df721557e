"""Many machines of one service: an API or a worker on each, the records on another; to be cut and killed.

Every process has a data folder of its own, so that nobody sees another's locks; what they share is the
database and the bytes. Knows no jobs.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx2

from cluster.machines import Machine, Namespace, Network, lay
from servers import checker
from servers.ports import free_port
from servers.postgres import Listening, PostgresServer, start_postgres
from servers.processes import children, crash_postgres, is_alive, send, until
from servers.seaweedfs import REGION, SeaweedServer, start_seaweedfs
from servers.service import PLAIN, RunningService
from servers.speed import HANG_S
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database

MAIN = "import sys; from tenuto.command import main; main()"
"""The command, whichever source it is run from."""
START_S = 120.0
STOP_S = 60.0
GONE_S = HANG_S
API_PORT, DATABASE_PORT = 8080, 5432
DATABASE = "tenuto"

_ASK = """
import json, sys, time, urllib.error, urllib.request
asked, began = urllib.request.Request(sys.argv[1]), time.monotonic()
asked.add_header("Authorization", "Bearer " + sys.argv[2])
try:
    status = urllib.request.urlopen(asked, timeout=60).status
except urllib.error.HTTPError as error:
    status = error.code
except OSError:
    status = 0
print(json.dumps([status, time.monotonic() - began]))
"""

Verb = Literal["api", "worker"]


@dataclass(frozen=True)
class Deferred:
    """An answer's status, 0 when there was none, and how long it took."""

    status: int
    took_s: float


@dataclass
class Node:
    """A process of the service on its machine."""

    verb: Verb
    machine: Machine
    folder: Path
    environment: dict[str, str]
    arguments: Sequence[str] = ()
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    _read_from: int = field(default=0, repr=False)

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def log_path(self) -> Path:
        return self.folder.with_name(f"{self.name}.log")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://{self.machine.address}:{self.port}"

    def begin(self) -> None:
        """Start it; `await_ready` waits."""
        self._read_from = self.log_path.stat().st_size if self.log_path.exists() else 0
        words = [sys.executable, "-c", MAIN, self.verb, *self.arguments]
        if self.verb == "api":
            words += ["--host", self.machine.address, "--port", str(self.port)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.machine.command(words), env=self.environment, stdout=log, stderr=log
            )

    def await_ready(self) -> None:
        until(self._is_ready, START_S, f"{self.name} works; log:\n{self.said()[-3000:]}")

    def said(self) -> str:
        """What it has logged since its last start."""
        with self.log_path.open("rb") as log:
            log.seek(self._read_from)
            return log.read().decode(errors="replace")

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.await_end()

    def await_end(self) -> int:
        """The exit code, once it has ended."""
        assert self.process is not None
        return self.process.wait(STOP_S)

    def kill(self) -> None:
        """SIGKILL of the process and of its engines, as when the machine loses its power."""
        assert self.process is not None
        hosts = children(self.pid, "tenuto_engine")
        for pid in (self.pid, *hosts):
            send(pid, signal.SIGKILL)
        self.process.wait(GONE_S)
        until(lambda: not any(map(is_alive, hosts)), GONE_S, f"the engines of {self.name} are gone")

    def ask_there(self, path: str, key: str = "") -> "Deferred":
        """The answer of an API to a caller on its own machine, whatever became of the machine's cable."""
        words = [sys.executable, "-S", "-c", _ASK, self.url + path, key]
        done = subprocess.run(self.machine.command(words), capture_output=True, text=True, check=True)
        return Deferred(*json.loads(done.stdout))

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _is_ready(self) -> bool:
        assert self.is_running(), f"{self.name} has ended; log:\n{self.said()[-3000:]}"
        if self.verb == "worker":
            return '"worker.started"' in self.said()
        with suppress(httpx2.HTTPError):
            return httpx2.get(f"{self.url}/readyz", timeout=120, verify=PLAIN).status_code == 200
        return False


class Fleet:
    """A database on one machine, and so many APIs and workers, each on its own."""

    def __init__(
        self,
        folder: Path,
        variables: Mapping[str, str],
        *,
        apis: int = 1,
        workers: int = 2,
        network: Network | None = None,
        has_store: bool = False,
        is_durable: bool = True,
        engines: str = "fake",
    ) -> None:
        self.folder = folder
        self.network = network or lay()
        self._variables = variables
        self.engines = engines
        records = self.network.machine("records")
        listening = None
        if isinstance(records, Namespace):
            listening = Listening(records.address, records.switch.network, records.path)
        self.postgres: PostgresServer = start_postgres(is_durable=is_durable, listening=listening)
        self.postgres.run(f"create database {DATABASE}")
        self._database = (records.address, DATABASE_PORT) if listening else self.postgres.address
        (folder / "blobs").mkdir()
        self.store: SeaweedServer | None = None
        if has_store:
            self.store = start_seaweedfs(address=records.address, within=tuple(records.command(())))
        self.apis = [self._node("api", f"api{number}") for number in range(apis)]
        self.workers = [self._node("worker", f"worker{number}") for number in range(workers)]
        url = self.postgres.url(DATABASE)
        own = {**variables, **self._store_for(None)}
        self.operator = RunningService(self._folder("operator"), url, variables=own)
        self.database: Database = open_database(url)

    @property
    def nodes(self) -> list[Node]:
        return [*self.apis, *self.workers]

    def start(self) -> None:
        """All at once, on an empty database; the operator calls the first API."""
        for node in self.nodes:
            node.begin()
        for node in self.nodes:
            node.await_ready()
        self.operator.host, self.operator.port = self.apis[0].machine.address, self.apis[0].port

    def node_of(self, worker_id: str) -> Node:
        """The machine on which this worker runs."""
        pid = self.rows("select pid from worker where id = :id", id=worker_id)[0]["pid"]
        return next(node for node in self.workers if node.process is not None and node.pid == pid)

    def rows(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        """Looked up past all links."""
        return checker.rows(self.database, sql, **parameters)

    def kill_database(self) -> None:
        """SIGKILL of every process of the database; what is on the disk is there when it starts again."""
        crash_postgres(self.postgres.pid)

    def close(self) -> None:
        """Whatever is left is killed."""
        for node in self.nodes:
            if node.is_running():
                node.kill()
        self.database.close()
        self.postgres.stop()
        if self.store is not None:
            self.store.stop()
        self.network.close()

    def _node(self, verb: Verb, name: str) -> Node:
        machine = self.network.machine(name)
        folder = self._folder(name)
        node = Node(verb, machine, folder, self._environment(machine, folder))
        if verb == "api":
            node.port = API_PORT if isinstance(machine, Namespace) else free_port()
        return node

    def _environment(self, machine: Machine, folder: Path) -> dict[str, str]:
        host, port = machine.reach(self._database)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
        cache = {name: value for name, value in os.environ.items() if name == "TENUTO_CACHE"}
        return {
            **inherited,
            **cache,
            **self._variables,
            **self._store_for(machine),
            "TENUTO_ENGINES": self.engines,
            "TENUTO_DATA": str(folder),
            "TENUTO_DATABASE": f"postgresql://postgres@{host}:{port}/{DATABASE}?sslmode=disable&gssencmode=disable",
        }

    def _store_for(self, machine: Machine | None) -> dict[str, str]:
        """Where the bytes are, seen from a machine; None: from outside."""
        if self.store is None:
            return {}
        server = (self.store.address, self.store.port)
        host, port = server if machine is None else machine.reach(server)
        return {
            **self.store.variables,
            "TENUTO_BLOBS": "s3://tenuto/blobs",
            "TENUTO_S3_ENDPOINT": f"http://{host}:{port}",
            "TENUTO_S3_REGION": REGION,
        }

    def _folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        (folder / "blobs").symlink_to(self.folder / "blobs")
        return folder
