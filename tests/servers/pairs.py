"""A PostgreSQL primary and its standby, for tests of failovers. Knows nothing of Tenuto."""

from dataclasses import dataclass

import psycopg

from servers.postgres import PostgresServer, start_postgres
from servers.processes import until

NAME = "tenuto"
"""The database of both."""
_PATIENCE_S = 60.0


@dataclass
class Pair:
    """Two servers; whoever is given the URL of both finds the old one first."""

    old: PostgresServer
    new: PostgresServer

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/{NAME}?host={self.old.folder},{self.new.folder}"

    def promote(self) -> None:
        """The standby has all that was written, and becomes a primary; the old one stays as it is."""
        self.catch_up()
        self.new.run("select pg_promote()")

    def fail_over(self) -> None:
        """The old primary dies first."""
        self.catch_up()
        self.old.kill()
        self.new.run("select pg_promote()")

    def catch_up(self) -> None:
        """Wait until the standby has all that was written."""
        [written] = ask(self.old, "select pg_current_wal_lsn()::text")
        seen = f"select (pg_last_wal_replay_lsn() >= '{written}')::int"
        until(lambda: ask(self.new, seen) == [1], _PATIENCE_S, "the standby has everything")

    def stop(self) -> None:
        self.new.stop()
        self.old.stop()


def make_pair() -> Pair:
    """The two with an empty database."""
    old = start_postgres(is_durable=False, has_standbys=True)
    old.run(f"create database {NAME}")
    return Pair(old, old.standby())


def ask(server: PostgresServer, sql: str) -> list[object]:
    """The first column of the rows of a query."""
    with psycopg.connect(server.url(NAME), autocommit=True) as connection:
        return [row[0] for row in connection.execute(sql.encode()).fetchall()]
