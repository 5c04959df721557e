"""Jobs of an account of the campaign's own, whose rows it damages and repairs; no client knows them."""

import time
from contextlib import closing, suppress
from typing import Any

import httpx2

from servers import checker
from servers.service import FINAL, PLAIN, RunningService
from tenuto.errors import Unavailable

PATIENCE_S = 60.0
LOOK_S = 0.03


class OwnJobs:
    """What an operator does with jobs that they submit themselves, while everything else is under load."""

    def __init__(self, service: RunningService) -> None:
        self._service = service
        self._key = service.make_key("operator", credit="1000")

    def submit(self, text: str, *, model: str = "fake/speech") -> str | None:
        """The job's id; None when the service did not take it in time."""
        body = {"model": model, "parameters": {"text": text}}
        key = {"Idempotency-Key": f"own-{time.monotonic_ns()}"}
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            accepted = self._ask("POST", "/v1/jobs", json=body, headers=key)
            if accepted is not None:
                return str(accepted["id"])
        return None

    def cancel(self, job_id: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while self._ask("POST", f"/v1/jobs/{job_id}/cancel") is None and time.monotonic() < until:
            continue

    def comes_to(self, job_id: str, state: str) -> bool:
        """Whether it is in this state before long."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            operation = self._ask("GET", f"/v1/jobs/{job_id}")
            if operation is not None and operation["state"] in {state, *FINAL}:
                return bool(operation["state"] == state)
        return False

    def is_called(self, job_id: str) -> bool:
        """Whether its paid call has begun before long."""
        sql = "select 1 from attempt where job_id = :id and fenced_at is not null"
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with suppress(Unavailable), closing(checker.open_records(self._service)) as records:
                if records.read(lambda tx: tx.one(sql, id=job_id)) is not None:
                    return True
            time.sleep(LOOK_S)
        return False

    def change(self, job_id: str, how: str, *, state: str) -> bool:
        """Change its row behind everybody's back, if it is in this state."""
        sql = f"update job set {how} where id = :id and state = :state"
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with suppress(Unavailable), closing(checker.open_records(self._service)) as records:
                return records.write(lambda tx: tx.run(sql, id=job_id, state=state)) == 1
        return False

    def recover(self, way: str, job_id: str, *, until: str = "succeeded") -> None:
        """As an operator does, and once more when the database was away."""
        limit = time.monotonic() + PATIENCE_S
        while self._service.command("admin", "recover", way, job_id, check=False).returncode != 0:
            if time.monotonic() > limit or self.comes_to(job_id, until):
                return

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        """The answer; None when there was none, or a refusal, and a moment has passed."""
        headers = {"Authorization": f"Bearer {self._key}", **given.pop("headers", {})}
        with suppress(httpx2.HTTPError):
            answer = httpx2.request(
                method, self._service.url + path, headers=headers, timeout=PATIENCE_S, verify=PLAIN, **given
            )
            if answer.is_success:
                return answer.json()
        time.sleep(LOOK_S)
        return None
