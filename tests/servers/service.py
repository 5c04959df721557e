"""The service as a user starts it: `tenuto serve` as a process, and the operator's commands beside it."""

import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx2

from servers import forking
from servers.accounts import key_of
from servers.cores import ENGINE_THREADS
from servers.speed import HANG_S
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database
from tenuto.host.registry import ENTRIES

TENUTO = forking.TENUTO
READY_S = 120.0
POLLED_S = 0.1
"""For how long a job is polled by plain reads; most are done sooner."""
FINAL = ("succeeded", "failed", "cancelled", "recovery_required")
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of a service, which speaks plain HTTP. By default each client reads the certificates of all
authorities: 23 ms of the processor, far more than what it then asks."""


def held(began: float) -> str:
    """The query of a reader who has waited for a job since `began`: soon the service holds its answers back.

    Each read takes time of the processor from client and service, which the job itself needs.
    """
    return "?wait=2" if time.monotonic() - began > POLLED_S else ""


@dataclass
class RunningService:
    """A service on a folder and a database; it can be killed and started again on the same port."""

    folder: Path
    database_url: str | None = None
    engines: str = "fake"
    variables: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    host: str = "127.0.0.1"
    key: str = ""
    verb: str = "serve"
    """`api`: without a worker of its own."""
    is_measured: bool = False
    """An interpreter of its own, as people start it: a fork copies each page of ours that it touches."""
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)
    """The lines that it has printed since its last start."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("TENUTO_")}
        cache = {name: value for name, value in os.environ.items() if name == "TENUTO_CACHE"}
        own = {"TENUTO_DATA": str(self.folder), "TENUTO_ENGINES": self.engines, "TENUTO_PULL": "never"}
        own |= self.variables
        if self.engines == "real" and ENGINE_THREADS and "TENUTO_CONFIG" not in own:
            own["TENUTO_CONFIG"] = str(self._threads())
        if self.database_url is not None:
            own["TENUTO_DATABASE"] = self.database_url
        # It notes where it runs: not in the home of whoever runs the tests, where all commands look for it.
        return {"XDG_STATE_HOME": f"{self.folder}.state"} | inherited | cache | own

    def _threads(self) -> Path:
        """A settings file with the threads of every engine, where a test has none of its own."""
        file = self.folder.with_name(self.folder.name + ".toml")
        models = [entry.model for entry in ENTRIES if not entry.fake]
        file.write_text("".join(f'[models."{model}"]\nthreads = {ENGINE_THREADS}\n' for model in models))
        return file

    @property
    def log_path(self) -> Path:
        """What the service wrote to stderr, over all its starts."""
        return self.folder.with_name(self.folder.name + ".log")

    def start(self) -> None:
        """Start it and wait until /readyz answers 200."""
        with self.log_path.open("a") as log:
            self.process = forking.begin(
                [self.verb, "--port", str(self.port)],
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                is_measured=self.is_measured,
            )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert "http://" in first, f"said {first!r}; log: {self.log_path.read_text()[-2000:]}"
        self.port = int(first.split("http://")[1].split(",")[0].rsplit(":", 1)[1])
        self.said = [first]
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()
        until = time.monotonic() + READY_S
        while not self._is_ready():
            assert time.monotonic() < until, self.log_path.read_text()[-2000:]
            time.sleep(0.02)

    def set_up_link(self) -> str:
        """The path behind which the operator account is made, which a new service prints; read a moment after
        it is ready, perhaps."""
        until = time.monotonic() + READY_S
        while not (found := re.search(r"/setup#\S+", "".join(self.said))):
            assert time.monotonic() < until, self.said
            time.sleep(0.02)
        return found[0]

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        """SIGKILL of the API process; its children notice."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def make_key(self, account: str = "tester", *, credit: str = "0") -> str:
        """An account (made when it is not there) and a new key of it."""
        database = self.open_database()
        try:
            return key_of(database, account, credit=credit)
        finally:
            database.close()

    def open_database(self) -> Database:
        """The service's records, which must be there."""
        return open_database(self.database_url or "sqlite:///tenuto.db", folder=self.folder)

    def command(
        self, *arguments: str, check: bool = True, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """An operator's command on this folder."""
        done = forking.complete(arguments, env=self.environment, timeout=timeout_s)
        assert not check or done.returncode == 0, done.stderr
        return done

    def command_json(self, *arguments: str) -> Any:
        return json.loads(self.command(*arguments, "--json").stdout)

    def client(self, key: str | None = None) -> httpx2.Client:
        """An HTTP client with the default key, or this one."""
        headers = {"Authorization": f"Bearer {self.key if key is None else key}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=120, verify=PLAIN)

    def submit(self, text: str, *, model: str = "fake/speech", **parameters: Any) -> str:
        """A speech job; gives its id."""
        with self.client() as client:
            answer = client.post(
                "/v1/jobs",
                json={"model": model, "parameters": {"text": text, **parameters}},
                headers={"Idempotency-Key": str(uuid.uuid4())},
            )
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    def wait(self, job_id: str, *, states: tuple[str, ...] = FINAL, timeout_s: float = HANG_S) -> Any:
        """The operation once it is in one of the states."""
        began = time.monotonic()
        with self.client() as client:
            while True:
                operation = client.get(f"/v1/jobs/{job_id}{held(began)}").json()
                if operation["state"] in states:
                    return operation
                assert time.monotonic() < began + timeout_s, operation
                time.sleep(0.02)

    def _listen(self, stdout: IO[str]) -> None:
        for line in stdout:
            self.said.append(line)

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_path.read_text()[-2000:]
        try:
            return httpx2.get(self.url + "/readyz", timeout=120, verify=PLAIN).status_code == 200
        except httpx2.HTTPError:
            return False
