"""The service under fault: its processes, kept alive as an init system would, and the ways to hurt them.

`serve` with its worker, a second worker as on another machine (locks of its own), the database's server, the
store of bytes where it is no folder, a proxy before the API and one before each of these servers, and the
folder that arms failpoints. It knows no jobs.
"""

import itertools
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from lab.faults.bucket import Bucket
from lab.faults.inbox import Inbox
from lab.faults.own import OwnJobs
from lab.faults.plan import Shape

from servers.elsewhere import OtherWorker
from servers.postgres import PostgresServer
from servers.processes import Supervisor, children, crash_postgres, family, is_alive
from servers.proxy import Proxy
from servers.seaweedfs import start_seaweedfs
from servers.service import PLAIN, RunningService
from servers.shots import Shots

SILENCE_S = 2.0
SPEECH_SLOTS = 3
PRICES = "".join(
    f'[models."fake/{name}"]\nprice = "{price}"\nhold = "{hold}"\n'
    for name, price, hold in (("speech", "0.05", "0.05"), ("metered-speech", "0.07", "0.09"))
)
SETTINGS: Mapping[str, str] = {
    "TENUTO_REQUESTS_PER_SECOND": "0",
    "TENUTO_SPEECH_SLOTS": str(SPEECH_SLOTS),
    "TENUTO_RECOGNITION_SLOTS": "2",
    "TENUTO_SILENCE_S": str(SILENCE_S),
    "TENUTO_HEARTBEAT_S": "0.4",
    "TENUTO_HOST_GRACE_S": "1",
    "TENUTO_DRAIN_S": "1",
    "TENUTO_ENGINE_SILENCE_S": "5",
    "TENUTO_WEBHOOKS": "any",
}
LOOK_S = 0.03

_databases = itertools.count(1)


@dataclass
class World:
    """One life of a service on a fresh folder and database."""

    folder: Path
    shape: Shape
    server: PostgresServer | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shots = Shots(self.folder / "shots")
        config = self.folder / "tenuto.toml"
        config.write_text(PRICES)
        self.database_proxy: Proxy | None = None
        self.bucket = Bucket(start_seaweedfs()) if self.shape == "s3" else None
        own = {"TENUTO_CONFIG": str(config), **self.shots.variables}
        own |= {} if self.bucket is None else self.bucket.settings
        self.service = RunningService(
            self.folder / "data", self._database(), variables={**SETTINGS, **own, **self.settings}
        )
        self._starting = threading.Lock()
        self.inbox = Inbox(self.folder / "inbox")

    def start(self) -> None:
        """All of it, ready."""
        try:
            self.service.start()
        except BaseException:
            self.inbox.close()
            if self.bucket is not None:
                self.bucket.close()
            raise
        self.supervisor = Supervisor(self.service)
        self.client_proxy = Proxy(("127.0.0.1", self.service.port))
        self.second = OtherWorker(self.service, is_kept=True)
        self.own = OwnJobs(self.service)

    def stop(self) -> int:
        """SIGTERM to everything; the exit code of `serve`."""
        self.second.stop()
        return self.supervisor.stop()

    def kill(self) -> None:
        """The end of a life that went wrong."""
        self.second.stop(signal.SIGKILL)
        self.supervisor.give_up()

    def close(self, *, is_kept: bool) -> None:
        """Nobody needs the links, the store and the receiver any more; their data may be wanted."""
        self.inbox.close()
        for proxy in (self.client_proxy, self.database_proxy):
            if proxy is not None:
                proxy.close()
        if self.bucket is not None:
            self.bucket.close(keep_in=self.folder / "store" if is_kept else None)

    # --- who is there --------------------------------------------------------------------------------

    def api(self) -> int | None:
        return family(self.service).api

    def workers(self) -> list[int]:
        """That of `serve`, and the second one."""
        own = family(self.service).worker
        return [pid for pid in (own, self.second.pid) if pid is not None and is_alive(pid)]

    def hosts(self) -> list[int]:
        return [host for worker in self.workers() for host in children(worker, "tenuto_engine")]

    def everything(self) -> list[int]:
        api = self.api()
        return [*([] if api is None else [api]), *self.workers(), *self.hosts()]

    # --- what is done to it ----------------------------------------------------------------------------

    def wait_ready(self, timeout_s: float) -> bool:
        """Whether it was ready in time: the API answers, the database does, a worker is registered."""
        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with suppress(httpx2.HTTPError):
                if (
                    httpx2.get(f"{self.service.url}/readyz", timeout=1, verify=PLAIN).status_code == 200
                    and self.workers()
                ):
                    return True
            time.sleep(LOOK_S)
        return False

    def kill_database(self) -> None:
        """SIGKILL of PostgreSQL, all its processes; started again at once."""
        assert self.server is not None
        with self._starting:
            crash_postgres(self.server.pid)
            self.server.start()

    def halt_database(self) -> None:
        """`pg_ctl stop -m immediate`, and a start."""
        assert self.server is not None
        with self._starting:
            self.server.restart()

    @property
    def store(self) -> Bucket:
        assert self.bucket is not None
        return self.bucket

    def drop(self) -> None:
        """The database of a life that went well is not needed any more."""
        if self.server is not None:
            self.server.run(f"drop database {self._name} with (force)")

    def session(self) -> str:
        """A URL for a session of our own, past the proxy."""
        assert self.server is not None
        return self.server.url(self._name)

    def _database(self) -> str | None:
        if self.server is None:
            return None
        self._name = f"faults_{next(_databases)}"
        self.server.run(f"create database {self._name}")
        self.database_proxy = Proxy(self.server.folder / ".s.PGSQL.5432")
        options = "sslmode=disable&gssencmode=disable"
        return f"postgresql://postgres@127.0.0.1:{self.database_proxy.port}/{self._name}?{options}"
