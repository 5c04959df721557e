"""A Ray pool of one node for the tests: started as its operator would, gone with everything in the end."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MISSING = "Ray is not installed here; `make ray` installs it and runs these tests"
START_S = 120.0
OBJECTS_BYTES = 300 << 20


def is_installed() -> bool:
    """Whether there can be a pool here."""
    return importlib.util.find_spec("ray") is not None


@dataclass(frozen=True)
class RayPool:
    """A running pool: `ray start --head`, which stays in the foreground."""

    address: str
    head: subprocess.Popen[bytes]

    def kill_head(self) -> None:
        """Kill the head's own process, the one that knows where everything is; the node lives on."""
        for pid in children(self.head.pid):
            if "gcs_server" in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)


@contextmanager
def ray_pool(*, cpus: int) -> Iterator[RayPool]:
    """A pool with so many CPUs to give away, on a free port."""
    folder = tempfile.mkdtemp(prefix="ray-")
    port, agent = free_ports(2)
    command = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block"]
    command += ["--node-ip-address=127.0.0.1", f"--port={port}", f"--num-cpus={cpus}", "--num-gpus=0"]
    command += ["--include-dashboard=false", f"--temp-dir={folder}", f"--object-store-memory={OBJECTS_BYTES}"]
    # A fixed one otherwise, and a node whose agent finds it taken ends itself.
    command += [f"--dashboard-agent-listen-port={agent}"]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    said = Path(folder) / "said"
    with said.open("wb") as output:
        head = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait_for(said)
        yield RayPool(f"127.0.0.1:{port}", head)
    finally:
        for pid in [*children(head.pid), head.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        head.wait()
        shutil.rmtree(folder, ignore_errors=True)


def children(pid: int) -> list[int]:
    """All descendants of a process, the nearest first."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found[1:]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has."""
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in taken]


def _wait_for(said: Path) -> None:
    until = time.monotonic() + START_S
    while b"Ray runtime started" not in said.read_bytes():
        if time.monotonic() > until:
            raise TimeoutError(f"the Ray pool did not start: {said.read_text()[-2000:]}")
        time.sleep(0.1)
