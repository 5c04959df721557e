"""Accounts for the tests of the contract, and how they call a running service.

Accounts and keys are made straight in the service's database, by the operations that the operator's commands
use: a test can afford an account of its own that way. Everything else goes over HTTP.
"""

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import pytest

from servers import lying
from servers.accounts import create_account, create_key, now_ms
from servers.service import FINAL, RunningService, held
from tenuto.account import caller as restrictions
from tenuto.account import operations as accounts
from tenuto.db.database import Row
from tenuto.ids import Ids
from tenuto.job import finish

Faults = list[tuple[str, str]]
"""The problems in `details`: parameter and code of each, sorted."""

SPEECH = "fake/speech"
METERED = "fake/metered-speech"
HELD = ("running", *FINAL)
wait_s = 60.0
"""How long a job may take; shorter if a lie may keep it from finishing."""
ON_ONE_DATABASE = pytest.mark.parametrize("service", ["sqlite"], indirect=True)
"""Checks before anything is stored, and messages of engines, are the same on both."""


def job(text: Any = "Hold the note.", *, model: str = SPEECH, **parameters: Any) -> dict[str, Any]:
    """The body of a speech job."""
    return {"model": model, "parameters": {"text": text, **parameters}}


def faults(answer: httpx2.Response) -> Faults:
    """What an answer says is wrong; it must be a 400 invalid_request in the contract's shape."""
    error = answer.json()["error"]
    assert (400, "invalid_request") == (answer.status_code, error["code"]), answer.text
    details = error["details"]
    assert error["param"] == details[0]["param"]
    assert all(fault["message"] and fault["message"] in error["message"] for fault in details)
    return sorted((fault["param"], fault["code"]) for fault in details)


def error_code(answer: httpx2.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]


@dataclass(frozen=True)
class Caller:
    """One key of an account, and HTTP with it."""

    http: httpx2.Client
    account_id: str
    key_id: str
    key: str

    def request(
        self, method: str, path: str, *, headers: dict[str, str] | None = None, content: bytes | None = None
    ) -> httpx2.Response:
        own = {"Authorization": f"Bearer {self.key}"}
        return self.http.request(method, path, headers=own | (headers or {}), content=content)

    def get(self, path: str, headers: dict[str, str] | None = None) -> httpx2.Response:
        return self.request("GET", path, headers=headers)

    def post_job(
        self, body: Any, *, key: str | None = None, headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """POST /v1/jobs; bytes are sent as they are, anything else as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        own = {"Content-Type": "application/json", "Idempotency-Key": key or str(uuid.uuid4())}
        return self.request("POST", "/v1/jobs", headers=own | (headers or {}), content=content)

    def submit(self, text: str = "Hold the note.", *, model: str = SPEECH, **parameters: Any) -> str:
        """A job that is accepted; its id."""
        answer = self.post_job(job(text, model=model, **parameters))
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    def refused(self, body: Any) -> Faults:
        """The faults of a body; nothing is stored of it and its key stays free."""
        key = str(uuid.uuid4())
        before = self.newest()
        found = faults(self.post_job(body, key=key))

        assert before == self.newest()
        # A key that was bound would answer any other body with 409.
        assert [("model", "unknown_model")] == faults(self.post_job(job(model="none/such"), key=key))
        return found

    def newest(self) -> list[str]:
        """The ids of the newest jobs."""
        return [operation["id"] for operation in self.get("/v1/jobs?limit=2").json()["data"]]

    def read(self, job_id: str, query: str = "") -> Any:
        answer = self.get(f"/v1/jobs/{job_id}{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait(self, job_id: str, states: tuple[str, ...] = FINAL, timeout_s: float | None = None) -> Any:
        """The operation once it is in one of the states."""
        began = time.monotonic()
        while (operation := self.read(job_id, held(began)))["state"] not in states:
            assert time.monotonic() < began + (timeout_s or wait_s), operation
            time.sleep(0.01)
        return operation

    def cancel(self, job_id: str) -> Any:
        answer = self.request("POST", f"/v1/jobs/{job_id}/cancel")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def block_lane(self) -> str:
        """A job that runs for long, so that others wait behind it; cancel it in the end."""
        job_id = self.submit("[fake:sleep=50] x")
        self.wait(job_id, HELD)
        return job_id


class Operator:
    """Whoever owns the database of a running service."""

    everybody: ClassVar[list["Operator"]] = []
    """All that are not closed."""

    def __init__(self, service: RunningService) -> None:
        self.everybody.append(self)
        self.service = service
        self.database = service.open_database()
        self.http = httpx2.Client(base_url=service.url, timeout=120, transport=lying.transport())
        self._ids = Ids(now_ms)

    def close(self) -> None:
        self.everybody.remove(self)
        self.http.close()
        self.database.close()

    def cancel_all(self) -> None:
        """Cancel every open job, and wait until the lanes are free."""
        until = time.monotonic() + 60
        while open_jobs := self.database.read(
            lambda tx: tx.all("select id, account_id from job where state in ('queued', 'running')")
        ):
            assert time.monotonic() < until, "jobs that were cancelled are still open"
            for job in open_jobs:
                owner = restrictions.Caller("", str(job["account_id"]), None, None)
                self.database.write(
                    lambda tx, owner=owner, job=job: finish.cancel(  # type: ignore[misc]
                        tx, self._ids, owner, job_id=job["id"], now_ms=now_ms()
                    )
                )
            self.database.wake("cancel")
            time.sleep(0.05)

    def caller(self, *, credit: str = "0", models: Iterable[str] | None = None) -> Caller:
        """A new account and a key of it, which may be restricted to models."""
        name = f"account-{uuid.uuid4()}"
        account_id = self.database.write(lambda tx: create_account(tx, self._ids, name, credit=credit))
        return self.key(account_id, models=models)

    def key(
        self, account_id: str, *, models: Iterable[str] | None = None, expires_at: int | None = None
    ) -> Caller:
        """A further key of an account."""
        key_id, key = self.database.write(
            lambda tx: create_key(tx, self._ids, account_id, models=models, expires_at=expires_at)
        )
        return Caller(self.http, account_id, key_id, key)

    def restrict(self, caller: Caller, models: list[str] | None) -> None:
        """Narrow what the caller's account may use."""
        self.database.write(
            lambda tx: accounts.restrict_account(tx, account_id=caller.account_id, models=models)
        )

    def revoke(self, caller: Caller) -> None:
        self.database.write(lambda tx: accounts.revoke_key(tx, caller.key_id, now_ms=now_ms()))

    def row(self, sql: str, **parameters: str) -> Row:
        """The one row of a query."""
        row = self.database.read(lambda tx: tx.one(sql, **parameters))
        assert row is not None
        return row

    def money(self, caller: Caller) -> tuple[int, int]:
        """What is available and what is held, in micros."""
        row = self.row("select * from account where id = :id", id=caller.account_id)
        return row["available_micros"], row["held_micros"]

    def parameters(self, job_id: str) -> Any:
        """The parameters that were frozen when the job was accepted."""
        return json.loads(self.row("select parameters from job where id = :id", id=job_id)["parameters"])

    def blob_file(self, artifact_id: str) -> Path:
        """The file with an artifact's bytes."""
        row = self.row("select blob_id from artifact where id = :id", id=artifact_id)
        blob_id = str(row["blob_id"])
        return self.service.folder / "blobs" / blob_id[-2:] / blob_id
