"""A database that has been at work for long: copies of jobs that were really made, row by row.

A succeeded and a queued job of each account are the models; what belongs to them is copied with them, so
that records and money agree as if every copy had been submitted. For PostgreSQL.
"""

from tenuto.db import schema
from tenuto.db.database import Database, Transaction

OWN_IDS = {
    "blob": ("id",),
    "artifact": ("id", "job_id", "blob_id"),
    "job": ("id", "attempt_id", "artifact_id"),
    "attempt": ("id", "job_id", "blob_id"),
    "event": ("job_id", "attempt_id"),
    "entry": ("id", "job_id"),
    "idempotency": ("idempotency_key", "job_id"),
}
"""Where a job has rows, each table after those that it refers to, and the ids in them that are its own."""
BATCH = 5_000

# The same id becomes the same copy in every table; copies come before all that the service makes today.
_COPIED = "split_part({0}, '_', 1) || '_0' || lpad(to_hex(n), 15, '0') || right({0}, 10)"
_KEY = "'copy ' || n || ' ' || {0}"
_OF_JOB = {
    "job": "id = :job_id",
    "blob": "id in (select blob_id from artifact where job_id = :job_id)",
}
_BALANCES = """
    update account set
        available_micros = (select cast(sum(available_micros) as bigint) from entry
                            where account_id = account.id),
        held_micros = (select cast(sum(held_micros) as bigint) from entry where account_id = account.id)
    where id = :id and exists (select 1 from entry where account_id = account.id)
"""


def copy(database: Database, models: list[str], count: int, *, first: int = 1) -> None:
    """So many copies of these jobs in turns, numbered from `first`: numbers of two calls may not overlap."""
    tables = database.read(lambda tx: schema.tables(tx, database.dialect))
    statements = [_statement(table) for name in OWN_IDS for table in tables if table.name == name]
    for start in range(first, first + count, BATCH):
        last = min(start + BATCH, first + count) - 1

        def copy_some(tx: Transaction, start: int = start, last: int = last) -> None:
            # Copies refer to copies: that what they refer to is there need not be looked up for each.
            tx.do("set local session_replication_role = replica")
            for nth, job_id in enumerate(models):
                for sql in statements:
                    tx.do(sql, job_id=job_id, first=start + nth, last=last, step=len(models))

        database.write(copy_some)
    for account in database.read(lambda tx: tx.all("select id from account")):
        database.write(lambda tx, account=account: tx.do(_BALANCES, id=account["id"]))  # type: ignore[misc]
    for name in ("account", *OWN_IDS):
        # As autovacuum does after a while.
        database.write(lambda tx, name=name: tx.do(f"analyze {name}"))  # type: ignore[misc]


def _statement(table: schema.Table) -> str:
    """Copies a job's rows of one table."""
    values = ", ".join(
        column
        if column not in OWN_IDS[table.name]
        else (_KEY if column == "idempotency_key" else _COPIED).format(column)
        for column in table.columns
    )
    of_job = _OF_JOB.get(table.name, "job_id = :job_id")
    return f"""insert into {table.name} ({", ".join(table.columns)})
               select {values} from {table.name}, generate_series(:first, :last, :step) as n
               where {of_job}"""
