"""A database that has grown: many jobs like one, and what SQLite would do to read them."""

from collections.abc import Callable
from typing import Any

from servers.world import World
from tenuto.db import schema
from tenuto.db.database import Transaction

COPIES = 3_000
"""So many that a planner prefers an index to reading the table."""


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


def sqlite_steps(world: World, read: Callable[[Any], object]) -> list[str]:
    """How SQLite would answer the first statement of the reading."""
    steps: list[str] = []

    class Explaining:
        def all(self, sql: str, /, **parameters: Any) -> list[Any]:
            steps.extend(row["detail"] for row in world.all(f"explain query plan {sql}", **parameters))
            return []

    read(Explaining())
    return steps
