"""Bytes in a bucket beside bytes in a folder: the same uploads and downloads, in turns, by two services.

One is the single machine, SQLite and a folder; the other has its records in PostgreSQL and its bytes in an S3
server, SeaweedFS, on this machine. Beside them stands what the store gives its own client, obstore, which
hashes and checks nothing; an upload cannot be faster than that, nor than its admission.
"""

import hashlib
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import obstore
import soundfile
from lab.bench.client import get
from lab.bench.report import Row, above, below
from lab.bench.stage import Stage, stage
from lab.bench.transfer import MIB, RATE, fetch, memory_of, send

from servers.postgres import PostgresServer
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer, start_seaweedfs
from tenuto.features.s3.s3 import PART_BYTES
from tenuto.features.s3.s3_client import Credentials, S3Location, client

SECONDS = 775
"""So much noise is a FLAC of 64 MiB."""
ROUNDS = 5
OF_REFERENCE = 0.6
MEMORY_MIB = 64.0
"""Three parts of 8 MiB for the upload, or four windows of 4 MiB; the rest is the allocator's."""


def measure(postgres: PostgresServer | None) -> list[Row]:
    """With the server alone: the other service brings its own database."""
    if postgres is None:
        return []
    store = start_seaweedfs()
    try:
        in_bucket = {"TENUTO_BLOBS": "s3://bench/blobs", "TENUTO_S3_ENDPOINT": store.endpoint}
        with (
            tempfile.TemporaryDirectory(prefix="tenuto-bench-") as name,
            stage(None) as alone,
            stage(postgres, **in_bucket, **store.variables) as many,
        ):
            return _rows(alone, many, store, _recording(Path(name)))
    finally:
        store.stop()


def _recording(folder: Path) -> Path:
    file, numbers = folder / "noise.flac", np.random.default_rng(0)
    with soundfile.SoundFile(file, "w", RATE, 1, "PCM_16") as written:
        for _ in range(SECONDS):
            written.write(numbers.integers(-32_768, 32_767, RATE, np.int16))
    return file


def _rows(alone: Stage, many: Stage, store: SeaweedServer, file: Path) -> list[Row]:
    content = file.read_bytes()
    size_mib, digest = len(content) / MIB, hashlib.sha256(content).hexdigest()
    raw = client(
        S3Location(bucket="bench", endpoint=store.endpoint, credentials=Credentials(ACCESS_KEY, SECRET_KEY))
    )
    up: dict[str, list[float]] = {"folder": [], "bucket": [], "store": []}
    down: dict[str, list[float]] = {"folder": [], "bucket": [], "store": []}
    grown = []
    for _ in range(ROUNDS):
        for name, running in (("folder", alone), ("bucket", many)):
            with memory_of(running) as memory:
                began = time.perf_counter()
                artifact_id = send(running, file, digest)
                up[name].append(size_mib / (time.perf_counter() - began))
                request = get(f"/v1/artifacts/{artifact_id}/content", running.keys[0])
                down[name].append(fetch(running.port, request, len(content)))
            if name == "bucket":
                grown.append(memory.grown_mib)
        began = time.perf_counter()
        obstore.put(raw, "raw", content, chunk_size=PART_BYTES, max_concurrency=2)
        up["store"].append(size_mib / (time.perf_counter() - began))
        began = time.perf_counter()
        assert len(obstore.get(raw, "raw").bytes()) == len(content)
        down["store"].append(size_mib / (time.perf_counter() - began))
    return [
        *(_row(way, rates, size_mib) for way, rates in (("upload", up), ("download", down))),
        below(
            "memory of the API process, its bytes in a bucket",
            max(grown),
            MEMORY_MIB,
            "MiB more",
            f"{ROUNDS} uploads and downloads of {size_mib:.0f} MiB",
        ),
    ]


def _row(way: str, rates: dict[str, list[float]], size_mib: float) -> Row:
    folder, bucket, store = (statistics.median(rates[name]) for name in ("folder", "bucket", "store"))
    return above(
        f"{way} with a bucket, beside a folder or the store alone",
        bucket / min(folder, store),
        OF_REFERENCE,
        "× the slower",
        f"{size_mib:.0f} MiB in turns: {bucket:.0f} MiB/s; a folder {folder:.0f}, obstore {store:.0f} MiB/s",
        digits=2,
    )
