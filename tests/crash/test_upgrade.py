"""Versions side by side: this program on a database that a later version has brought up to date (P21)."""

import signal
import threading
import time
from importlib.resources import files
from pathlib import Path

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker
from servers.processes import family, send, until
from servers.service import RunningService
from tenuto.db import schema
from tenuto.db.database import Database
from tenuto.db.migrations import migrate

TEXTS = ("[fake:sleep=0.02] One.", "[fake:slow_segments=0.01] Two and some more. And more.")


@pytest.fixture
def later_folder(tmp_path: Path) -> Path:
    """The migrations of a later version; what it adds is added by `add_later`."""
    folder = tmp_path / "later"
    folder.mkdir()
    for file in (files("tenuto.db") / "migrations").iterdir():
        if file.name.endswith(".sql"):
            (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_this_version_goes_on_beside_a_later_one(
    make_service: MakeService, later_folder: Path, dialect: str
) -> None:
    """Under load a later version adds columns to every table, tables and indexes. The API and the worker that
    run go on; a worker that dies starts again, a restart does too; nothing is lost or charged twice.
    """
    service = make_service(TENUTO_SPEECH_SLOTS="2")
    service.start()
    service.key = service.make_key("account", credit="100")
    accepted: list[str] = []
    faults: list[str] = []
    stopping = threading.Event()
    clients = [threading.Thread(target=_use, args=(service, accepted, faults, stopping)) for _ in range(2)]
    for client in clients:
        client.start()
    _more(accepted)
    database = checker.open_records(service)
    added = _add_later(database, later_folder)
    database.close()
    _more(accepted)
    worker = family(service).worker
    assert worker is not None
    send(worker, signal.SIGKILL)
    _more(accepted)
    stopping.set()
    for client in clients:
        client.join(60)
    states = {service.wait(job_id)["state"] for job_id in accepted}
    code = service.stop()
    service.start()
    service.wait(service.submit(TEXTS[0]))
    service.stop()

    assert ["0990_later"] == added
    assert [] == faults
    assert ({"succeeded"}, 0) == (states, code)
    assert '"database.newer"' in service.log_path.read_text()
    checker.check_everything(service, jobs=len(accepted) + 1, credit_micros=100_000_000)


def _more(accepted: list[str]) -> None:
    """Wait until the clients have had a few more jobs accepted."""
    enough = len(accepted) + 5
    until(lambda: len(accepted) >= enough, 60, "more jobs are accepted")


def _use(service: RunningService, accepted: list[str], faults: list[str], stopping: threading.Event) -> None:
    """Submit and look, as callers do; whatever is not answered as always is a fault. A 503 is asked again, as
    the clients do: a slow machine changes its tables for longer than a request waits for them.
    """
    number = 0
    with service.client() as http:
        while not stopping.is_set():
            number += 1
            key = f"{threading.get_ident()} {number}"
            body = {"model": "fake/speech", "parameters": {"text": TEXTS[number % 2], "stream": True}}
            request = http.build_request("POST", "/v1/jobs", json=body, headers={"Idempotency-Key": key})
            answer = _asked(http, request)
            if answer.status_code != 202:
                faults.append(f"{answer.status_code}: {answer.text}")
                continue
            accepted.append(answer.json()["id"])
            for path in ("/v1/jobs", f"/v1/jobs/{accepted[-1]}", "/v1/account/ledger", "/v1/voices"):
                looked = _asked(http, http.build_request("GET", path))
                if looked.status_code != 200:
                    faults.append(f"{path} {looked.status_code}: {looked.text}")
            time.sleep(0.15)


def _asked(http: httpx2.Client, request: httpx2.Request) -> httpx2.Response:
    """The answer, of the tenth time at the latest."""
    for _ in range(9):
        answer = http.send(request)
        if answer.status_code != 503:
            return answer
        time.sleep(0.2)
    return http.send(request)


def _add_later(database: Database, folder: Path) -> list[str]:
    names = [table.name for table in database.read(lambda tx: schema.tables(tx, database.dialect))]
    lines = ["create table later (id text primary key, job_id text not null references job (id));"]
    for name in names:
        lines.append(f"alter table {name} add column later_note text;")
        lines.append(f"alter table {name} add column later_count integer not null default 0;")
        lines.append(f"create index later_of_{name} on {name} (later_note);")
    (folder / "0990_later.sql").write_text("\n".join(lines) + "\n")
    return migrate(database, folder=folder)
