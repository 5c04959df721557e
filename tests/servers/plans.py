"""What PostgreSQL does for each statement of an operation: its plan, and how many pages it touched.

An operation runs on a transaction that explains every statement before it carries it out, with the parameters
and in the state in which the service would. Knows no operation.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg

from tenuto.db.database import Database, Deferred, Row, Transaction, Value
from tenuto.db.sql import for_postgres

_KEPT = "explain (generic_plan, format json) "
_EXPLAIN = "explain (analyze, buffers, timing off, format json) "


@dataclass(frozen=True, slots=True)
class Plan:
    """How one statement was carried out."""

    sql: str
    root: dict[str, Any]

    @property
    def pages(self) -> int:
        """Pages touched, in memory or on the disk: what grows with a table when no index fits."""
        return int(self.root.get("Shared Hit Blocks", 0)) + int(self.root.get("Shared Read Blocks", 0))

    def scanned(self) -> set[str]:
        """The tables that were read from end to end."""
        return {node["Relation Name"] for node in _nodes(self.root) if node["Node Type"] == "Seq Scan"}

    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in _nodes(self.root) if "Index Name" in node}

    def line(self) -> str:
        """For people."""
        how = ", ".join(sorted(self.indexes() | {f"all of {name}" for name in self.scanned()}))
        return f"{self.pages:6} pages  {' '.join(self.sql.split())[:90]}  [{how}]"


def plans_of(database: Database, operation: Callable[[Transaction], object]) -> list[Plan]:
    """The plans of an operation's statements; what it changes is committed."""
    explained: list[Plan] = []

    def run(tx: Transaction) -> None:
        explained.clear()
        operation(_Explaining(tx, explained))

    database.write(run)
    return explained


def kept_plan(url: str, sql: str) -> Plan | None:
    """The plan for all parameters alike; None where the statement does not tell their types."""
    with psycopg.connect(url, autocommit=True) as connection:
        try:
            (found,) = connection.execute(f"{_KEPT}{for_postgres(sql)[0]}".encode()).fetchone() or (None,)
        except psycopg.errors.IndeterminateDatatype:
            return None
    return Plan(sql, found[0]["Plan"])


class _Explaining:
    """A transaction that has every statement explained first; nothing is left of that."""

    def __init__(self, tx: Transaction, plans: list[Plan]) -> None:
        self._tx = tx
        self._plans = plans

    def one(self, sql: str, /, **parameters: Value) -> Row | None:
        self._explain(sql, parameters)
        return self._tx.one(sql, **parameters)

    def all(self, sql: str, /, **parameters: Value) -> list[Row]:
        self._explain(sql, parameters)
        return self._tx.all(sql, **parameters)

    def run(self, sql: str, /, **parameters: Value) -> int:
        self._explain(sql, parameters)
        return self._tx.run(sql, **parameters)

    def do(self, sql: str, /, **parameters: Value) -> None:
        self._explain(sql, parameters)
        self._tx.do(sql, **parameters)

    def ask(self, sql: str, /, **parameters: Value) -> Deferred:
        self._explain(sql, parameters)
        return self._tx.ask(sql, **parameters)

    def _explain(self, sql: str, parameters: dict[str, Value]) -> None:
        self._tx.do("savepoint explained")
        (row,) = self._tx.all(_EXPLAIN + sql, **parameters)
        self._tx.do("rollback to savepoint explained")
        found = row["QUERY PLAN"]
        root = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
        self._plans.append(Plan(sql, root))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)
