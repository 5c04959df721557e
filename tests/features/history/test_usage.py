"""What an account used: which jobs are counted, and how many rows it takes to count them."""

import datetime
from collections.abc import Iterator
from typing import Any

from features.history.copies import copy, remove_copies, sqlite_steps
from servers.plans import plans_of
from servers.world import PRICE_MICROS, START_MS, World
from tenuto.account.caller import Caller
from tenuto.db.database import Transaction
from tenuto.features.history import usage
from tenuto.features.history.rows import DAY_MS, JobUsage

TODAY = datetime.datetime.fromtimestamp(START_MS / 1000, datetime.UTC).date()


def test_succeeded_jobs_are_counted_by_the_day_they_were_accepted_on(world: World) -> None:
    """Neither those that failed or run, nor another account's (R207)."""
    caller, other = world.caller(), world.caller()
    for who, key in ((caller, "a"), (caller, "b"), (other, "c")):
        world.done(who, key)
    world.submit(caller, "waits")
    line = JobUsage(START_MS // DAY_MS, "fake/speech", "speech", caller.key_id, 2, 6, 2_000, 2 * PRICE_MICROS)

    assert [line] == used(world, caller)
    assert [] == used(world, caller, since=-2, until=-1)
    assert [] == used(world, caller, since=1, until=2)


def test_usage_touches_the_accounts_own_jobs_of_these_days_alone(world: World) -> None:
    """Whatever the account did on other days, and others did on these: an index has all that is added up."""
    caller, other = world.caller(), world.caller()
    mine, theirs = world.done(caller, "mine"), world.done(other, "theirs")
    copy(world, mine, lambda n: {"created_at": START_MS - (40 + n % 40) * DAY_MS})
    copy(world, theirs, lambda n: {"created_at": START_MS - n % 40 * DAY_MS})
    [line] = used(world, caller, since=-30)
    touched = TOUCHED[world.database.dialect](world, caller)
    remove_copies(world)

    assert (1, "job_used") == (line.jobs, touched)


def used(world: World, caller: Caller, *, since: int = 0, until: int = 0) -> list[JobUsage]:
    """From one day to another, counted from today."""
    return world.read(lambda tx: asked(tx, caller, since, until))


def asked(tx: Transaction, caller: Caller, since: int, until: int = 0) -> list[JobUsage]:
    first, last = (TODAY + datetime.timedelta(days=days) for days in (since, until))
    return usage.of_account(tx, caller.account_id, since=first, until=last, limit=1000)


def touched_in_sqlite(world: World, caller: Caller) -> str:
    """The index that covers the account and its days; else the plan."""
    steps = sqlite_steps(world, lambda tx: asked(tx, caller, -30))
    reading = "SEARCH job USING COVERING INDEX job_used (account_id=? AND created_at>? AND created_at<?)"
    return "job_used" if [reading] == [step for step in steps if "TEMP B-TREE" not in step] else str(steps)


def touched_in_postgres(world: World, caller: Caller) -> str:
    """The index through which one row was looked at, and no other; else the plan."""
    [plan] = plans_of(world.database, lambda tx: asked(tx, caller, -30))
    scans = [node for node in nodes(plan.root) if "Scan" in node["Node Type"]]
    rows = [node["Actual Rows"] + node.get("Rows Removed by Filter", 0) for node in scans]
    return "job_used" if {"job_used"} == plan.indexes() and {1} == set(rows) else plan.line()


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)


TOUCHED = {"sqlite": touched_in_sqlite, "postgresql": touched_in_postgres}
