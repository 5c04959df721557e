"""A Ray pool on this machine, for the tests: started as its operator would, in the end gone altogether."""

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
    """A pool of one node with so many CPUs to give away, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with _node("--head", f"--port={port}", "--include-dashboard=false", cpus=cpus, gpus=0) as head:
        yield RayPool(f"127.0.0.1:{port}", head)


@contextmanager
def joined(pool: RayPool, *, cpus: int, gpus: int) -> Iterator[subprocess.Popen[bytes]]:
    """A second node of the pool; GPUs are as many as it says, not as many as there are."""
    with _node(f"--address={pool.address}", cpus=cpus, gpus=gpus) as node:
        yield node


def kill_node(node: subprocess.Popen[bytes]) -> None:
    """Kill everything of a node at once."""
    for pid in [*children(node.pid), node.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    node.wait()


@contextmanager
def _node(*options: str, cpus: int, gpus: int) -> Iterator[subprocess.Popen[bytes]]:
    folder = tempfile.mkdtemp(prefix="ray-")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        agent = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("ray")), "start", "--block", *options]
    command += [f"--num-cpus={cpus}", f"--num-gpus={gpus}", f"--object-store-memory={OBJECTS_BYTES}"]
    # A fixed one otherwise, and a node whose agent finds it taken ends itself.
    command += [f"--dashboard-agent-listen-port={agent}"]
    command += [f"--temp-dir={folder}"] if "--head" in options else []
    said = Path(folder) / "said"
    with said.open("wb") as output:
        node = subprocess.Popen(
            command,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(said)
        yield node
    finally:
        kill_node(node)
        shutil.rmtree(folder, ignore_errors=True)


def children(pid: int) -> list[int]:
    """All descendants of a process, the nearest first."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found[1:]


def _wait_for(said: Path) -> None:
    until = time.monotonic() + START_S
    while b"Ray runtime started" not in said.read_bytes():
        if time.monotonic() > until:
            raise TimeoutError(f"the Ray pool did not start: {said.read_text()[-2000:]}")
        time.sleep(0.1)
