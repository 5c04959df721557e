"""A small world for operations: a database with accounts, jobs and workers, and a clock that stands still.

Every helper is one call of a real operation on the real database; nothing is imitated. Time passes only
when a test says so.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tenuto import strict_json
from tenuto.account import operations as accounts
from tenuto.account.caller import Caller
from tenuto.config import Price
from tenuto.db.database import Database, Transaction
from tenuto.feature import features
from tenuto.file.blob import BlobRecord
from tenuto.file.directory import DirectoryBlobs
from tenuto.host.registry import entries
from tenuto.ids import Ids
from tenuto.job import finish, queue, read
from tenuto.job.fate import Cause
from tenuto.job.finish import RecordedResult
from tenuto.job.queue import Claim
from tenuto.job.read import Job
from tenuto.job.states import FailureCode
from tenuto.job.submit import Accepted, Request, SubmitContext, submit
from tenuto.kind import operations as catalog
from tenuto.kind.model import Model
from tenuto.kind.presence import Presence
from tenuto.money import operations as billing

T = TypeVar("T")

START_MS = 1_800_000_000_000
LANE = "speech"
OPEN = "worker_that_offers"
"""The worker that makes every model callable; nothing runs on it."""
SPEECH = "fake/speech"
METERED = "fake/metered-speech"
EVERY_MODEL = frozenset({SPEECH, METERED})
PRICE_MICROS = 50_000
TABLES = (
    *("account", "api_key", "api_key_secret", "entry", "idempotency", "blob", "artifact", "job", "attempt"),
    *("slot", "turn", "event", "worker", "worker_model", "segment", "part", "live_text", "kept_result"),
    *("voice", "voice_preference", "job_recording", "upload_key", "model_call"),
    *("login", "web_session", "invitation"),
)


def offered(price: Price | None = None) -> dict[str, Model]:
    """The fake models, each at this price; without one a job costs and holds 0.05 CNY."""
    price = price or Price("job", PRICE_MICROS, PRICE_MICROS)
    return {
        entry.model: Model(entry.model, entry.kind, "jobs", LANE, price, entry.rerunnable, entry)
        for entry in entries(fake=True)
    }


@dataclass
class World:
    """The database, and what a process beside it would have: ids, a clock, models."""

    database: Database
    folder: Path
    """Where the bytes of its artifacts would lie."""
    now_ms: int = START_MS
    models: dict[str, Model] = field(default_factory=offered)
    max_queued: int = 20_000
    room: int = 1
    ids: Ids = field(init=False)
    blobs: DirectoryBlobs = field(init=False)
    _callers: int = 0

    def __post_init__(self) -> None:
        self.ids = Ids(lambda: self.now_ms)
        self.blobs = DirectoryBlobs(self.folder / "blobs")

    def write(self, operation: Callable[[Transaction], T]) -> T:
        return self.database.write(operation)

    def read(self, operation: Callable[[Transaction], T]) -> T:
        return self.database.read(operation)

    # --- who calls, who works -------------------------------------------------------------------

    def caller(self, credit_micros: int = 100 * PRICE_MICROS) -> Caller:
        """A new account with this credit, and the caller behind its first key."""
        self._callers += 1
        name = f"account {self._callers}"
        account_id = self.write(
            lambda tx: accounts.create_account(tx, self.ids, name=name, now_ms=self.now_ms)
        )
        if credit_micros:
            self.credit(account_id, credit_micros)
        return self.key(account_id)

    def key(self, account_id: str) -> Caller:
        """The caller behind a new key of this account."""
        _, key = self.write(
            lambda tx: accounts.create_key(
                tx,
                self.ids,
                account_id=account_id,
                name="key",
                models=None,
                expires_at=None,
                now_ms=self.now_ms,
            )
        )
        return self.read(lambda tx: accounts.authenticate(tx, key, now_ms=self.now_ms))

    def credit(self, account_id: str, amount_micros: int) -> None:
        self.write(
            lambda tx: billing.credit(
                tx,
                self.ids.new("entry"),
                account_id=account_id,
                amount_micros=amount_micros,
                note=None,
                now_ms=self.now_ms,
            )
        )

    def register(self, worker_id: str, models: frozenset[str] = EVERY_MODEL, machine: str = "here") -> None:
        """A worker says that it is there."""
        self.write(
            lambda tx: catalog.register_worker(
                tx,
                worker_id,
                machine=machine,
                pid=1,
                lock_name=f"{worker_id}.lock",
                models=sorted(models),
                now_ms=self.now_ms,
            )
        )

    def slots(self, count: int, lane: str = LANE) -> None:
        self.room = count
        self.write(lambda tx: queue.set_slots(tx, lane, count))

    def open(self, slots: int) -> None:
        """So many slots, and a worker that offers every model: without one no job is accepted."""
        self.slots(slots)
        self.register(OPEN, frozenset(self.models), machine="elsewhere")

    def forget(self, worker_id: str) -> None:
        """A worker that is there no longer."""
        self.write(lambda tx: catalog.forget_worker(tx, worker_id))

    # --- jobs -----------------------------------------------------------------------------------

    def request(self, caller: Caller, key: str, text: str = "你好。", model: str = SPEECH) -> Request:
        """A submission as the edge hands it on."""
        return request_of(caller, key, {"model": model, "parameters": {"text": text}})

    def submit(self, caller: Caller, key: str, text: str = "你好。", model: str = SPEECH) -> Accepted:
        return self.send(self.request(caller, key, text, model))

    def send(self, request: Request) -> Accepted:
        return submit(self.submitting, request)

    @property
    def submitting(self) -> SubmitContext:
        """What a process that takes jobs has, as this world is now."""
        now_ms = self.now_ms
        return SubmitContext(
            self.database,
            self.blobs,
            self.models,
            self.ids,
            lambda: now_ms,
            Presence(),
            self.max_queued,
        )

    def claim(self, worker_id: str = "worker_a", models: frozenset[str] = EVERY_MODEL) -> Claim | None:
        return self.write(
            lambda tx: queue.claim(
                tx,
                self.ids,
                worker_id=worker_id,
                lane=LANE,
                slots=self.room,
                models=models,
                now_ms=self.now_ms,
            )
        )

    def running(self, model: str = SPEECH, credit_micros: int = 100 * PRICE_MICROS) -> Claim:
        """A job of a new account's that a worker has just claimed."""
        job_id = self.submit(self.caller(credit_micros), "key", model=model).job_id
        claim = self.claim()
        assert claim is not None
        assert claim.job_id == job_id
        return claim

    def done(self, caller: Caller, key: str = "key") -> str:
        """A job of the caller's that has succeeded, the only one that waited; its id."""
        job_id = self.submit(caller, key).job_id
        claim = self.claim()
        assert claim is not None
        self.finish(claim.attempt_id)
        return job_id

    def blob(self, content: bytes = b"sound") -> BlobRecord:
        """The record of bytes that are taken to be durable."""
        digest = hashlib.sha256(content).hexdigest()
        return BlobRecord(self.ids.new("blob"), len(content), digest, "00000000")

    def result(self, duration_ms: int | None = 1000, blob: BlobRecord | None = None) -> RecordedResult:
        return RecordedResult(blob or self.blob(), "audio/wav", {"segments": 1}, duration_ms)

    def record(self, attempt_id: str, result: RecordedResult | None = None) -> None:
        made = result or self.result()
        self.write(lambda tx: finish.record_result(tx, attempt_id, made, now_ms=self.now_ms))

    def succeed(self, attempt_id: str) -> None:
        self.write(lambda tx: finish.succeed(tx, self.ids, attempt_id, now_ms=self.now_ms))

    def finish(self, attempt_id: str) -> None:
        """Record and succeed, as a worker does with a result."""
        self.record(attempt_id)
        self.succeed(attempt_id)

    def end(self, attempt_id: str, cause: Cause, evidence: str | None = None) -> None:
        self.write(
            lambda tx: finish.end(tx, self.ids, attempt_id, cause, now_ms=self.now_ms, evidence=evidence)
        )

    def fail(self, attempt_id: str, code: FailureCode = "engine_failed") -> None:
        self.end(attempt_id, Cause("engine_at_fault", code))

    def cancelled(self, attempt_id: str) -> None:
        self.end(attempt_id, Cause("stopped_for_the_caller"))

    def try_again(self, attempt_id: str, *, shared: bool = False) -> None:
        self.end(attempt_id, Cause("host_lost", "engine_crashed", is_shared=shared))

    def unforeseen(self, attempt_id: str) -> None:
        self.end(attempt_id, Cause("unforeseen"), "a bug")

    def fence(self, attempt_id: str) -> bool:
        return self.write(lambda tx: finish.pass_fence(tx, self.ids, attempt_id, now_ms=self.now_ms))

    def release(self, attempt_id: str, pause_ms: int = 0) -> None:
        self.end(attempt_id, Cause("given_back", reason="the worker is stopping", pause_ms=pause_ms))

    def unknown(self, attempt_id: str) -> None:
        self.end(attempt_id, Cause("outcome_unknown"), "no answer")

    def beat(self, attempt_id: str, progress: dict[str, Any] | None = None) -> bool | None:
        return self.write(lambda tx: queue.heartbeat(tx, {attempt_id: progress}))[attempt_id]

    def rescue(self, attempt_id: str, beat: int | None = None) -> str:
        """Rescue an attempt whose beat stood still at the number given, or at the one it has."""
        still = self.attempt(attempt_id)["beat"] if beat is None else beat
        return self.write(lambda tx: finish.rescue(tx, self.ids, attempt_id, beat=still, now_ms=self.now_ms))

    def cancel(self, caller_account: str, job_id: str) -> bool:
        return self.write(
            lambda tx: finish.cancel(tx, self.ids, any_key(caller_account), job_id=job_id, now_ms=self.now_ms)
        )

    # --- what is there --------------------------------------------------------------------------

    def job(self, job_id: str) -> dict[str, Any]:
        return self.row("select * from job where id = :id", id=job_id)

    def attempt(self, attempt_id: str) -> dict[str, Any]:
        return self.row("select * from attempt where id = :id", id=attempt_id)

    def state(self, job_id: str) -> str:
        return str(self.job(job_id)["state"])

    def operation(self, account_id: str, job_id: str) -> Job:
        return self.read(lambda tx: read.get(tx, account_id=account_id, job_id=job_id))

    def balance(self, account_id: str) -> tuple[int, int]:
        """Available and held."""
        row = self.row("select available_micros, held_micros from account where id = :id", id=account_id)
        return row["available_micros"], row["held_micros"]

    def entries(self, job_id: str) -> list[str]:
        """The types of a job's ledger lines, oldest first."""
        rows = self.all("select type from entry where job_id = :id order by id", id=job_id)
        return [row["type"] for row in rows]

    def events(self, job_id: str) -> list[str]:
        rows = self.all("select type from event where job_id = :id order by sequence", id=job_id)
        return [row["type"] for row in rows]

    def row(self, sql: str, **parameters: Any) -> dict[str, Any]:
        (row,) = self.all(sql, **parameters)
        return row

    def all(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        return self.read(lambda tx: [plain(row) for row in tx.all(sql, **parameters)])

    def run(self, sql: str, **parameters: Any) -> int:
        return self.write(lambda tx: tx.run(sql, **parameters))

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table: two of these are equal when nothing was changed."""

        def rows(tx: Transaction) -> dict[str, list[str]]:
            return {
                table: sorted(
                    json.dumps(plain(row), sort_keys=True) for row in tx.all(f"select * from {table}")
                )
                for table in TABLES
            }

        return self.read(rows)

    def findings(self) -> list[str]:
        """What the audit finds, where the feature is there."""
        audit = features().get("audit")
        return (
            [] if audit is None else [each.summary() for each in self.read(audit.part(".all_checks:audit"))]
        )


def wait_until_somebody_waits(world: World) -> None:
    """On PostgreSQL until another session waits for a lock; SQLite's writer lets nobody begin."""
    if world.database.dialect == "sqlite":
        return
    until = time.monotonic() + 60
    waiting = (
        "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
    )
    while not world.all(waiting):
        assert time.monotonic() < until, "nobody waits"
        time.sleep(0.005)


def any_key(account_id: str) -> Caller:
    """An account's caller of whose key nothing is known but that it is not restricted."""
    return Caller("key", account_id, None, None)


def request_of(caller: Caller, key: str, body: Any) -> Request:
    """A submission of any body."""
    text = json.dumps(body, ensure_ascii=False)
    value = strict_json.parse(text.encode())
    return Request(caller, key, text, strict_json.body_sha256(value), value)


def plain(row: Any) -> dict[str, Any]:
    """A row of either driver as a dict."""
    return {name: row[name] for name in row.keys()}  # noqa: SIM118 (a row iterates over its values)


def at_once(count: int, work: Callable[[int], T]) -> list[T | Exception]:
    """What so many threads, let go together, return or raise; the nth gets its number."""
    gate = threading.Barrier(count)
    answers: list[T | Exception] = [RuntimeError("no answer")] * count

    def go(number: int) -> None:
        gate.wait(20)
        try:
            answers[number] = work(number)
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=go, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers
