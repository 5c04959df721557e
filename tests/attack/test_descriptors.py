"""Recognitions on a worker that has no descriptor left for a while: none fails, all are done afterwards."""

import hashlib
import resource
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import httpx2

from servers import checker
from servers.processes import family
from servers.recordings import FIRST, recording
from servers.service import RunningService

JOBS = 6
PATIENCE_S = 60.0


def test_without_descriptors_for_a_while_no_job_fails(
    make_service: Callable[..., RunningService], server_url: str
) -> None:
    """Each is given back after a pause, uncounted, and succeeds when the machine has it again (P1, P3)."""
    service = make_service(None, server_url)
    service.start()
    service.key = service.make_key(credit="100")
    inputs = [_upload(service, words) for words in range(2, 2 + JOBS)]
    assert "succeeded" == service.wait(_recognise(service, inputs[0]))["state"]
    worker = family(service).worker
    assert worker is not None
    before = resource.prlimit(worker, resource.RLIMIT_NOFILE)
    taken = len([*Path(f"/proc/{worker}/fd").iterdir()])
    resource.prlimit(worker, resource.RLIMIT_NOFILE, (taken, before[1]))
    jobs = [_recognise(service, artifact_id) for artifact_id in inputs]
    _await_release(service, jobs)
    resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
    ended = [service.wait(job_id)["state"] for job_id in jobs]
    database = checker.open_records(service)
    counted = checker.rows(database, "select max(hosts_lost) as most from job")
    database.close()

    assert ["succeeded"] * JOBS == ended
    assert [{"most": 0}] == counted
    checker.check_audit(service)


def _upload(service: RunningService, words: int) -> str:
    content = recording(words)
    checksum = hashlib.sha256(content).hexdigest()
    headers = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": checksum}
    with service.client() as http:
        answer = http.post("/v1/input-artifacts", content=content, headers=headers)
    return str(answer.raise_for_status().json()["artifact"]["id"])


def _recognise(service: RunningService, artifact_id: str) -> str:
    body = {"model": FIRST, "parameters": {}, "input_artifact_ids": [artifact_id]}
    with service.client() as http:
        answer = http.post("/v1/jobs", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})
    return str(answer.raise_for_status().json()["id"])


def _await_release(service: RunningService, jobs: list[str]) -> None:
    """Until one of them was given back."""
    until = time.monotonic() + PATIENCE_S
    with service.client() as http:
        while not any(_was_released(http, job_id) for job_id in jobs):
            assert time.monotonic() < until, service.log_path.read_text(errors="replace")[-2000:]
            time.sleep(0.1)


def _was_released(http: httpx2.Client, job_id: str) -> bool:
    events = http.get(f"/v1/jobs/{job_id}/events").raise_for_status().json()["data"]
    return any(event["type"] == "released" for event in events)
