"""A database that has been at work for long: copies of jobs that were really made, row by row.

A succeeded and a queued job of each account are the models; what belongs to them is copied with them, so
that records and money agree as if every copy had been submitted. For PostgreSQL.
"""

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
BATCH = 50_000

# Copies refer to copies: that what they refer to is there need not be looked up for each.
_SETTINGS = """
    set session_replication_role = replica;
    set synchronous_commit = off;
"""
_OF_JOB = {
    "job": "t.id = model.job_id",
    "blob": "t.id in (select blob_id from artifact where job_id = model.job_id)",
}
# The same id becomes the same copy in every table; copies come before all that the service makes today.
_COPIED = "split_part({0}, '_', 1) || '_0' || lpad(to_hex(n), 15, '0') || right({0}, 10)"
_KEY = "'copy ' || n || ' ' || {0}"
_BALANCES = """
    update account set available_micros = mine.available_micros, held_micros = mine.held_micros
    from (select account_id, sum(available_micros) as available_micros, sum(held_micros) as held_micros
          from entry group by account_id) as mine
    where account.id = mine.account_id
"""


def copy(url: str, models: list[str], count: int, *, first: int = 1, is_known: bool = True) -> None:
    """So many copies of these jobs in turns, numbered from `first`: numbers of two calls may not overlap.

    Unless it `is_known`, the server's statistics are what they were before.
    """
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(_SETTINGS)
        session.execute("create temporary table model (nth bigint, job_id text)")
        session.cursor().executemany("insert into model values (%s, %s)", list(enumerate(models)))
        statements = [_copying(session, table) for table in OWN_IDS]
        for start in range(first, first + count, BATCH):
            numbers = {"first": start, "last": min(start + BATCH, first + count) - 1, "models": len(models)}
            with session.transaction():
                for statement in statements:
                    session.execute(statement, numbers)
        session.execute(_BALANCES)
        for table in ("account", *OWN_IDS) if is_known else ():
            # As autovacuum does after a while: here and now, so that it does not while something is measured.
            # In this order, for connections keep the plans that they make when the second ends.
            session.execute(f"analyze {table}".encode())
            session.execute(f"vacuum {table}".encode())


def _copying(session: psycopg.Connection[tuple[str, ...]], table: str) -> bytes:
    """The statement that copies the models' rows of one table.

    They are set aside first: where no index leads from a job to its rows, a table is read from end to end.
    """
    of_job = _OF_JOB.get(table, "t.job_id = model.job_id")
    aside = f"model_{table}"
    session.execute(
        f"create temporary table {aside} as select nth, t.* from model join {table} t on {of_job}".encode()
    )
    session.execute(f"analyze {aside}".encode())
    found = session.execute(f"select * from {table} limit 0".encode()).description or ()
    columns = [column.name for column in found]
    values = [
        column
        if column not in OWN_IDS[table]
        else (_KEY if column == "idempotency_key" else _COPIED).format(column)
        for column in columns
    ]
    return f"""insert into {table} ({", ".join(columns)})
               select {", ".join(values)}
               from generate_series(%(first)s::bigint, %(last)s::bigint) as n
               join {aside} on nth = n %% %(models)s
               order by n""".encode()
