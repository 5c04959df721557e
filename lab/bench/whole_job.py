"""What a job costs from its submission to its end: processor time of each process, commits, log, rows.

These hardly depend on how quick the machine is at the moment, so they tell what many machines would need.
"""

import time

import psutil
from lab.bench.client import flood
from lab.bench.report import Row
from lab.bench.stage import TEXT, Stage, clients, stage

from servers.postgres import PostgresServer

JOBS = 3_000
CLIENTS, SLOTS = 8, 8
FLUSH_S = 2
"""Until PostgreSQL's statistics contain what its sessions did."""
TIMEOUT_S = 300
PROCESSES = ("API", "worker and its host", "PostgreSQL")
_SIZE = """select sum(pg_total_relation_size(oid))::bigint as n from pg_class
           where relkind = 'r' and relnamespace = 'public'::regnamespace"""
_COMMITS = "select xact_commit as n from pg_stat_database where datname = current_database()"
_LOG = "select (pg_current_wal_lsn() - '0/0')::bigint as n"
_UNFINISHED = "select count(*) as n from job where finished_at is null"


def measure(postgres: PostgresServer | None) -> list[Row]:
    """On PostgreSQL alone."""
    if postgres is None:
        return []
    with stage(postgres, TENUTO_SPEECH_SLOTS=str(SLOTS)) as running:
        running.wait(running.submit(TEXT), "succeeded")
        before = _figures(running)
        tally = flood(running.port, clients(running.keys, CLIENTS), lambda answers: answers < JOBS)
        assert not tally.other, tally.other
        _await_all(running)
        after = _figures(running)
    each = {name: (after[name] - before[name]) / tally.new for name in after}
    how = f"of {tally.new:,} jobs that do nothing, {SLOTS} slots, {CLIENTS} clients, all on one machine"
    shown = {
        **{f"processor time, {name}": f"{1000 * each[name]:.2f} ms" for name in PROCESSES},
        "commits": f"{each['commits']:.1f}",
        "PostgreSQL's log": f"{each['log'] / 1000:.1f} kB",
        "rows and their indexes": f"{each['size'] / 1000:.1f} kB",
    }
    return [Row(f"a whole job: {what}", value, reason=how) for what, value in shown.items()]


def _await_all(running: Stage) -> None:
    """Asked seldom, for the question costs as much as some of what is measured."""
    for _ in range(TIMEOUT_S):
        if running.query(_UNFINISHED)[0]["n"] == 0:
            return
        time.sleep(1)
    raise TimeoutError("the jobs do not end")


def _figures(running: Stage) -> dict[str, float]:
    time.sleep(FLUSH_S)
    counted = {"commits": _COMMITS, "log": _LOG, "size": _SIZE}
    return {**_spent_s(running), **{name: running.query(sql)[0]["n"] for name, sql in counted.items()}}


def _spent_s(running: Stage) -> dict[str, float]:
    """User and system time of the processes so far."""
    api = running.api()
    backend = psutil.Process(running.query("select pg_backend_pid() as n")[0]["n"])
    server = backend.parent()
    assert server is not None
    families = ([api], api.children(recursive=True), [server, *server.children()])
    return {name: _of(family) for name, family in zip(PROCESSES, families, strict=True)}


def _of(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))
