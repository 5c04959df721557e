"""A request to OpenAI's routes and its declared retries, each at whichever API process takes it."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2

from crash.conftest import MakeService
from servers.service import RunningService
from servers.wavs import chunk, fmt, riff
from tenuto.features.openai.idempotency_keys import CLOCKS_MS

TRIES = 3
ROUNDS = 8
MOST_ROUNDS = 64
JOINED_S = CLOCKS_MS / 1000
"""A request that arrives this long after its retry does not join it, so slower rounds prove nothing."""
RECORDING_S = 300
"""So long that its retries arrive while it is being decoded."""


def send(service: RunningService, key: str, path: str, number: int, **parts: Any) -> list[str]:
    """The jobs of one try, on a connection of its own."""
    headers = {"Authorization": f"Bearer {key}", "X-Stainless-Retry-Count": str(number)}
    with httpx2.Client(base_url=service.url, headers=headers, timeout=120) as client:
        answer = client.post(path, **parts)
    assert 200 == answer.status_code, answer.text
    return answer.headers["x-service-job"].split(", ")


def test_a_request_and_its_declared_retries_are_one_job_on_any_process(make_service: MakeService) -> None:
    """All at once, in no order, with two jobs each; a request that is no retry stays a request of its own
    (P2, P3). Retries that arrive while a recording is decoded join its job, too."""
    service = make_service(TENUTO_API_PROCESSES="3")
    service.start()
    key = service.make_key("someone", credit="50")
    together = threading.Barrier(TRIES)

    def draw(work: int, number: int, *, alone: bool = False) -> list[str]:
        if not alone:
            together.wait(60)
        body = {"model": "fake/image", "prompt": f"cat {work}", "size": "256x256", "n": 2}
        return send(service, key, "/v1/images/generations", number, json=body)

    made: list[set[tuple[str, ...]]] = []
    quick: list[set[tuple[str, ...]]] = []
    with ThreadPoolExecutor(TRIES) as beside:
        while len(quick) < ROUNDS and len(made) < MOST_ROUNDS:
            until = time.monotonic() + JOINED_S
            tries = [beside.submit(draw, len(made), number) for number in range(TRIES)]
            made.append({tuple(each.result()) for each in tries})
            if time.monotonic() < until:
                quick.append(made[-1])
    joined = {tuple(draw(0, 1, alone=True)) for _ in range(4)}
    time.sleep(JOINED_S)  # Until then, it could be the request that its retry has overtaken.
    separate = draw(0, 0, alone=True)
    noise = random.Random(1).randbytes(16_000 * 2 * RECORDING_S)
    file = {"file": ("a.wav", riff(fmt(), chunk(b"data", noise)), "audio/wav")}

    def transcribe(number: int) -> list[str]:
        return send(service, key, "/v1/audio/transcriptions", number, files=file, data={"model": "whisper-1"})

    with ThreadPoolExecutor(TRIES) as beside:
        transcribed = {tuple(each) for each in beside.map(transcribe, range(TRIES))}
    service.stop()

    assert {1} >= {len(each) for each in quick}
    assert 1 == len(joined) and joined <= made[0]
    assert not set(separate) & {job for each in made for jobs in each for job in jobs}
    assert 1 == len(transcribed)
