"""A model whose last worker stops takes no jobs: at once if it stops in order (R24, R189, R213)."""

import os
import signal
import uuid
from collections.abc import Iterator

import httpx2
import pytest

from crash.conftest import MakeService
from servers.elsewhere import OtherWorker
from servers.processes import until
from servers.service import FINAL, RunningService

MODEL = "fake/speech"
START_S = 20.0
SOON_S = 10.0


@pytest.fixture
def api(make_service: MakeService) -> Iterator[RunningService]:
    """`tenuto api` without any worker, and a key."""
    service = make_service()
    service.verb = "api"
    service.start()
    service.key = service.make_key(credit="10")
    yield service
    service.stop()


def entry(service: RunningService) -> dict[str, object]:
    with service.client() as client:
        [found] = [each for each in client.get("/v1/models").json()["data"] if each["id"] == MODEL]
        return dict(found)


def post(service: RunningService) -> httpx2.Response:
    with service.client() as client:
        return client.post(
            "/v1/jobs",
            json={"model": MODEL, "parameters": {"text": "Hold."}},
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )


def test_an_orderly_stop_of_the_last_worker_is_seen_at_once(api: RunningService) -> None:
    """While it still drains; the next worker opens the model again."""
    worker = OtherWorker(api, is_kept=True)
    until(lambda: entry(api)["callable"] is True, START_S, "the worker offers it")
    job_id = api.submit("[fake:sleep=50] Hold.")
    api.wait(job_id, states=("running",))
    os.kill(worker.pid, signal.SIGTERM)
    until(lambda: entry(api)["callable"] is False, SOON_S, "it is withdrawn")
    refused = post(api)
    meanwhile = api.wait(job_id, states=("running", *FINAL))["state"]
    with api.client() as client:
        client.post(f"/v1/jobs/{job_id}/cancel")
    until(lambda: entry(api)["callable"] is True, START_S, "the next worker offers it")
    accepted = post(api)
    worker.stop()

    assert "running" == meanwhile
    assert (503, "model_unavailable") == (refused.status_code, refused.json()["error"]["code"])
    assert 1 <= int(refused.headers["retry-after"])
    assert 202 == accepted.status_code


def test_a_restart_of_serve_refuses_nothing(make_service: MakeService) -> None:
    """Its worker keeps what it offers: the API is there again before the worker is."""
    service = make_service()
    service.start()
    service.key = service.make_key(credit="10")
    service.stop()
    database = service.open_database()
    offered = database.read(lambda tx: tx.all("select model from worker_model where model = :m", m=MODEL))
    database.close()

    assert 1 == len(offered)
