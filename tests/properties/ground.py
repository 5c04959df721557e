"""What all rules of the state machine stand on: a world and its model, how a call is made on both, comparing.

Faults of a call: `undone` (killed before the commit: nothing has happened) and `unanswered` (the commit's
answer is lost, so the caller says it again: nothing more may happen).
"""

import copy
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from properties.model import FINAL, PRICE, Attempt, Job, Late, Model
from servers.rig import Rig
from servers.speed import HANG_S
from servers.world import World
from tenuto.account.caller import Caller
from tenuto.db.database import Database, Transaction
from tenuto.errors import OperatorError, Stale, TenutoError
from tenuto.features.audit import runs
from tenuto.features.audit.deep import Rehashed, rehash
from tenuto.file.blob import BlobRecord
from tenuto.job import finish
from tenuto.job.fate import Cause

SLOTS = 2
PAUSE_MS = 2_000
WORKERS = ("worker_us", "worker_b", "worker_far")
"""Ourselves, a neighbour with a lock, and one on another machine."""

FATES = st.sampled_from(["done", "done", "done", "undone", "unanswered"])
PICKS = st.integers(0, 5)

Operation = Callable[[Transaction], Any]


class Killed(Exception):
    """The process died before the commit."""


class Ground(RuleBasedStateMachine):
    """Two accounts, three workers, two slots; class attributes say on which database."""

    database: Database
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir=self.folder))
        self.world = World(self.database, self.place)
        empty(self.world)
        self.world.slots(SLOTS)
        self.rig = Rig(self.world, self.place)
        self.rig.neighbour("worker_b")
        self.lock = self.rig.lock("worker_b")
        self.lock_held = True
        self.world.register("worker_far", machine="elsewhere")
        self.upkeep = self.rig.upkeep()
        self.mono = self.jumped_at = time.monotonic()
        self.model = Model(SLOTS)
        self.callers: list[Caller] = []
        for prices in (5, 2):
            caller = self.world.caller(prices * PRICE)
            self.callers.append(caller)
            self.model.credit[caller.account_id] = prices * PRICE
        self.heard: dict[str, float] = {}
        """When each attempt was last heard of, on the monotonic clock."""
        self.results: dict[str, BlobRecord] = {}
        self.spoiled: set[str] = set()
        """Blobs whose bytes a test has changed."""
        self.sequences: dict[str, int] = {}

    def teardown(self) -> None:
        """At the end every byte is looked at, and what the service's own audits have said meanwhile."""
        self.upkeep.threads["audit"].join(HANG_S)
        last = self.world.read(runs.last)
        findings = rehash(self.database, self.rig.context.blobs, Rehashed(), now_ms=0)
        damaged = {finding.subject for finding in findings}
        self.rig.heartbeat.stop()
        if self.lock_held:
            self.lock.release()
        shutil.rmtree(self.place)

        assert damaged <= self.spoiled
        assert last is None or not any(last.findings.values()), last

    # --- making calls -------------------------------------------------------------------------------------

    def call(self, fate: str, operation: Operation, expected: Callable[[], Any]) -> Any:
        """A call on both: both make it, or the model says Late and the service Stale, without a trace."""
        if fate == "undone":
            self.undone(operation)
            return None
        before = copy.deepcopy(self.model)
        try:
            expected()
        except Late:
            self.model = before
            self.refused(Stale, operation)
            return None
        answer = self.world.write(operation)
        if fate == "unanswered":
            rows = self.world.everything()
            with suppress(Stale, OperatorError):
                self.world.write(operation)
            assert rows == self.world.everything(), "said again, it did more"
        return answer

    def undone(self, operation: Operation) -> None:
        """Killed before the commit: as if it had never been called."""

        def die(tx: Transaction) -> None:
            operation(tx)
            raise Killed

        before = self.world.everything()
        with pytest.raises((Killed, TenutoError)):
            self.world.write(die)
        assert before == self.world.everything(), "killed before its commit, it left something"

    def refused(self, error: type[TenutoError], operation: Operation) -> None:
        before = self.world.everything()
        with pytest.raises(error):
            self.world.write(operation)
        assert before == self.world.everything(), "refused, it left something"

    def operation(self, name: str, attempt: Attempt) -> Operation:
        """What a worker does to an attempt."""
        world, attempt_id = self.world, attempt.attempt_id
        now, result = world.now_ms, self.result(attempt)

        def settle(tx: Transaction) -> None:
            finish.record_result(tx, attempt_id, result, now_ms=now)
            finish.succeed(tx, world.ids, attempt_id, now_ms=now)

        def end(cause: Cause) -> Operation:
            return lambda tx: finish.end(tx, world.ids, attempt_id, cause, now_ms=now)

        given_back = Cause("given_back", reason="the worker is stopping", pause_ms=PAUSE_MS)
        operations: dict[str, Operation] = {
            "settle": settle,
            "fence": lambda tx: finish.pass_fence(tx, world.ids, attempt_id, now_ms=now),
            "succeed": lambda tx: finish.succeed(tx, world.ids, attempt_id, now_ms=now),
            "fail": end(Cause("engine_at_fault", "engine_crashed")),
            "cancelled": end(Cause("stopped_for_the_caller")),
            "release": end(given_back),
            "try_again": end(Cause("host_lost", "engine_crashed")),
            "unforeseen": end(Cause("unforeseen")),
            "unknown": end(Cause("outcome_unknown")),
            "damage": lambda tx: finish.result_unusable(tx, attempt_id, message="rotten", now_ms=now),
        }
        return operations[name]

    def expected(self, name: str, attempt: Attempt, model: Model | None = None) -> Any:
        """What the model makes of it."""
        model = model or self.model
        match name:
            case "settle":
                model.record(attempt, self.result(attempt).blob.blob_id)
                return model.succeed(attempt)
            case "release":
                return model.release(attempt, self.world.now_ms + PAUSE_MS)
            case "unforeseen":
                return model.unforeseen(attempt, self.world.now_ms)
            case _:
                return getattr(model, name)(attempt)

    def result(self, attempt: Attempt) -> finish.RecordedResult:
        """The attempt's result, whose bytes are durable; the same one when asked again."""
        if attempt.attempt_id not in self.results:
            self.results[attempt.attempt_id] = self.stored(attempt.attempt_id.encode())
        return self.world.result(blob=self.results[attempt.attempt_id])

    def forget_result(self, attempt: Attempt) -> None:
        """A result that was not recorded is made anew: who holds one for a day finds its bytes swept."""
        known = self.results.get(attempt.attempt_id)
        if known is not None and attempt.blob != known.blob_id:
            del self.results[attempt.attempt_id]

    def stored(self, content: bytes) -> BlobRecord:
        return self.rig.context.blobs.write(self.world.ids.new("blob"), content)

    def begun(self, job: Job, attempt_id: str, worker: str) -> None:
        """The model's side of a claim."""
        self.model.claim(job, attempt_id, worker)
        self.heard[attempt_id] = self.mono

    def job(self, pick: int, *states: str) -> Job:
        """One of the newest jobs, of those in these states if any are."""
        jobs = self.model.in_state(*states) if states else list(self.model.jobs.values())
        return jobs[-1 - pick % len(jobs)]

    def attempt(self, pick: int) -> Attempt:
        """One of the newest attempts, mostly one that goes on."""
        attempts = list(self.model.attempts.values())
        going_on = [attempt for attempt in attempts if attempt.state != "ended"]
        chosen = going_on if going_on and pick < 4 else attempts
        return chosen[-1 - pick % len(chosen)]

    def stranger(self, job: Job) -> str:
        """The account that has nothing to do with it."""
        return next(one.account_id for one in self.callers if one.account_id != job.account)

    # --- after every step -----------------------------------------------------------------------------------

    @invariant()
    def all_agrees(self) -> None:
        self.the_audit_finds_nothing()
        self.jobs_are_as_the_model_says()
        self.attempts_are_as_the_model_says()
        self.accounts_have_what_they_should()
        self.slots_are_those_of_what_runs()
        self.keys_stay_bound()

    def the_audit_finds_nothing(self) -> None:
        assert [] == self.world.findings()

    def jobs_are_as_the_model_says(self) -> None:
        shown = {job.job_id: (job.state, len(job.attempts), job.charged) for job in self.model.jobs.values()}
        rows = self.world.all("select id, state, attempts, charged_micros, event_sequence from job")
        assert shown == {row["id"]: (row["state"], row["attempts"], row["charged_micros"]) for row in rows}
        for row in rows:
            assert row["event_sequence"] >= self.sequences.get(row["id"], 0), "a sequence went back"
            self.sequences[row["id"]] = row["event_sequence"]

    def attempts_are_as_the_model_says(self) -> None:
        shown = {one.attempt_id: (one.state, one.is_fenced) for one in self.model.attempts.values()}
        rows = self.world.all("select id, state, fenced_at from attempt")
        assert shown == {row["id"]: (row["state"], row["fenced_at"] is not None) for row in rows}
        kept = self.world.all("select id, attempt_id from segment order by attempt_id, sequence")
        assert {one.attempt_id: one.segments for one in self.model.attempts.values() if one.segments} == {
            row["attempt_id"]: [each["id"] for each in kept if each["attempt_id"] == row["attempt_id"]]
            for row in kept
        }

    def accounts_have_what_they_should(self) -> None:
        rows = self.world.all("select id, available_micros, held_micros from account")
        assert {account: self.model.balance(account) for account in self.model.credit} == {
            row["id"]: (row["available_micros"], row["held_micros"]) for row in rows
        }

    def slots_are_those_of_what_runs(self) -> None:
        running = {
            (job.job_id, job.newest.attempt_id) for job in self.model.in_state("running") if job.newest
        }
        rows = self.world.all("select job_id, attempt_id from slot where job_id is not null")
        assert running == {(row["job_id"], row["attempt_id"]) for row in rows}
        assert len(running) <= SLOTS

    def keys_stay_bound(self) -> None:
        rows = self.world.all("select key_id, idempotency_key, job_id from idempotency")
        assert {key: job_id for key, (_, job_id) in self.model.keys.items()} == {
            (row["key_id"], row["idempotency_key"]): row["job_id"] for row in rows
        }


def empty(world: World) -> None:
    """Take out every row, children first."""
    for table in (
        "live_text",
        "kept_result",
        "part",
        "segment",
        "slot",
        "turn",
        "event",
        "attempt",
        "idempotency",
        "entry",
        "worker_model",
        "worker",
        "audit",
        "queue_room",
    ):
        world.run(f"delete from {table}")
    world.run("update job set artifact_id = null")
    for table in ("artifact", "job", "blob", "api_key_secret", "api_key", "account"):
        world.run(f"delete from {table}")


__all__ = ["FATES", "FINAL", "PICKS", "SLOTS", "WORKERS", "Ground", "Killed", "Operation"]
