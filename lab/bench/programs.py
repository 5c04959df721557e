"""What OpenAI's speech route adds to the same job by `/v1/jobs`, and the memory of a rendition of two hours.

`python -m lab.bench.programs` is the process that makes the rendition; it prints its memory and seconds as
JSON.
"""

import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, BinaryIO, cast

import httpx2
from lab.bench import ROOT
from lab.bench.report import Row, below
from lab.bench.stage import stage

from servers.postgres import PostgresServer
from servers.service import PLAIN
from tenuto.features.decoding.wav import pcm16_wav
from tenuto.features.renditions.renditions import AUDIO_FORMS, write_audio

SENTENCE = "Hold the note for its full value, and then a little longer."
ROUNDS = 60
LIMIT_MS = 15.0
HOURS = 2
RATE = 24_000
LIMIT_MIB = 64.0


def measure(postgres: PostgresServer | None) -> list[Row]:
    """The same sentence by either way in turns; and, once, the rendition."""
    with stage(postgres) as running:
        base, headers = f"http://127.0.0.1:{running.port}", {"Authorization": f"Bearer {running.keys[0]}"}
        with httpx2.Client(base_url=base, headers=headers, timeout=60, verify=PLAIN) as http:
            pairs = [(_by_job(http), _by_route(http)) for _ in range(ROUNDS)][5:]
        jobs, routes = zip(*pairs, strict=True)
        added_ms = statistics.median(route - job for job, route in pairs) * 1000
        row = below(
            f"{running.name}: one sentence as MP3 by `/v1/audio/speech`, added to its job",
            added_ms,
            LIMIT_MS,
            "ms",
            "the same job by `POST /v1/jobs` and `?wait=30`, until it is known to have succeeded, without its"
            f" download, in turns: {statistics.median(jobs) * 1000:.1f} ms beside"
            f" {statistics.median(routes) * 1000:.1f} ms",
        )
    return [row] if postgres is not None else [row, _rendition()]


def _by_job(http: httpx2.Client) -> float:
    body = {"model": "fake/speech", "parameters": {"text": SENTENCE, "lang": "en"}}
    began = time.monotonic()
    job = http.post("/v1/jobs", json=body, headers={"Idempotency-Key": str(uuid.uuid4())}).json()
    while job["state"] != "succeeded":
        job = http.get(f"/v1/jobs/{job['id']}?wait=30").json()
    return time.monotonic() - began


def _by_route(http: httpx2.Client) -> float:
    began = time.monotonic()
    answer = http.post("/v1/audio/speech", json={"model": "fake/speech", "input": SENTENCE})
    assert answer.status_code == 200, answer.text
    return time.monotonic() - began


def _rendition() -> Row:
    done = subprocess.run(
        [sys.executable, "-m", "lab.bench.programs"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    return below(
        f"WAV of {HOURS} hours as MP3: memory above that of one of a second",
        told["mib"],
        LIMIT_MIB,
        "MiB",
        f"blocks and a scratch file; {told['seconds']:.0f} s of one core",
        digits=1,
    )


class _Wave(io.RawIOBase):
    """A WAV of so many seconds that nobody holds."""

    def __init__(self, seconds: int) -> None:
        second = bytes(range(250)) * (2 * RATE // 250)
        head = bytearray(pcm16_wav(b"", RATE, 1))
        head[4:8] = (36 + seconds * len(second)).to_bytes(4, "little")
        head[40:44] = (seconds * len(second)).to_bytes(4, "little")
        self._second, self._head = second, bytes(head)
        self._left, self._rest = seconds, self._head

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        # The reader of the header skips the rest of a chunk, which there is not.
        assert (offset, whence) == (0, io.SEEK_CUR)
        return 0

    def readinto(self, buffer: Any) -> int:
        if not self._rest and self._left:
            self._left, self._rest = self._left - 1, self._second
        piece = self._rest[: len(buffer)]
        buffer[: len(piece)] = piece
        self._rest = self._rest[len(piece) :]
        return len(piece)


def _render(seconds: int) -> None:
    with tempfile.TemporaryFile() as sink:
        write_audio(AUDIO_FORMS["mp3"], [cast(BinaryIO, _Wave(seconds))], cast(BinaryIO, sink))


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _main() -> None:
    _render(1)
    before = _peak_mib()
    began = time.process_time()
    _render(HOURS * 3600)
    print(json.dumps({"mib": _peak_mib() - before, "seconds": time.process_time() - began}))


if __name__ == "__main__":
    _main()
