"""The audit finds each corruption that it knows, and nothing in a healthy database."""

import sqlite3

import psycopg
import pytest

from jobs.world import METERED, World
from tenuto.jobs import audit

CORRUPTIONS: dict[str, list[str]] = {
    "an account's balances are not the sums of its entries": [
        "update account set available_micros = available_micros + 1 where id = '{account}'",
        "update account set held_micros = held_micros - 1 where id = '{account}'",
        "delete from entry where type = 'credit' and account_id = '{account}'",
    ],
    "an entry does not sum to zero": ["update entry set revenue_micros = 1 where job_id = '{running}'"],
    "a job has no hold, or another than it froze": [
        "delete from entry where job_id = '{running}'",
        "update job set hold_micros = hold_micros + 1 where id = '{running}'",
    ],
    "a final job has no resolution, or an open one has one": [
        "delete from entry where job_id = '{succeeded}' and type = 'settle'",
        "delete from entry where job_id = '{failed}' and type = 'void'",
        "update job set state = 'queued' where id = '{failed}'",
    ],
    "a succeeded job is not settled at what it was charged, or another one is settled": [
        "update job set charged_micros = charged_micros - 1 where id = '{succeeded}'",
        "update entry set type = 'void' where job_id = '{succeeded}' and type = 'settle'",
        "update entry set type = 'settle' where job_id = '{failed}' and type = 'void'",
    ],
    "an account holds something else than its open jobs do": [
        "update job set hold_micros = 0 where id = '{running}'",
        "update job set state = 'failed' where id = '{running}'",
    ],
    "a succeeded job has no artifact, or another one has one": [
        "update job set artifact_id = null where id = '{succeeded}'",
        "update job set artifact_id = '{artifact}' where id = '{failed}'",
    ],
    "an artifact has no bytes, or they are condemned": [
        "delete from blob where id = '{blob}'",
        "update blob set condemned_at = 1 where id = '{blob}'",
        "update blob set size_bytes = 1 where id = '{blob}'",
        "update blob set sha256 = 'x' where id = '{blob}'",
    ],
    "a running job has no open attempt of its own": [
        "update attempt set state = 'ended' where job_id = '{running}'",
        "update job set attempt_id = null where id = '{running}'",
        "update job set state = 'running' where id = '{recovering}'",
    ],
    "a slot is busy with an attempt that is over, or a running attempt has no slot": [
        "update slot set job_id = null, attempt_id = null",
        "update slot set attempt_id = (select attempt_id from job where id = '{failed}')",
        "update attempt set state = 'ended' where job_id = '{running}'",
    ],
    "an idempotency key names a job that does not exist": [
        "update idempotency set job_id = 'job_0' where job_id = '{running}'"
    ],
    "a job's events have a gap": [
        "delete from event where job_id = '{succeeded}' and sequence = 1",
        "delete from event where job_id = '{running}'",
        "update job set event_sequence = event_sequence + 1 where id = '{failed}'",
    ],
}


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_a_corruption_is_found(broken_world: World, database_url: str, what: str) -> None:
    """Each check by itself, in each way that its rows can disagree; repaired, nothing is found."""
    world = broken_world
    names = a_bit_of_everything(world)
    assert [] == world.findings()

    for corruption in CORRUPTIONS[what]:
        kept = save(world)
        force(database_url, [corruption.format_map(names)])
        found = {finding.what for finding in world.read(audit.audit)}
        assert what in found, corruption
        force(database_url, restore(kept))
        assert [] == world.findings(), corruption


def test_every_check_has_its_corruption() -> None:
    """A check that no test has seen finding anything proves nothing."""
    assert {what for what, _ in audit._CHECKS} == {*CORRUPTIONS}


def test_findings_are_bounded(broken_world: World, database_url: str) -> None:
    """A badly broken database gives a list that can be read."""
    world = broken_world
    caller = world.caller(1_000_000_000)
    for number in range(audit.MAX_FINDINGS + 5):
        world.submit(caller, f"key {number}")
    force(database_url, ["delete from event"])

    assert audit.MAX_FINDINGS == len(world.findings())


def a_bit_of_everything(world: World) -> dict[str, str]:
    """A job in each state, and their ids by name."""
    succeeded = world.running()
    world.finish(succeeded.attempt_id)
    failed = world.running()
    world.fail(failed.attempt_id)
    recovering = world.running(METERED)
    world.fence(recovering.attempt_id)
    world.unknown(recovering.attempt_id)
    running = world.running()
    artifact = world.row("select id, blob_id from artifact")
    return {
        "account": running.account_id,
        "succeeded": succeeded.job_id,
        "failed": failed.job_id,
        "recovering": recovering.job_id,
        "running": running.job_id,
        "artifact": artifact["id"],
        "blob": artifact["blob_id"],
    }


def force(url: str, statements: list[str]) -> None:
    """Run statements that the database's own constraints would refuse."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.execute("pragma ignore_check_constraints = on")
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("set session_replication_role = replica")
        for name in ("entry", "job"):
            checks = session.execute(
                "select conname from pg_constraint where conrelid = %s::regclass and contype = 'c'", [name]
            ).fetchall()
            for (check,) in checks:
                session.execute(f"alter table {name} drop constraint {check}".encode())
        for statement in statements:
            session.execute(statement.encode())


REPAIRED = ("account", "entry", "idempotency", "blob", "artifact", "job", "attempt", "slot", "event")


def save(world: World) -> dict[str, list[dict[str, object]]]:
    """The rows of every table that a corruption touches."""
    return {table: world.all(f"select * from {table}") for table in REPAIRED}


def restore(kept: dict[str, list[dict[str, object]]]) -> list[str]:
    """The statements that put saved rows back."""
    statements = [f"delete from {table}" for table in REPAIRED]
    for table, rows in kept.items():
        statements += [
            f"insert into {table} ({', '.join(row)}) values ({', '.join(map(written, row.values()))})"
            for row in rows
        ]
    return statements


def written(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
