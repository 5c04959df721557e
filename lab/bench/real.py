"""Real engines, over HTTP: the first segment of a long text, and eight recognitions at once beside one.

All engines are loaded before anything is measured. Memory is what the processes of the service hold for
themselves, shared pages counted once (PSS).
"""

import hashlib
import io
import itertools
import json
import statistics
import time
from contextlib import suppress
from typing import Any

import numpy as np
import psutil
import soundfile
import soxr
from lab.bench.beside import beside
from lab.bench.client import Connection, get
from lab.bench.overhead import MODEL, TEXT
from lab.bench.report import Row, below
from lab.bench.stage import Stage, stage

from servers.postgres import PostgresServer

MINUTE = f"{TEXT} {TEXT} {TEXT[: TEXT.index(' Later')]}"
"""A little more than a minute of speech, which begins with a short sentence."""
BREATHLESS = (
    "This is one of those sentences that simply goes on and on without any comma at all until everybody has "
    f"forgotten how it began and who was meant. {MINUTE}"
)
"""One whose first segment ends only where it must, so is as long as a first one gets."""
BEGINNINGS = {"a short sentence": MINUTE, "a long one": BREATHLESS}
FIRSTS = 3
FIRST_S = 2.0
LOOK_S = 0.01
RECOGNITION = "tenuto/dual-recognition"
RECOGNITION_RATE = 16_000
RECOGNISED_S = 20
AT_ONCE = 8
TIMES_ONE = 1.5
MEMORY_EVERY_S = 0.25
MIB = 2**20

_numbers = itertools.count(1)


def measure(postgres: PostgresServer | None) -> list[Row]:
    """On SQLite alone: what is measured is the engines' way."""
    if postgres is not None:
        return []
    with stage(None, TENUTO_ENGINES="real", TENUTO_CONFIG="") as running:
        client = Client(running)
        try:
            spoken = client.final(client.submit(MODEL, {"text": MINUTE, "lang": "en"}))
            seconds = spoken["result"]["duration_ms"] / 1000
            rows = [_first_segment(client, *named, seconds) for named in BEGINNINGS.items()]
            sound = client.content(f"/v1/artifacts/{spoken['artifacts'][0]['id']}/content")
            return rows + _eight(running, client, client.upload(_heard(sound)))
        finally:
            client.close()


def _first_segment(client: "Client", beginning: str, text: str, seconds: float) -> Row:
    waited_s = []
    for _ in range(FIRSTS):
        # Whoever is cancelled may take the host with him, and the next one loads it.
        client.final(client.submit(MODEL, {"text": "Loaded.", "lang": "en"}))
        job_id = client.submit(MODEL, {"text": text, "lang": "en", "stream": True})
        waited_s.append(client.first_segment_s(job_id))
        client.cancel(job_id)
    return below(
        f"first segment of {seconds:.0f} s of speech or more, after `running`; it begins with {beginning}",
        statistics.median(waited_s),
        FIRST_S,
        "s",
        f"fixed; until its bytes are there, median of {FIRSTS}, {min(waited_s):.2f} to {max(waited_s):.2f} s",
    )


def _eight(running: Stage, client: "Client", artifact_id: str) -> list[Row]:
    def recognise(number: int) -> tuple[float, float, int]:
        """Seconds that so many take, their peak in MiB, and how many ran at once."""
        jobs = [
            client.submit(RECOGNITION, {"language": "en"}, input_artifact_ids=[artifact_id])
            for _ in range(number)
        ]
        began = time.perf_counter()
        memory = _Memory(running)
        with beside(memory.look, MEMORY_EVERY_S):
            for job in jobs:
                client.final(job)
        return time.perf_counter() - began, memory.peak_mib, memory.at_once

    recognise(1)  # loads both engines
    one_s, one_mib, _ = recognise(1)
    eight_s, eight_mib, at_once = recognise(AT_ONCE)
    assert at_once == AT_ONCE, f"only {at_once} ran at once"
    return [
        below(
            f"memory of the service with {AT_ONCE} recognitions running, beside one",
            eight_mib / one_mib,
            TIMES_ONE,
            "× one",
            f"{RECOGNISED_S} s of speech each, two engines, peaks of all processes: {eight_mib:.0f} beside "
            f"{one_mib:.0f} MiB; {eight_s:.0f} s beside {one_s:.0f} s",
        )
    ]


def _heard(wav: bytes) -> bytes:
    """The start of the speech as a FLAC for recognition."""
    samples, rate = soundfile.read(io.BytesIO(wav), dtype="float32")
    file = io.BytesIO()
    heard = soxr.resample(samples[: RECOGNISED_S * rate], rate, RECOGNITION_RATE)
    soundfile.write(file, (heard * 32767).astype(np.int16), RECOGNITION_RATE, format="FLAC")
    return file.getvalue()


class Client:
    """One caller with one connection."""

    def __init__(self, running: Stage) -> None:
        self._key = running.keys[0]
        self._connection = Connection(running.port)
        self._port = running.port

    def submit(self, model: str, parameters: dict[str, Any], **more: Any) -> str:
        body = json.dumps({"model": model, "parameters": parameters, **more}).encode()
        named = f"Idempotency-Key: real-{next(_numbers)}\r\nContent-Type: application/json\r\n"
        answer = self._post("/v1/jobs", named, body)
        job_id: str = answer["id"]
        return job_id

    def upload(self, flac: bytes) -> str:
        named = (
            f"Content-Type: audio/flac\r\nX-Service-Content-SHA256: {hashlib.sha256(flac).hexdigest()}\r\n"
        )
        artifact_id: str = self._post("/v1/input-artifacts", named, flac)["artifact"]["id"]
        return artifact_id

    def cancel(self, job_id: str) -> None:
        self._post(f"/v1/jobs/{job_id}/cancel", "", b"")
        assert self._ended(job_id)["state"] == "cancelled"

    def final(self, job_id: str) -> dict[str, Any]:
        """The job once it has ended well."""
        found = self._ended(job_id)
        assert found["state"] == "succeeded", found
        return found

    def first_segment_s(self, job_id: str) -> float:
        """From the last look that found it waiting, so no less than from `running`."""
        began = time.perf_counter()
        while self.read(f"/v1/jobs/{job_id}")["state"] == "queued":
            time.sleep(LOOK_S)
            began = time.perf_counter()
        while not (segments := self.read(f"/v1/jobs/{job_id}/audio-segments")["data"]):
            time.sleep(LOOK_S)
        content = self.content(f"/v1/jobs/{job_id}/audio-segments/{segments[0]['segment_id']}/content")
        took_s = time.perf_counter() - began
        assert hashlib.sha256(content).hexdigest() == segments[0]["sha256"]
        return took_s

    def content(self, path: str) -> bytes:
        return self._ask(get(path, self._key))

    def close(self) -> None:
        self._connection.close()

    def _ended(self, job_id: str) -> dict[str, Any]:
        while (found := self.read(f"/v1/jobs/{job_id}?wait=20"))["state"] in ("queued", "running"):
            pass
        return found

    def read(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.content(path))
        return found

    def _post(self, path: str, named: str, body: bytes) -> dict[str, Any]:
        head = f"POST {path} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self._key}\r\n{named}"
        answer: dict[str, Any] = json.loads(
            self._ask(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        )
        return answer

    def _ask(self, request: bytes) -> bytes:
        answer = self._connection.ask(request)
        assert answer.status < 300, answer
        return answer.body


class _Memory:
    """The most that all processes held together, and how many jobs ran at once."""

    def __init__(self, running: Stage) -> None:
        self._running = running
        self.peak_mib = 0.0
        self.at_once = 0

    def look(self) -> None:
        held = 0
        for process in self._running.processes():
            with suppress(psutil.NoSuchProcess):  # one that has ended since
                held += process.memory_full_info().pss
        [row] = self._running.query("select count(*) as running from job where state = 'running'")
        self.peak_mib = max(self.peak_mib, held / MIB)
        self.at_once = max(self.at_once, row["running"])
