"""What the service adds to a job of half a minute of speech, beside the same engine called directly.

The engine is called in a process of its own, in turns with the service, so that both have the whole machine.
A job counts from before its submission to the answer that says that it is finished.
"""

import json
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from lab.bench.client import Connection, get
from lab.bench.own_engine import DirectRun
from lab.bench.report import Row, below
from lab.bench.stage import Stage, stage

from servers.postgres import PostgresServer
from tenuto import config
from tenuto.host.registry import ENTRIES
from tenuto.worker.engines import spec_of
from tenuto_kokoro import KokoroEngine

PAIRS = 4
ADDED_PERCENT = 3.0
MODEL = "hexgrad/Kokoro-82M"
TEXT = (
    "A durable queue keeps its word. When a caller hands over a job, the service writes it down before it "
    "answers, so that neither a crash nor a lost connection can make it forget. Later, when a worker has "
    "finished, the result is checked, stored, and charged exactly once. If the worker dies half way, another "
    "one takes over, and the caller, who only asks now and then, sees nothing of it but a slightly later "
    "answer. That is all that most people want from a machine: that it does what it said it would do."
)


def measure(postgres: PostgresServer | None) -> list[Row]:
    """Jobs and direct calls in turns; on SQLite alone, for what is measured is the engine's way."""
    if postgres is not None:
        return []
    direct_s, job_s = [], []
    with (
        stage(postgres, TENUTO_ENGINES="real", TENUTO_CONFIG="") as running,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        for number in range(1 + PAIRS):
            took_s, parameters = _job(running, number)
            alone_s, seconds = pool.submit(_direct, parameters).result()
            if number:  # the first pair loads the model on both sides
                job_s.append(took_s)
                direct_s.append(alone_s)
    ratios = [job / direct for job, direct in zip(job_s, direct_s, strict=True)]
    return [
        below(
            f"{running.name}: a speech job, added to the engine called directly",
            (statistics.median(ratios) - 1) * 100,
            ADDED_PERCENT,
            "%",
            f"median of {PAIRS} pairs, {seconds:.0f} s of speech: {statistics.median(job_s):.2f} s beside "
            f"{statistics.median(direct_s):.2f} s; pairs from {(min(ratios) - 1) * 100:.1f} to "
            f"{(max(ratios) - 1) * 100:.1f} %",
            digits=1,
        )
    ]


def _job(running: Stage, number: int) -> tuple[float, dict[str, Any]]:
    """Seconds from the submission to the final state, and what the engine was given."""
    body = json.dumps({"model": MODEL, "parameters": {"text": TEXT, "lang": "en"}})
    request = (
        "POST /v1/jobs HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {running.keys[0]}\r\nIdempotency-Key: overhead-{number}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    connection = Connection(running.port)
    began = time.perf_counter()
    answer = connection.ask(request.encode())
    assert answer.status == 202, answer
    job_id = json.loads(answer.body)["id"]
    state = "queued"
    while state in ("queued", "running"):
        state = json.loads(connection.ask(get(f"/v1/jobs/{job_id}?wait=20", running.keys[0])).body)["state"]
    took_s = time.perf_counter() - began
    connection.close()
    assert state == "succeeded", state
    parameters = running.query("select parameters from job where id = :id", id=job_id)[0]["parameters"]
    given: dict[str, Any] = json.loads(parameters)
    return took_s, given


_engine: list[KokoroEngine] = []
"""The engine of the process that calls it directly, loaded once."""


def _direct(parameters: dict[str, Any]) -> tuple[float, float]:
    """Seconds that the engine takes, and seconds of speech that it makes."""
    if not _engine:
        _engine.append(direct_engine())
    began = time.perf_counter()
    result = _engine[0].run(DirectRun(parameters))
    return time.perf_counter() - began, (result.duration_ms or 0) / 1000


def direct_engine() -> KokoroEngine:
    """The engine with the options that the service gives it, without a host."""
    entry = next(entry for entry in ENTRIES if entry.model == MODEL)
    return KokoroEngine(dict(spec_of(entry, config.load({})).options))
