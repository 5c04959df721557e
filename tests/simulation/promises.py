"""What must hold after every commit, written down from the contract and shared with no code of the service.

Triggers of the connection note what a transaction changes, in a temporary table that is undone with it. Once
it has committed, the jobs and accounts that it touched are looked at whole. The first fault ends the world.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

FINAL = frozenset({"succeeded", "failed", "cancelled"})
MAY_FOLLOW = {
    "queued": {"running", "cancelled", "failed"},
    "running": {"succeeded", "failed", "cancelled", "queued", "recovery_required"},
    "recovery_required": {"succeeded", "failed", "queued", "cancelled"},
}

_NOTED = (
    ("insert on job", "'job', new.id, new.id, null, new.state, null"),
    ("update on job", "'job', new.id, new.id, old.state, new.state, new.attempt_id"),
    ("delete on job", "'gone', 'job', old.id, old.state, null, null"),
    ("insert on attempt", "'attempt', new.id, new.job_id, null, new.state, new.worker_id"),
    (
        "update of state, outcome, blob_id on attempt",
        "'attempt', new.id, new.job_id, old.state,"
        " new.state || ' ' || coalesce(new.outcome, ''), new.worker_id",
    ),
    (
        "update of beat on attempt for each row when (old.state = 'ended')",
        "'beat', new.id, new.job_id, null, null, null",
    ),
    (
        "update on slot",
        "'slot', cast(new.number as text), coalesce(new.job_id, old.job_id), old.job_id, new.job_id, null",
    ),
    ("insert on entry", "'entry', new.id, new.job_id, null, new.type, new.account_id"),
    ("update on entry", "'gone', 'entry', old.job_id, null, null, null"),
    ("delete on entry", "'gone', 'entry', old.job_id, null, null, null"),
    ("update on account", "'account', new.id, null, null, null, new.id"),
    ("insert on idempotency", "'key', new.idempotency_key, new.job_id, null, null, null"),
    ("update on idempotency", "'gone', 'idempotency', old.job_id, null, null, null"),
    ("delete on idempotency", "'gone', 'idempotency', old.job_id, null, null, null"),
    ("insert on artifact", "'artifact', new.id, new.job_id, null, null, null"),
)
"""What is noted of a row that changes: what, id, job_id, before, after, more."""
_COLUMNS = "what, id, job_id, before, after, more"


def journal_of(dialect: str) -> str:
    """The script that makes the journal and its triggers: on PostgreSQL in the schema `watch`."""
    columns = f"{_COLUMNS.replace(',', ' text,')} text"
    if dialect == "sqlite":
        return f"create temp table journal (number integer primary key, {columns});" + "".join(
            f"create temp trigger seen_{number} after {event} begin"
            f" insert into journal ({_COLUMNS}) values ({values}); end;"
            for number, (event, values) in enumerate(_NOTED)
        )
    return (
        "create schema watch; create unlogged table watch.journal"
        f" (number bigint generated always as identity, {columns});"
    ) + "".join(
        f"create function watch.seen_{number}() returns trigger language plpgsql as"
        f" 'begin insert into watch.journal ({_COLUMNS}) values ({values.replace(chr(39), chr(39) * 2)});"
        f" return null; end';"
        f" create trigger seen_{number} after"
        f" {event if 'for each row' in event else f'{event} for each row'}"
        f" execute function watch.seen_{number}();"
        for number, (event, values) in enumerate(_NOTED)
    )


class Broken(Exception):
    """A promise does not hold."""


@dataclass
class Promises:
    """Looks at each commit of one connection. `start` makes it forget the world before."""

    connection: Any
    """An `sqlite3.Connection`, or what speaks like one."""
    journal: str
    """The script that makes it, of `journal_of`."""
    note: Callable[[str], None] = print
    content: Callable[[str], bytes | None] = lambda _: None
    """The bytes that a blob's id has in the store."""
    was_silent: Callable[[str], bool] = lambda _: True
    """Whether a worker was ever dead or stood still: only then may its attempt be taken from it."""
    charge_micros: int = 0
    """What every result of the simulation costs."""
    states: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection.executescript(self.journal)
        self._table = "watch.journal" if "watch.journal" in self.journal else "journal"

    def start(self) -> None:
        self.states.clear()
        self.connection.execute(f"delete from {self._table}")

    def look(self, process: str) -> None:
        """Check what the last commit has changed. Raises Broken."""
        run = self.connection.execute
        rows = run(f"select {_COLUMNS} from {self._table} order by number").fetchall()
        if not rows:
            return
        run(f"delete from {self._table}")
        jobs: dict[str, None] = {}
        accounts: dict[str, None] = {}
        for what, id_, job_id, before, after, more in rows:
            if what == "gone":
                raise Broken(f"a row of {id_} that is written once was changed or removed")
            if what == "beat":
                raise Broken(f"the lease of {id_} was renewed after its end")
            if what in ("entry", "account"):
                accounts[more] = None
            if job_id is not None:
                jobs[job_id] = None
            if what == "job":
                self._state(process, job_id, before, after)
            elif what == "attempt":
                self._attempt(id_, after, more)
        for job_id in jobs:
            self._job(job_id)
        for account_id in accounts:
            self._account(account_id)

    def _state(self, process: str, job_id: str, before: str | None, after: str) -> None:
        known = self.states.get(job_id)
        if known != before:
            raise Broken(f"{job_id} was {known} and is changed from {before}")
        if before == after:
            return
        self.note(f"{process}: job {self._short(job_id)} {before or 'new'} -> {after}")
        if before is None:
            if after != "queued":
                raise Broken(f"{job_id} begins as {after}")
        elif after not in MAY_FOLLOW.get(before, set()):
            raise Broken(f"{job_id} went from {before} to {after}")
        self.states[job_id] = after

    def _attempt(self, attempt_id: str, after: str, worker_id: str) -> None:
        if after == "ended worker_lost" and not self.was_silent(worker_id):
            raise Broken(f"{attempt_id} was taken from {worker_id}, which lives and never stood still")

    def _job(self, job_id: str) -> None:
        run = self.connection.execute
        state, named, artifact_id, charged, hold, erased_at = run(
            "select state, attempt_id, artifact_id, charged_micros, hold_micros, erased_at"
            " from job where id = ?",
            (job_id,),
        ).fetchone()
        short = f"job {self._short(job_id)} ({state})"
        open_attempts = [
            row[0] for row in run("select id from attempt where job_id = ? and state <> 'ended'", (job_id,))
        ]
        slots = run("select attempt_id from slot where job_id = ?", (job_id,)).fetchall()
        if state == "running":
            if open_attempts != [named] or [row[0] for row in slots] != [named]:
                raise Broken(f"{short}: it runs with {len(open_attempts)} attempts in {len(slots)} slots")
        elif state == "recovery_required" and open_attempts == [named] and not slots:
            # The late result of a paid call whose outcome was unknown until now: about to be settled.
            pass
        elif open_attempts or slots:
            raise Broken(f"{short}: it has {len(open_attempts)} open attempts and {len(slots)} slots")
        self._losses(short, job_id)
        self._money(short, job_id, state, charged, hold)
        if (state == "succeeded") != bool(self._result(short, job_id, named, artifact_id, erased_at)):
            raise Broken(f"{short}: success and a result do not go together")
        keys = run("select count(*) from idempotency where job_id = ?", (job_id,)).fetchone()[0]
        if keys != 1:
            raise Broken(f"{short}: {keys} idempotency keys name it")

    def _losses(self, short: str, job_id: str) -> None:
        """Each lost attempt is counted once, as what it was; at most two errors that nobody foresaw."""
        counted = self.connection.execute(
            "select hosts_lost + losses_shared, unforeseen_errors, workers_lost from job where id = ?",
            (job_id,),
        ).fetchone()
        ends = self.connection.execute("select outcome from attempt where job_id = ?", (job_id,)).fetchall()
        outcomes = [row[0] for row in ends]
        lost = tuple(outcomes.count(name) for name in ("host_lost", "unforeseen", "worker_lost"))
        if tuple(counted) != lost or lost[1] > 2:
            raise Broken(f"{short}: it lost {lost} attempts and counted {tuple(counted)}")

    def _money(self, short: str, job_id: str, state: str, charged: int | None, hold: int) -> None:
        """One hold; once the job has ended, one line that charges or releases exactly that hold."""
        lines = self.connection.execute(
            "select type, available_micros, held_micros, revenue_micros, funding_micros from entry"
            " where job_id = ? and type <> 'adjust' order by type",
            (job_id,),
        ).fetchall()
        expected = [("hold", -hold, hold, 0, 0)]
        if state == "succeeded":
            price = self.charge_micros
            if charged != price:
                raise Broken(f"{short}: it costs {price} and was charged {charged}")
            expected.append(("settle", hold - price, -hold, price, 0))
        elif state in FINAL:
            if charged:
                raise Broken(f"{short}: it did not succeed and was charged {charged}")
            expected.append(("void", hold, -hold, 0, 0))
        if [tuple(line) for line in lines] != expected:
            raise Broken(f"{short}: its ledger is {[tuple(line) for line in lines]}")

    def _result(
        self, short: str, job_id: str, named: str | None, artifact_id: str | None, erased_at: int | None
    ) -> int:
        """How many results: at most one, of the attempt that has the job, its bytes durable and whole."""
        results = self.connection.execute(
            "select a.id, a.blob_id, b.sha256, b.size_bytes, t.blob_id, b.condemned_at from artifact a"
            " left join blob b on b.id = a.blob_id left join attempt t on t.id = ? where a.job_id = ?",
            (named, job_id),
        ).fetchall()
        if len(results) > 1:
            raise Broken(f"{short}: it has {len(results)} results")
        if not results or erased_at is not None:
            return len(results)
        id_, blob_id, sha256, size_bytes, recorded, condemned_at = results[0]
        if id_ != artifact_id or blob_id != recorded:
            raise Broken(f"{short}: its result is not that of its attempt")
        content = self.content(blob_id)
        if content is None or condemned_at is not None:
            raise Broken(f"{short}: the bytes of its result are not there")
        if (hashlib.sha256(content).hexdigest(), len(content)) != (sha256, size_bytes):
            raise Broken(f"{short}: the bytes of its result are not those that were recorded")
        return 1

    def _account(self, account_id: str) -> None:
        run = self.connection.execute
        balance = run(
            "select available_micros, held_micros from account where id = ?", (account_id,)
        ).fetchone()
        lines = run(
            "select sum(available_micros), sum(held_micros),"
            " sum(available_micros + held_micros + revenue_micros + funding_micros)"
            " from entry where account_id = ?",
            (account_id,),
        ).fetchone()
        if min(balance) < 0:
            raise Broken(f"{account_id} has {tuple(balance)}")
        if (*balance, 0) != tuple(lines):
            raise Broken(f"{account_id} has {tuple(balance)}, and its ledger says {tuple(lines)}")

    def _short(self, job_id: str) -> str:
        known = list(self.states)
        return str(known.index(job_id) + 1 if job_id in known else len(known) + 1)

    def row(self, sql: str, *parameters: Any) -> Any:
        return self.connection.execute(sql, parameters).fetchone()
