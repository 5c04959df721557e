"""Large bodies: an upload of 256 MiB, admission included, and its download, every block checked.

The upload stands beside one pass of sha256 over the same bytes and one durable write of them. The download
stands beside nginx with sendfile, in turns, where nginx is installed. A second client polls a job meanwhile.
"""

import hashlib
import itertools
import json
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import soundfile
from lab.bench import nginx
from lab.bench.beside import beside
from lab.bench.client import TIMEOUT_S, Connection, get
from lab.bench.report import Row, above, below, p50_ms
from lab.bench.stage import TEXT, Stage, stage

from servers.postgres import PostgresServer

MIB = 2**20
RATE = 44_100
SECONDS = 3030
"""So much noise at 44.1 kHz is a FLAC just below the limit of 256 MiB: noise doesn't compress.

Speech at 16 kHz mono, as recommended, never gets there: 120 minutes have 220 MiB of samples. Music does, and
has more frames to a MiB than noise.
"""
ROUNDS = 3
USUAL_POLLS = 300
POLL_EVERY_S = 0.005
MEMORY_EVERY_S = 0.05
OF_REFERENCE, OF_NGINX = 0.6, 0.8
MEMORY_MIB = 32.0
SLOWER_POLLS = 3.0


def measure(postgres: PostgresServer | None) -> list[Row]:
    """On SQLite alone: what is measured is the way of the bytes."""
    if postgres is not None:
        return []
    with tempfile.TemporaryDirectory(prefix="tenuto-bench-") as name, stage(None) as running:
        file = _recording(Path(name))
        rows, artifact_id = _upload(running, file)
        return rows + _download(running, file, artifact_id)


def _recording(folder: Path) -> Path:
    file = folder / "noise.flac"
    numbers = np.random.default_rng(0)
    with soundfile.SoundFile(file, "w", RATE, 1, "PCM_16") as written:
        for _ in range(SECONDS):
            written.write(numbers.integers(-32_768, 32_767, RATE, np.int16))
    assert 250 * MIB < file.stat().st_size <= 256 * MIB, file.stat().st_size
    return file


def _upload(running: Stage, file: Path) -> tuple[list[Row], str]:
    size_mib = file.stat().st_size / MIB
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    poller = _Poller(running)
    usual_s = [poller.poll() for _ in range(USUAL_POLLS)]
    rates, shas, disks, grown, meanwhile_s = [], [], [], [], list[float]()
    for _ in range(ROUNDS):
        shas.append(size_mib / _sha256_s(file))
        disks.append(size_mib / _write_s(file))
        with beside(lambda: meanwhile_s.append(poller.poll()), 0), memory_of(running) as memory:
            began = time.perf_counter()
            artifact_id = send(running, file, digest)
            rates.append(size_mib / (time.perf_counter() - began))
        grown.append(memory.grown_mib)
    poller.close()
    rate, sha, disk = (statistics.median(values) for values in (rates, shas, disks))
    how = f"{size_mib:.0f} MiB of FLAC, inspected and counted on the way, medians of {ROUNDS}"
    rows = [
        above(
            "upload, beside sha256 or a durable write of the same bytes",
            rate / min(sha, disk),
            OF_REFERENCE,
            "× the slower",
            f"{how}: {rate:.0f} MiB/s; sha256 {sha:.0f} MiB/s, write and fsync {disk:.0f} MiB/s",
            digits=2,
        ),
        below("upload, memory of the API process meanwhile", max(grown), MEMORY_MIB, "MiB more", how),
        below(
            "upload, other requests meanwhile, p50",
            p50_ms(meanwhile_s) / p50_ms(usual_s),
            SLOWER_POLLS,
            "× usual",
            f"{len(meanwhile_s)} polls: {p50_ms(meanwhile_s):.2f} ms beside {p50_ms(usual_s):.2f} ms",
        ),
    ]
    return rows, artifact_id


def send(running: Stage, file: Path, digest: str) -> str:
    """One upload; gives the artifact's id."""
    head = (
        "POST /v1/input-artifacts HTTP/1.1\r\nHost: bench\r\nContent-Type: audio/flac\r\n"
        f"Authorization: Bearer {running.keys[0]}\r\nX-Service-Content-SHA256: {digest}\r\n"
        f"Content-Length: {file.stat().st_size}\r\n\r\n"
    )
    connection = Connection(running.port)
    connection.socket.sendall(head.encode())
    with file.open("rb") as content:
        connection.socket.sendfile(content)
    while (answer := connection.receive()) is None:
        pass
    connection.close()
    assert answer.status == 201, answer
    artifact_id: str = json.loads(answer.body)["artifact"]["id"]
    return artifact_id


def _download(running: Stage, file: Path, artifact_id: str) -> list[Row]:
    path = f"/v1/artifacts/{artifact_id}/content"
    request, size = get(path, running.keys[0]), file.stat().st_size
    program = nginx.find()
    if program is None:
        rate = statistics.median(fetch(running.port, request, size) for _ in range(ROUNDS))
        return [Row("download, every block checked", f"{rate:.0f} MiB/s", reason="there is no nginx here")]
    ours, theirs = [], []
    with nginx.served(program, file) as port:
        for number in itertools.chain([-1], range(2 * ROUNDS)):
            pair = fetch(running.port, request, size), fetch(port, get(f"/{file.name}", "none"), size)
            if number >= 0:  # the first pair warms the page cache
                ours.append(pair[0])
                theirs.append(pair[1])
    rate, reference = statistics.median(ours), statistics.median(theirs)
    return [
        above(
            "download, every block checked, beside nginx with sendfile",
            rate / reference,
            OF_NGINX,
            "× nginx",
            f"{size / MIB:.0f} MiB in turns: {rate:.0f} MiB/s beside {reference:.0f} MiB/s",
            digits=2,
        )
    ]


def fetch(port: int, request: bytes, size: int) -> float:
    """MiB a second of one whole answer, received into one buffer."""
    buffer = bytearray(MIB)
    with socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as connection:
        began = time.perf_counter()
        connection.sendall(request)
        received = connection.recv_into(buffer)
        head = buffer[:received].partition(b"\r\n\r\n")[0]
        assert head.startswith(b"HTTP/1.1 200"), head
        left = size + len(head) + 4 - received
        while left > 0:
            received = connection.recv_into(buffer)
            assert received, "the answer broke off"
            left -= received
        return size / MIB / (time.perf_counter() - began)


def _sha256_s(file: Path) -> float:
    began = time.perf_counter()
    with file.open("rb") as content:
        hashlib.file_digest(content, "sha256")
    return time.perf_counter() - began


def _write_s(file: Path) -> float:
    """A copy in blocks of 1 MiB, fsynced at its end."""
    copy = file.with_name("copy")
    began = time.perf_counter()
    with file.open("rb") as content, copy.open("wb", buffering=0) as written:
        while block := content.read(MIB):
            written.write(block)
        os.fsync(written.fileno())
    took = time.perf_counter() - began
    copy.unlink()
    return took


class _Poller:
    """One client that polls a finished job, a request every few milliseconds."""

    def __init__(self, running: Stage) -> None:
        job_id = running.submit(TEXT)
        running.wait(job_id, "succeeded")
        self._connection = Connection(running.port)
        self._request = get(f"/v1/jobs/{job_id}", running.keys[0])

    def poll(self) -> float:
        """Seconds that one poll takes; a pause comes after it."""
        began = time.perf_counter()
        answer = self._connection.ask(self._request)
        took = time.perf_counter() - began
        assert answer.status == 200, answer
        time.sleep(POLL_EVERY_S)
        return took

    def close(self) -> None:
        self._connection.close()


class _Memory:
    """How far the API process's memory rose above where it was."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before = process.memory_info().rss
        self.grown_mib = 0.0

    def look(self) -> None:
        self.grown_mib = max(self.grown_mib, (self._process.memory_info().rss - self._before) / MIB)


@contextmanager
def memory_of(running: Stage) -> Iterator[_Memory]:
    memory = _Memory(running.api())
    with beside(memory.look, MEMORY_EVERY_S):
        yield memory
