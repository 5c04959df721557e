"""Clients that do not give up: they submit, send again what was not answered, poll and download.

What they saw is kept: which answers a key got, in which order the states came, which bytes. What must
never happen is noted as a fault, at once, with what was seen.
"""

import hashlib
import random
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import httpx2

from servers.service import RunningService

FINAL = ("succeeded", "failed", "cancelled", "recovery_required")
PAUSE_S = 0.02
LOST_PAUSE_S = 0.1
MAX_OPEN = 8
TIMEOUT_S = 5.0


@dataclass
class Work:
    """One key with its body, and all that was seen of it."""

    key: str
    text: str
    job_id: str | None = None
    answers: int = 0
    place: tuple[int, int] = (0, 0)
    """How far the job was when it was last seen; it may only grow."""
    operation: dict[str, Any] = field(default_factory=dict)
    sha256: str | None = None
    """Of the bytes that were downloaded."""


class Client(threading.Thread):
    """One client with an API key of its own; nobody else looks at its jobs, so what it sees is in order."""

    def __init__(self, service: RunningService, key: str, texts: list[str], seed: int) -> None:
        super().__init__(name=f"client-{seed}", daemon=True)
        self.works: list[Work] = []
        self.faults: list[str] = []
        self._service = service
        self._key = key
        self._texts = texts
        self._random = random.Random(seed)
        self._closing = threading.Event()

    def finish(self) -> None:
        """Submit nothing new; the thread ends when all that was submitted is downloaded."""
        self._closing.set()

    def unfinished(self) -> list[Work]:
        return [work for work in self.works if work.sha256 is None]

    def run(self) -> None:
        with self._service.client(self._key) as http:
            http.timeout = httpx2.Timeout(TIMEOUT_S)
            while not (self._closing.is_set() and not self.unfinished()) and not self.faults:
                self._step(http)
                time.sleep(PAUSE_S)

    def _step(self, http: httpx2.Client) -> None:
        waiting = self.unfinished()
        dice = self._random.random()
        if dice < 0.5 and len(waiting) < MAX_OPEN and not self._closing.is_set():
            work = Work(str(uuid.UUID(int=self._random.getrandbits(128))), self._random.choice(self._texts))
            self.works.append(work)
            self._submit(http, work)
        elif self.works and dice > 0.9:
            # Any of them, finished ones too: a key is good for ever.
            self._submit(http, self._random.choice(self.works))
        elif waiting:
            self._look_after(http, self._random.choice(waiting))

    def _look_after(self, http: httpx2.Client, work: Work) -> None:
        if work.job_id is None:
            self._submit(http, work)
        elif work.operation.get("state") == "succeeded":
            self._download(http, work)
        else:
            answer = self._ask(http, "GET", f"/v1/jobs/{work.job_id}")
            if answer is not None and self._expect(answer, 200, work):
                self._see(work, answer.json())

    def _submit(self, http: httpx2.Client, work: Work) -> None:
        body = {"model": "fake/speech", "parameters": {"text": work.text}}
        answer = self._ask(http, "POST", "/v1/jobs", json=body, headers={"Idempotency-Key": work.key})
        if answer is None or not self._expect(answer, 202, work):
            return
        work.answers += 1
        operation = answer.json()
        if work.job_id not in (None, operation["id"]):
            self.faults.append(f"key {work.key} got {work.job_id}, then {operation['id']}")
        if work.answers > 1 and "idempotent-replayed" not in answer.headers:
            self.faults.append(f"key {work.key} was accepted anew")
        work.job_id = operation["id"]
        self._see(work, operation)

    def _download(self, http: httpx2.Client, work: Work) -> None:
        artifact = work.operation["artifacts"][0]
        answer = self._ask(http, "GET", f"/v1/artifacts/{artifact['id']}/content")
        if answer is None or not self._expect(answer, 200, work):
            return
        sha256 = hashlib.sha256(answer.content).hexdigest()
        if (len(answer.content), sha256) != (artifact["size_bytes"], artifact["sha256"]):
            self.faults.append(f"wrong bytes of {artifact['id']}: {len(answer.content)}, {sha256}")
        work.sha256 = sha256

    def _see(self, work: Work, operation: dict[str, Any]) -> None:
        state, attempt = operation["state"], operation["attempt"]
        # Queued comes after the attempt that was lost, and before the next one.
        place = (attempt, 2) if state in FINAL else (attempt, int(state == "queued"))
        is_changed_end = work.place[1] == 2 and operation != work.operation
        if place < work.place or is_changed_end:
            self.faults.append(f"went back from {work.operation} to {operation}")
        if state in FINAL and (state != "succeeded" or len(operation["artifacts"]) != 1):
            self.faults.append(f"ended badly: {operation}")
        work.place, work.operation = place, operation

    def _ask(self, http: httpx2.Client, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """The answer; None when there was none, or not all of it."""
        try:
            return http.request(method, path, **options)
        except httpx2.TransportError:
            time.sleep(LOST_PAUSE_S)
            return None

    def _expect(self, answer: httpx2.Response, status: int, work: Work) -> bool:
        if answer.status_code == status:
            return True
        if answer.status_code != 503:
            self.faults.append(f"{answer.status_code} for {work}: {answer.text[:500]}")
        return False
