"""The wrong data folder, and one that was moved away: nothing is accepted that would be lost.

Real processes; the fault is a rename of the folder, or the settings of another machine.
"""

import json
import signal
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from attack.conftest import MakeService
from servers.processes import family, send, until
from servers.service import RunningService
from servers.speed import HANG_S

COMMANDS = (("serve", "--port", "0"), ("api", "--port", "0"), ("worker",))


@pytest.fixture
def url(request: pytest.FixtureRequest, dialect: str, tmp_path: Path) -> str:
    """A database that several data folders name: on a server, or a file by its absolute path."""
    if dialect == "sqlite":
        return f"sqlite:///{tmp_path / 'shared.db'}"
    named: str = request.getfixturevalue("server_url")
    return named


@pytest.fixture
def running(make_service: MakeService, url: str) -> RunningService:
    service = make_service(None, url)
    service.start()
    service.key = service.make_key(credit="1")
    return service


def test_a_second_data_folder_on_one_database_is_refused(
    running: RunningService, make_service: MakeService, url: str
) -> None:
    """The default folder of another machine: a sentence says which store is which (P5, P6)."""
    job = running.wait(running.submit("Kept here."))
    other = make_service(running.folder.with_name("elsewhere"), url)
    refused = [other.command(*command, check=False, timeout_s=30) for command in COMMANDS]
    doctor = other.command("admin", "doctor", check=False).stdout

    assert [1] * len(COMMANDS) == [each.returncode for each in refused]
    for each in refused:
        assert "the database belongs to the store of bytes store_" in each.stderr
        assert f"{other.folder / 'blobs'} is not that store" in each.stderr
    assert "FAIL  store: the database belongs to the store" in doctor
    assert not (other.folder / "blobs").exists()
    assert 200 == _download(running, job)


def test_a_store_of_another_database_is_refused(running: RunningService, make_service: MakeService) -> None:
    """A new database on a folder that holds bytes would sweep them away; another one's store is named."""
    running.wait(running.submit("Kept here."))
    running.stop()
    store_id = json.loads((running.folder / "blobs" / "store.json").read_text())["store_id"]
    fresh = make_service(running.folder, f"sqlite:///{running.folder.with_name('fresh.db')}")
    swept = fresh.command("api", "--port", "0", check=False, timeout_s=30)
    own = make_service(None, f"sqlite:///{running.folder.with_name('own.db')}")
    own.start()
    own.stop()
    mixed = make_service(running.folder, own.database_url).command("worker", check=False, timeout_s=30)

    assert (1, True) == (swept.returncode, "holds the bytes of another database" in swept.stderr)
    assert (1, True) == (mixed.returncode, f"blobs is {store_id}; set" in mixed.stderr)


def test_a_data_folder_that_is_moved_away_ends_acceptance(
    make_service: MakeService, fresh_url: str | None
) -> None:
    """503 for submissions and /readyz while it is gone, and nothing is made at the old path (P1, P5).

    The log names the folder, callers are not told it; the worker, killed meanwhile, makes no service of its
    own there. When the folder is back all goes on.
    """
    running = make_service(None, fresh_url)
    running.start()
    running.key = running.make_key(credit="1")
    kept = running.submit("Accepted before.")
    running.wait(kept)
    away = running.folder.with_name("moved")
    running.folder.rename(away)
    until(lambda: "place.lost" in running.log_path.read_text(), HANG_S, "it is noticed")
    with running.client() as http:
        refused = [_post(http) for _ in range(5)]
        ready = http.get("/readyz")
    worker = family(running).worker
    assert worker is not None
    send(worker, signal.SIGKILL)
    until(lambda: "worker.not_started" in running.log_path.read_text(), HANG_S, "no worker starts")
    made = running.folder.exists()
    away.rename(running.folder)
    until(lambda: "place.back" in running.log_path.read_text(), HANG_S, "it is back")
    until(lambda: _is_ready(running), HANG_S, "it is ready")
    with running.client() as http:
        accepted = _post(http)
        listed = http.get("/v1/jobs").json()["data"]

    assert [503] * 5 == [answer.status_code for answer in refused]
    assert str(running.folder) not in refused[0].text
    assert (503, False, 202) == (ready.status_code, made, accepted.status_code)
    assert "succeeded" == running.wait(accepted.json()["id"])["state"]
    assert {kept, accepted.json()["id"]} == {job["id"] for job in listed}
    assert 0 == running.command("admin", "audit", "--deep").returncode


def _post(http: httpx2.Client) -> httpx2.Response:
    body = {"model": "fake/speech", "parameters": {"text": "Hold."}}
    return http.post("/v1/jobs", json=body, headers={"Idempotency-Key": str(uuid.uuid4())})


def _download(running: RunningService, job: dict[str, Any]) -> int:
    with running.client() as http:
        return http.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").status_code


def _is_ready(running: RunningService) -> bool:
    with running.client() as http:
        return http.get("/readyz").status_code == 200
