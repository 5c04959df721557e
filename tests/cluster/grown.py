"""A database that has been at work for long: copies of jobs that were really made, row by row.

A succeeded and a queued job of each account are the models; what belongs to them is copied with them, so
that records and money agree as if every copy had been submitted. For both databases.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg

OWN_IDS = {
    "blob": ("id",),
    "artifact": ("id", "job_id", "blob_id"),
    "job": ("id", "attempt_id", "artifact_id"),
    "attempt": ("id", "job_id", "blob_id"),
    "event": ("job_id", "attempt_id"),
    "entry": ("id", "job_id"),
    "idempotency": ("idempotency_key", "job_id"),
}
"""Where a job has rows, and the ids in them that are its own."""
Execute = Callable[[str], list[tuple[str, ...]]]
"""Carries out a statement and gives its rows."""

_SQLITE = "sqlite:///"
_OF_JOB = {
    "job": "t.id = model.job_id",
    "blob": "t.id in (select blob_id from artifact where job_id = model.job_id)",
}
_KEY = "'copy ' || n || ' ' || {0}"
_BALANCES = """
    update account set available_micros = mine.available_micros, held_micros = mine.held_micros
    from (select account_id, sum(available_micros) as available_micros, sum(held_micros) as held_micros
          from entry group by account_id) as mine
    where account.id = mine.account_id
"""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """What the two databases say differently."""

    settings: tuple[str, ...]
    """Copies refer to copies: that what they refer to is there need not be looked up for each."""
    copied: str
    """The id of a copy. The same id becomes the same copy in every table; copies come before all that the
    service makes today."""
    numbers: str
    """The table `numbers` of a batch."""
    batch: int
    """SQLite has one writer at a time: a service waits for it for less than its patience."""
    known: tuple[str, ...]
    """As autovacuum does after a while, for each table: here and now, so that it does not while something is
    measured. In this order, for connections keep the plans that they make when the second ends."""


_POSTGRES = _Dialect(
    settings=("set session_replication_role = replica", "set synchronous_commit = off"),
    copied="split_part({0}, '_', 1) || '_0' || lpad(to_hex(n), 15, '0') || right({0}, 10)",
    numbers="select n from generate_series({first}::bigint, {last}::bigint) as n",
    batch=50_000,
    known=("analyze {0}", "vacuum {0}"),
)
_IN_A_FILE = _Dialect(
    settings=("pragma foreign_keys = off", "pragma synchronous = off", "pragma busy_timeout = 60000"),
    copied="substr({0}, 1, instr({0}, '_') - 1) || '_0' || printf('%015x', n) || substr({0}, -10)",
    numbers="select {first} as n union all select n + 1 from numbers where n < {last}",
    batch=5_000,
    known=(),
)


def copy(url: str, models: list[str], count: int, *, first: int = 1, is_known: bool = True) -> None:
    """So many copies of these jobs in turns, numbered from `first`: numbers of two calls may not overlap.

    Unless it `is_known`, the server's statistics are what they were before.
    """
    dialect = _IN_A_FILE if url.startswith(_SQLITE) else _POSTGRES
    with _session(url) as execute:
        for setting in dialect.settings:
            execute(setting)
        execute("create temporary table model (nth bigint, job_id text)")
        named = ", ".join(f"({nth}, '{job_id}')" for nth, job_id in enumerate(models))
        execute(f"insert into model values {named}")
        statements = [_copying(execute, dialect, table, len(models)) for table in OWN_IDS]
        for start in range(first, first + count, dialect.batch):
            last = min(start + dialect.batch, first + count) - 1
            execute("begin")
            for statement in statements:
                execute(statement.replace("{first}", str(start)).replace("{last}", str(last)))
            execute("commit")
        execute(_BALANCES)
        for table in ("account", *OWN_IDS) if is_known else ():
            for statement in dialect.known:
                execute(statement.format(table))


def copy_of(job_id: str, number: int) -> str:
    """The id of this copy of a job, or of what belongs to it."""
    return f"{job_id.partition('_')[0]}_0{number:015x}{job_id[-10:]}"


@contextmanager
def _session(url: str) -> Iterator[Execute]:
    """One connection, whose statements are committed one by one unless one says `begin`."""
    if url.startswith(_SQLITE):
        with closing(sqlite3.connect(url.removeprefix(_SQLITE), isolation_level=None)) as file:
            yield lambda statement: file.execute(statement).fetchall()
        return
    with psycopg.connect(url, autocommit=True) as server:

        def execute(statement: str) -> list[tuple[str, ...]]:
            cursor = server.execute(statement.encode())
            return [] if cursor.description is None else cursor.fetchall()

        yield execute


def _copying(execute: Execute, dialect: _Dialect, table: str, models: int) -> str:
    """The statement that copies the models' rows of one table.

    They are set aside first: where no index leads from a job to its rows, a table is read from end to end.
    """
    of_job = _OF_JOB.get(table, "t.job_id = model.job_id")
    aside = f"model_{table}"
    execute(f"create temporary table {aside} as select nth, t.* from model join {table} t on {of_job}")
    if dialect.known:
        execute(f"analyze {aside}")
    columns = _columns(execute, dialect, table)
    values = [
        column
        if column not in OWN_IDS[table]
        else (_KEY if column == "idempotency_key" else dialect.copied).format(column)
        for column in columns
    ]
    return f"""insert into {table} ({", ".join(columns)})
               with recursive numbers (n) as ({dialect.numbers})
               select {", ".join(values)}
               from numbers join {aside} on nth = n % {models}
               order by n"""


def _columns(execute: Execute, dialect: _Dialect, table: str) -> list[str]:
    question = (
        f"select name from pragma_table_info('{table}') order by cid"
        if dialect is _IN_A_FILE
        else f"""select attname from pg_attribute
                 where attrelid = '{table}'::regclass and attnum > 0 and not attisdropped order by attnum"""
    )
    return [name for (name,) in execute(question)]
