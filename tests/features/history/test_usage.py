"""What was used and how the service did: what is added up, and from how few rows, on both databases."""

import datetime
from collections.abc import Callable
from typing import Any

from servers.plans import plans_of
from servers.world import PRICE_MICROS, START_MS, World
from tenuto.account.caller import Caller
from tenuto.db import schema
from tenuto.db.database import Transaction
from tenuto.features.history import usage
from tenuto.features.history.rows import DAY_MS, JobUsage
from tenuto.features.history.usage import Statistics, Times

MINUTE_MS = 60_000
COPIES = 3_000
"""So many that a planner prefers an index to reading the table."""
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


def test_jobs_are_counted_where_they_ended_and_in_the_queue_until_they_began(world: World) -> None:
    """One waited two minutes and ran one; another waits; the charge is of the minute of its settlement."""
    world.now_ms = START_MS // MINUTE_MS * MINUTE_MS + MINUTE_MS // 2
    caller = world.caller()
    world.submit(caller, "a")
    pass_minutes(world, 1)
    world.submit(caller, "b")
    pass_minutes(world, 1)
    claim = world.claim()
    assert claim is not None
    during = look(world)
    pass_minutes(world, 1)
    world.finish(claim.attempt_id)
    pass_minutes(world, 1)
    after = look(world)
    [tally] = after.models.values()

    assert [0, 1, 2, 1] == [0, *during.queued[-3:]]
    assert [1, 2, 1, 1, 1] == after.queued[-5:]
    assert [0, 0, 0, 1, 0] == [slot.jobs for slot in after.slots[-5:]]
    assert (1, 1, 0, PRICE_MICROS) == (tally.jobs, tally.succeeded, tally.failed, tally.charged_micros)
    assert [2 * MINUTE_MS, MINUTE_MS] == [tally.waits.percentile_ms(0.95), tally.runs.percentile_ms(0.5)]
    assert after.first == after.complete_from


def test_what_failed_and_what_never_began_are_counted(world: World) -> None:
    """A cancelled job left the queue when it ended, and has neither waited nor run."""
    caller = world.caller()
    job_id = world.submit(caller, "a").job_id
    world.submit(caller, "b")
    pass_minutes(world, 1)
    world.cancel(caller.account_id, job_id)
    claim = world.claim()
    assert claim is not None
    world.fail(claim.attempt_id)
    done = look(world)

    assert [2, 0] == done.queued[-2:]
    assert (2, 1, 0) == (done.slots[-1].jobs, done.slots[-1].failed, done.slots[-1].charged_micros)
    assert 1 == sum(done.slots[-1].waits.classes.values())


def test_only_the_newest_are_added_up(world: World, monkeypatch: Any) -> None:
    """And the answer says since when it is all of them, so that no part is taken for the whole."""
    job_id = world.done(world.caller())
    copy(world, job_id, lambda n: earlier(n, every_ms=1_000))
    monkeypatch.setattr(usage, "MOST_JOBS", 60)
    cut = look(world)
    remove_copies(world)

    assert 60 == sum(slot.jobs for slot in cut.slots)
    assert cut.first < cut.complete_from <= world.now_ms // MINUTE_MS


def test_indexes_have_all_that_is_added_up(world: World) -> None:
    """Rows of jobs hold what was asked, so they are long: none is read."""
    caller, other = world.caller(), world.caller()
    mine, theirs = world.done(caller, "mine"), world.done(other, "theirs")
    copy(world, mine, lambda n: earlier(n, every_ms=MINUTE_MS) | accepted(40 + n % 40))
    copy(world, theirs, lambda n: earlier(n, every_ms=MINUTE_MS) | accepted(n % 40))
    [line] = used(world, caller, since=-30)
    touched = [
        indexes(world, lambda tx: asked(tx, caller, -30)),
        indexes(world, lambda tx: usage.statistics(tx, "hour", now_ms=world.now_ms)),
    ]
    remove_copies(world)

    assert 1 == line.jobs
    assert ("job_used" in touched[0], "job_finished" in touched[1]) == (True, True), touched


def test_percentiles_lie_between_the_bounds_that_are_counted() -> None:
    """Interpolated within a class, and never beyond the longest: a single job took what it took."""

    def of(jobs: dict[int, int], share: float, longest_ms: int = 10**9) -> int | None:
        times = Times()
        for number, count in jobs.items():
            times.add(number, count, longest_ms)
        return times.percentile_ms(share)

    assert [None, 50, 95, 1_500, 10_800_000] == [
        of({}, 0.5),
        of({0: 10}, 0.5),
        of({0: 10}, 0.95),
        of({4: 2}, 0.5),
        of({16: 1}, 0.95),
    ]
    assert [21_000, 21_000, 3, 0] == [
        of({8: 1}, 0.5, 21_000),
        of({8: 1}, 0.95, 21_000),
        of({0: 10}, 0.5, 3),
        of({0: 1}, 0.5, -5),
    ]


def copy(world: World, job_id: str, changes: Callable[[int], dict[str, int]]) -> None:
    """Many jobs like this one, but for the changes of the nth."""

    def insert(tx: Transaction) -> None:
        dialect = world.database.dialect
        [job] = [table for table in schema.tables(tx, dialect) if table.name == "job"]
        row = tx.one("select * from job where id = :id", id=job_id)
        assert row is not None
        model = {name: row[name] for name in job.columns}
        copies = [model | {"id": f"{job_id} {n}", **changes(n)} for n in range(COPIES)]
        schema.insert(tx, dialect, job, job.columns, [list(each.values()) for each in copies])
        tx.run("analyze")

    world.write(insert)


def remove_copies(world: World) -> None:
    """They have no history, which the audit at the end of the test would miss."""
    world.run("delete from job where id like '% %'")


def indexes(world: World, read: Callable[[Any], object]) -> set[str]:
    """The indexes from which the first statement is answered without the table."""
    if world.database.dialect == "postgresql":
        plan = plans_of(world.database, read)[0]
        return set() if "job" in plan.scanned() else plan.indexes()
    steps: list[str] = []

    class Explaining:
        def all(self, sql: str, /, **parameters: Any) -> list[Any]:
            steps.extend(row["detail"] for row in world.all(f"explain query plan {sql}", **parameters))
            return []

    read(Explaining())
    return {step.split("COVERING INDEX ")[1].split()[0] for step in steps if "COVERING INDEX" in step}


def used(world: World, caller: Caller, *, since: int = 0, until: int = 0) -> list[JobUsage]:
    """From one day to another, counted from today."""
    return world.read(lambda tx: asked(tx, caller, since, until))


def asked(tx: Transaction, caller: Caller, since: int, until: int = 0) -> list[JobUsage]:
    first, last = (TODAY + datetime.timedelta(days=days) for days in (since, until))
    return usage.of_account(tx, caller.account_id, since=first, until=last, limit=1000)


def pass_minutes(world: World, number: int) -> None:
    world.now_ms += number * MINUTE_MS


def look(world: World) -> Statistics:
    return world.read(lambda tx: usage.statistics(tx, "hour", now_ms=world.now_ms))


def accepted(days_ago: int) -> dict[str, int]:
    return {"created_at": START_MS - days_ago * DAY_MS}


def earlier(n: int, *, every_ms: int) -> dict[str, int]:
    """The times of the nth job before the newest."""
    ended = START_MS - n * every_ms
    return {"created_at": ended - 700, "started_at": ended - n % 600, "finished_at": ended}
