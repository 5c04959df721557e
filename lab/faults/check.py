"""What must hold after a life, over the records, the bytes, the logs and what the clients saw.

The shipped audit comes first; what it cannot know, because only clients know it, is here.
"""

import base64
import hmac
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.faults.clients import Client
from lab.faults.inbox import EVENTS, Inbox
from lab.faults.programs import Program
from lab.faults.works import CANARY
from lab.faults.world import World

from servers import checker
from servers.receiver import Message
from servers.service import RunningService
from tenuto.db.database import Database

DEFECTS = (
    *("attempt.abandoned", "attempt.unforeseen", "claim.failed", "upkeep.failed"),
    *("http.failed", "changes.failed", "audit.finding", "webhooks.failed", "webhook.failed"),
)
"""Events that a fault from outside may not cause."""
UNANSWERED = ("http.failed status=500", "ASGI callable returned without")
"""How such events begin that have no name of their own."""

NEXT: dict[str, set[str]] = {
    "": {"queued"},
    "queued": {"running", "cancelled", "failed"},
    "running": {
        *("succeeded", "failed", "cancelled", "cancel_requested", "released", "host_lost", "worker_lost"),
        *("unforeseen", "recovery_required"),
    },
    "cancel_requested": {"succeeded", "failed", "cancelled", "recovery_required", "host_lost"},
    "released": {"running", "cancelled"},
    "host_lost": {"running", "cancelled"},
    "unforeseen": {"running", "cancelled"},
    "worker_lost": {"running", "cancelled"},
    "recovery_required": {"succeeded", "failed", "cancelled", "requeued"},
    "requeued": {"running", "cancelled"},
    "succeeded": set(),
    "failed": set(),
    "cancelled": set(),
}
"""Which event may follow which."""

NO_DESCRIPTOR = "Too many open files"

MOST_OF_A_LOG = 10
"""How many lines of a log are printed; the file has the rest."""

AUDIT_S = 600.0
"""It reads some hundred megabytes, on a machine that may have other work."""

_KEY = re.compile(r"tn_[0-9A-Za-z]{49}")


def findings(world: World, clients: list[Client]) -> list[str]:
    """Everything that is not as it must be; for a world that has come to rest."""
    logs = [world.service.log_path, world.folder / "elsewhere.log"]
    found = findings_of(world.service, clients, logs) + ([] if world.bucket is None else _stored(world))
    database = checker.open_records(world.service)
    try:
        return found + list(itertools.islice(informed(database, world.inbox), MOST_OF_A_LOG))
    finally:
        database.close()


def findings_of(service: RunningService, clients: list[Client], logs: list[Path]) -> list[str]:
    """The same of any service, whose processes wrote these logs."""
    found = [fault for client in clients for fault in client.faults]
    if not found:
        found += [f"not finished: {work}" for client in clients for work in client.unfinished()]
    found += _audit(service)
    database = checker.open_records(service)
    try:
        for check in (_accepted, _asked, _uploaded, _events, _free_waits, _paid_once, _lost_often):
            found += check(database, clients)
        if not found:
            found += _rest(database)
    finally:
        database.close()
    if service.database_url is None:
        found += _said(checker.check_integrity, service)
    return found + list(_logs(logs))


def informed(database: Database, inbox: Inbox) -> Iterator[str]:
    """Webhooks: each end of an account's jobs comes at least once, always as the same message, signed, and
    nothing of another account's."""
    sql = """select e.job_id, e.sequence, e.type, a.name as account from event e
             join job j on j.id = e.job_id join account a on a.id = j.account_id"""
    ends = {
        (f"/{row['account']}", f"{row['job_id']}_{row['sequence']}"): EVENTS[row["type"]]
        for row in checker.rows(database, sql)
        if row["type"] in EVENTS and row["account"] in inbox.secrets
    }
    bodies: dict[tuple[str, str], bytes] = {}
    for message in inbox.messages():
        name = (message.path, message.id)
        content = json.loads(message.body)
        if not _is_signed(inbox.secrets[message.path[1:]], message):
            yield f"webhook: {name} is not signed by its secret"
        if name not in ends:
            yield f"webhook: {name} is no end of this account's jobs: {content}"
        elif (content["type"], content["data"]["job_id"]) != (ends[name], message.id.rpartition("_")[0]):
            yield f"webhook: {name} says {content}, and it is {ends[name]}"
        if bodies.setdefault(name, message.body) != message.body:
            yield f"webhook: {name} came with two bodies"
    yield from (f"webhook: {name} has not come, {ends[name]}" for name in sorted(ends.keys() - bodies.keys()))


def _is_signed(secret: str, message: Message) -> bool:
    """As the specification Standard Webhooks says, without the service's own code."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message.id}.{message.headers['webhook-timestamp']}.".encode() + message.body
    expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
    return f"v1,{expected}" in message.headers["webhook-signature"].split()


def outcomes(service: RunningService) -> Counter[str]:
    """How jobs ended and what attempts went through, for the report."""
    database = checker.open_records(service)
    try:
        jobs = checker.rows(database, "select state as name, count(*) as n from job group by state")
        ends = checker.rows(database, "select outcome as name, count(*) as n from attempt group by outcome")
    finally:
        database.close()
    counted = Counter({f"jobs {row['name']}": row["n"] for row in jobs})
    counted.update({f"attempts {row['name']}": row["n"] for row in ends})
    return counted


def _audit(service: RunningService) -> list[str]:
    """The operator's own command; deep, it reads every byte again."""
    done = service.command("admin", "audit", "--deep", check=False, timeout_s=AUDIT_S)
    return (
        []
        if done.returncode == 0
        else [f"audit: {line}" for line in (done.stdout + done.stderr).splitlines()]
    )


def _stored(world: World) -> list[str]:
    """P5, P6: every blob of a row, read from its store without the service and hashed once more."""
    database = checker.open_records(world.service)
    try:
        # What was erased, or condemned by a sweep, may be gone.
        sql = "select id, size_bytes, sha256 from blob where condemned_at is null"
        return list(world.store.wrong(checker.rows(database, sql)))
    finally:
        database.close()


def _accepted(database: Database, clients: list[Client]) -> Iterator[str]:
    """P1, P2: every 202 is a job, one for a key, and ended as its client saw it."""
    jobs = {row["id"]: row for row in checker.rows(database, "select id, state, rerunnable from job")}
    keys = checker.rows(database, "select idempotency_key, job_id from idempotency")
    by_key = {row["idempotency_key"]: row["job_id"] for row in keys}
    if not len(keys) == len(by_key) == len(set(by_key.values())) == len(jobs):
        yield f"P2: {len(keys)} keys, {len(set(by_key.values()))} jobs of theirs, {len(jobs)} jobs"
    for work in (work for client in clients for work in client.works if work.job_id is not None):
        if by_key.get(work.key) != work.job_id or work.job_id not in jobs:
            yield f"P1: {work.job_id} was accepted under {work.key}, which stands for {by_key.get(work.key)}"
        elif work.is_done and jobs[work.job_id]["state"] != work.operation["state"]:
            yield f"P8: {work.job_id} is {jobs[work.job_id]}, its client saw {work.operation['state']}"


def _asked(database: Database, clients: list[Client]) -> Iterator[str]:
    """P1, P2: what a program asked for once is as many jobs as it is, and those that it was told of."""
    programs = [client for client in clients if isinstance(client, Program)]
    if not programs:
        return
    by_text: dict[str, set[str]] = {}
    for row in checker.rows(database, "select id, body from job where erased_at is null"):
        parameters = json.loads(row["body"])["parameters"]
        text = next((parameters[name] for name in ("text", "prompt", "context") if parameters.get(name)), "")
        by_text.setdefault(text, set()).add(row["id"])
    for ask in (ask for program in programs for ask in program.asks):
        jobs = by_text.get(ask.text, set())
        if not (ask.job_ids <= jobs and len(jobs) in (0, ask.jobs)):
            yield f"P2: {ask} has the jobs {sorted(jobs)}"
    sql = """select a.id from artifact a left join job j on j.id = a.sent_with_job_id
             where a.sent_with_job_id is not null
               and coalesce(j.input_artifact_ids, '') not like '%' || a.id || '%'"""
    for row in checker.rows(database, sql):
        yield f"P1: the recording {row['id']} is stored without its job"


def _uploaded(database: Database, clients: list[Client]) -> Iterator[str]:
    """Every 201 of an upload is a record, one for a key."""
    bound = {
        row["idempotency_key"]: row["record_id"]
        for row in checker.rows(database, "select idempotency_key, record_id from upload_key")
    }
    records = {row["id"] for row in checker.rows(database, "select id from artifact where job_id is null")}
    records |= {row["id"] for row in checker.rows(database, "select id from voice")}
    for client in clients:
        for key, record_id in client.uploads.items():
            if bound.get(key) != record_id or record_id not in records:
                yield f"P1: {record_id} was stored under {key}, which stands for {bound.get(key)}"


def _events(database: Database, clients: list[Client]) -> Iterator[str]:
    """P8: each job's events, in an order that transitions allow."""
    before: dict[str, str] = {}
    for row in checker.rows(database, "select job_id, sequence, type from event order by job_id, sequence"):
        last, now = before.get(row["job_id"], ""), row["type"]
        if now not in NEXT[last]:
            yield f"P8: {row['job_id']}: {now} after {last or 'nothing'}"
        before[row["job_id"]] = now


def _rest(database: Database) -> Iterator[str]:
    """Nobody works: no slot is busy, no attempt open, no job running."""
    for what, sql in (
        ("slots busy", "select count(*) as n from slot where job_id is not null"),
        ("attempts open", "select count(*) as n from attempt where state <> 'ended'"),
        ("jobs under way", "select count(*) as n from job where state in ('queued', 'running')"),
    ):
        number = checker.rows(database, sql)[0]["n"]
        if number:
            yield f"{number} {what} at rest"


def _free_waits(database: Database, clients: list[Client]) -> Iterator[str]:
    """P1: a job that may run again never waits for an operator, but those whose records were damaged."""
    for row in checker.rows(
        database,
        """select distinct j.id, e.detail from job j join event e on e.job_id = j.id
           join account a on a.id = j.account_id
           where j.rerunnable = 1 and e.type = 'recovery_required' and a.name <> 'operator'""",
    ):
        yield f"P1: {row['id']} may run again, and waited for an operator: {row['detail']}"


def _paid_once(database: Database, clients: list[Client]) -> Iterator[str]:
    """P10: a metered call is made once, and once more for each time that an operator said so by name.

    An attempt that was released has passed its fence and not called: the engine was not there.
    """
    for row in checker.rows(
        database,
        """select j.id, count(*) as calls,
                  (select count(*) from event e where e.job_id = j.id and e.type = 'requeued') as allowed
           from attempt t join job j on j.id = t.job_id
           where j.rerunnable = 0 and t.fenced_at is not null and t.outcome <> 'released'
           group by j.id""",
    ):
        if row["calls"] > 1 + row["allowed"]:
            yield f"P10: {row['id']} was called {row['calls']} times, {row['allowed']} times allowed again"


def _lost_often(database: Database, clients: list[Client]) -> Iterator[str]:
    """A job that failed for a lost engine had lost it three times; none fails for a machine's fault."""
    for row in checker.rows(
        database,
        """select id, error_code, hosts_lost from job where state = 'failed'
           and ((hosts_lost < 2 and error_code = 'engine_crashed')
                or error_code in ('storage_failed', 'input_unreadable', 'deadline_exceeded'))""",
    ):
        yield f"{row['id']} failed with {row['error_code']} after {row['hosts_lost']} losses"


def _logs(paths: list[Path]) -> Iterator[str]:
    """P16 and defects: no key, no text, no event that only a bug causes."""
    for path in paths:
        if not path.exists():
            continue
        text = path.read_text(errors="replace")
        if _KEY.search(text) or CANARY in text:
            yield f"P16: {path.name} holds a key or a text"
        yield from itertools.islice(_defects(path, text), MOST_OF_A_LOG)


def _defects(path: Path, text: str) -> Iterator[str]:
    """A process that cannot even begin, as no file can be opened, is ended by its interpreter: no defect."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith("{"):
            event: dict[str, Any] = json.loads(line) if line.endswith("}") else {}
            name = str(event.get("event"))
            if name in DEFECTS or name.startswith(UNANSWERED):
                yield f"{path.name}: {line[:3000]}"
        elif "Traceback" in line and NO_DESCRIPTOR not in (end := _end_of(lines[number + 1 :])):
            frames = itertools.takewhile(lambda each: each != end, lines[number + 1 :])
            trace = "\n".join([line, *frames, end])
            yield f"{path.name}: {trace[-3000:]}"


def _end_of(lines: list[str]) -> str:
    """What a traceback says, behind its frames; other processes' events may stand between its lines."""
    return next((line for line in lines if not line.startswith((" ", "{"))), "")


def _said(check: Any, *arguments: Any) -> list[str]:
    try:
        check(*arguments)
    except AssertionError as error:
        return [f"{check.__name__}: {error}"]
    return []
