"""Every table that names a job or an account: who erases what it keeps of a job's content."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tenuto.db import schema
from tenuto.db.database import Database, Transaction
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.db.schema import Table
from tenuto.feature import features
from tenuto.job.erasure import Erased

NAMES_A_JOB_OR_AN_ACCOUNT = {"job_id", "account_id"}
CORE = frozenset(
    {"api_key", "artifact", "attempt", "entry", "event", "idempotency", "job", "job_recording", "kept_result"}
    | {"part", "queue_room", "segment", "slot", "turn"}
)
"""The core's own: `job/erasure.py` erases what they keep, or they keep states, figures and ids."""
NO_CONTENT = {
    "chat_usage": "figures by day and model",
    "invitation": "the hash of a link",
    "login": "an account's password, hashed",
    "model_call": "figures of a call",
    "span_export": "how far the events were read",
    "voice": "an account's own, which its owner deletes",
    "voice_preference": "an account's own, which its owner changes",
    "web_session": "the hash of a cookie",
    "webhook": "an account's own, which its owner deletes",
    "webhook_sender": "how far the events were read",
}
"""Tables of features without anything of a job's content, and what they have instead."""
JOB = "job_00000000000000000000000000"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty SQLite database, which takes rows that refer to nothing."""
    with closing(open_database("sqlite:///empty.db", folder=tmp_path)) as database:
        migrate(database)
        yield database


def naming(tx: Transaction) -> list[Table]:
    """The tables that name a job or an account."""
    return [t for t in schema.tables(tx, "sqlite") if NAMES_A_JOB_OR_AN_ACCOUNT & set(t.columns)]


def test_every_table_that_keeps_something_of_a_job_has_its_turn_at_an_erasure(database: Database) -> None:
    """A new table of a feature is erased by that feature, or is in one of the lists above, with a reason."""
    tables = [
        table for table in database.read(naming) if table.name not in CORE and table.name not in NO_CONTENT
    ]

    def erase(tx: Transaction) -> set[str]:
        tx.do("pragma defer_foreign_keys = on")
        for table in tables:
            schema.insert(
                tx, "sqlite", table, table.columns, [[_value(table, name) for name in table.columns]]
            )
        for feature in features().values():
            if feature.erase:
                feature.part(feature.erase)(tx, Erased(JOB))
        left = {table.name for table in tables if schema.has_rows(tx, table)}
        for table in tables:
            tx.run(f"delete from {table.name}")
        return left

    assert "live_text" in {table.name for table in tables}
    assert set() == database.write(erase)


def test_the_lists_name_tables_that_are_there(database: Database) -> None:
    """What is listed was not renamed, and is in one list alone."""
    there = {table.name for table in database.read(naming)}

    assert (CORE | NO_CONTENT.keys()) <= there
    assert not CORE & NO_CONTENT.keys()


def _value(table: Table, column: str) -> str | int:
    return JOB if column == "job_id" else 1 if column in table.integers else "x"
