"""Damage to the database itself: a bit in a page of an index, or of a table, is found by the audit."""

import sqlite3
from pathlib import Path

import pytest

from servers.postgres import PostgresServer
from servers.service import RunningService
from servers.world import World
from tenuto.features.audit.all_checks import database_damage

INDEX = "sqlite_autoindex_idempotency_1"


@pytest.fixture
def damaged(tmp_path: Path) -> RunningService:
    """An installation with an account and 50 idempotency keys, and one bit of their index flipped."""
    place = RunningService(tmp_path / "data")
    place.command("admin", "accounts", "create", "me")
    file = place.folder / "tenuto.db"
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executemany(
        "insert into idempotency values ('key_1', ?, 'sha', 'job_' || ?, 0)",
        [(f"request {number:02}", number) for number in range(50)],
    )
    connection.execute("pragma wal_checkpoint(truncate)")
    size = connection.execute("pragma page_size").fetchone()[0]
    [root] = connection.execute("select rootpage from sqlite_master where name = ?", (INDEX,)).fetchone()
    connection.close()
    content = bytearray(file.read_bytes())
    content[content.index(b"request 25", (root - 1) * size)] ^= 1
    file.write_bytes(content)
    return place


def test_a_flipped_bit_in_an_index_is_found(damaged: RunningService) -> None:
    """A resend would find no key and make a second job: the deep audit and doctor name the index (P2)."""
    deep = damaged.command("admin", "audit", "--deep", check=False)
    doctor = damaged.command("admin", "doctor", check=False).stdout
    database = damaged.open_database()
    hourly = database_damage(database, deep=False)
    database.close()

    assert 1 == deep.returncode
    assert INDEX in deep.stdout
    assert {"database_damaged"} == {finding.check for finding in hourly}
    assert "FAIL  database: is damaged: idempotency" in doctor


def test_a_sound_database_has_no_findings(world: World) -> None:
    """On either database, at every depth."""
    world.running()

    assert [] == database_damage(world.database, deep=False)
    assert [] == database_damage(world.database, deep=True)


@pytest.mark.parametrize("amcheck", [True, False])
def test_a_row_that_its_index_does_not_find_is_found(
    postgres_server: PostgresServer, tmp_path: Path, amcheck: bool
) -> None:
    """PostgreSQL: by its own amcheck, or by looking up every row of a unique index (P2)."""
    name = f"unindexed_{int(amcheck)}"
    postgres_server.run(f"create database {name}")
    place = RunningService(tmp_path / "data", postgres_server.url(name))
    place.command("admin", "accounts", "create", "me")
    if amcheck:
        run(place, "create extension amcheck")
    live = "update pg_index set indisready = {} where indexrelid = 'idempotency_pkey'::regclass"
    run(place, live.format("false"))
    run(place, "insert into idempotency values ('key_1', 'request', 'sha', 'job_1', 0)")
    run(place, live.format("true"))
    deep = place.command("admin", "audit", "--deep", check=False)

    assert 1 == deep.returncode
    assert "idempotency_pkey: the database's own check reports damage" in deep.stdout


def run(place: RunningService, statement: str) -> None:
    """One statement, on a connection of its own, so that every plan and cache is a new one."""
    database = place.open_database()
    database.write(lambda tx: tx.do(statement))
    database.close()
