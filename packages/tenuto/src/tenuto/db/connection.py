"""One connection to PostgreSQL in libpq's pipeline mode: statements that need no response share a round trip.

A transaction's `begin` is sent with its first statement, its `commit` with those whose result nobody awaits,
and what is asked together is answered together, so a submission takes three round trips instead of ten.
psycopg's cursors cost three times this processor time. Knows neither threads nor tables.
"""

import select
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.types.numeric import NumericBinaryLoader

from tenuto import failpoints
from tenuto.db import damaged_text
from tenuto.db.connection_errors import OTHER_SESSION
from tenuto.db.database import ConstraintFailed, Row, Transaction, Value
from tenuto.db.sql import for_postgres
from tenuto.errors import OperatorError, Unavailable
from tenuto.logs import get_logger

T = TypeVar("T")
_log = get_logger("tenuto.db")

FLOOR = 150_000
STATEMENT_TIMEOUT_MS = 15_000
LOCK_TIMEOUT_MS = 5_000
# A transaction whose client has stopped must not keep its locks.
IDLE_IN_TRANSACTION_TIMEOUT_MS = 10_000
# Longer than any statement may take: after this the server hangs, although its machine acknowledges.
ANSWER_TIMEOUT_MS = 30_000
# A snapshot's statements may take long, and so may its reader between one result and the next statement.
SNAPSHOT_ANSWER_TIMEOUT_MS = 600_000
# With millions of jobs, a statement of a migration or a restore may take hours.
LONG_ANSWER_TIMEOUT_MS = 24 * 3600 * 1000
PREPARED_LIMIT = 2_000

CONNECT_TIMEOUT_S = 5
# Data that the other machine has not acknowledged for this long never will be: the link is down.
UNACKNOWLEDGED_MS = 5_000

NETWORK: Mapping[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": UNACKNOWLEDGED_MS,
    # After a failover, a name may still lead to the old server: as a standby it would answer with old rows
    # and refuse every write, for as long as we stayed connected to it.
    "target_session_attrs": "primary",
}
"""How a connection finds out that the server is gone (a Unix socket ignores it), or is not the primary."""

# The same from the server's side: it would keep a lost machine's sessions for hours, and has only a few.
SERVER_NETWORK = f"""
    set tcp_keepalives_idle = 10;
    set tcp_keepalives_interval = 5;
    set tcp_keepalives_count = 3;
    set tcp_user_timeout = {2 * UNACKNOWLEDGED_MS};
"""

_TEXT, _INTEGER, _BYTES, _UNKNOWN = 25, 20, 17, 0
_SERIALIZATION_FAILURE, _DEADLOCK = "40001", "40P01"
_CONSTRAINT = "23"
# Where PostgreSQL finds that a prepared statement would return other columns; its message is localised.
_PLAN_CHECK = "RevalidateCachedQuery"
# Connection, resources, operator intervention, system error: temporary, and not the statement's fault.
_UNAVAILABLE_CLASSES = frozenset(("08", "53", "57", "58"))
_LOCK_NOT_AVAILABLE, _READ_ONLY = "55P03", "25006"
_UNAVAILABLE_STATES = frozenset((_LOCK_NOT_AVAILABLE, _READ_ONLY, *OTHER_SESSION))

_SETTINGS = f"""
    {SERVER_NETWORK}
    set statement_timeout = {STATEMENT_TIMEOUT_MS};
    set idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_TIMEOUT_MS};
    set default_transaction_isolation = 'read committed';
    select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off';
"""

_SNAPSHOT = (
    "begin isolation level repeatable read, read only",
    f"set local statement_timeout = {SNAPSHOT_ANSWER_TIMEOUT_MS}",
    f"set local idle_in_transaction_session_timeout = {SNAPSHOT_ANSWER_TIMEOUT_MS}",
)
_LONG = ("begin", "set local statement_timeout = 0", _SNAPSHOT[-1])


class ConnectionLost(Exception):
    """The connection broke; `is_unknown` when the commit was on its way."""

    def __init__(self, is_unknown: bool) -> None:
        self.is_unknown = is_unknown
        super().__init__()


class Collision(Exception):
    """Two transactions conflicted; this one was rolled back and may be run again."""


class WholeNumber(NumericBinaryLoader):
    """A sum of integers is an integer, as in SQLite."""

    def load(self, data: Any) -> Any:
        number = super().load(data)
        return int(number) if number == number.to_integral_value() else float(number)


class Connection:
    """Reads and writes, one at a time."""

    def __init__(
        self,
        session: psycopg.Connection[Any],
        lock_timeout_ms: int = LOCK_TIMEOUT_MS,
        answer_timeout_ms: int = ANSWER_TIMEOUT_MS,
    ) -> None:
        """Takes the session over. Raises psycopg.OperationalError when the server goes away, OperatorError
        when it is too old."""
        self._answer_timeout_ms = answer_timeout_ms
        # With so short a timeout, the operation is then run elsewhere: nothing is refused yet.
        self._is_hasty = lock_timeout_ms < LOCK_TIMEOUT_MS
        self._session = session
        self._session.execute(_SETTINGS)
        self._session.execute(f"set lock_timeout = {lock_timeout_ms:d}".encode())
        version = self._session.info.server_version
        if version < FLOOR:
            self._session.close()
            raise OperatorError(f"PostgreSQL {version // 10_000} is too old; Tenuto runs on 15 and later.")
        self._session.adapters.register_loader("numeric", WholeNumber)
        self._transformer = Transformer(self._session)
        self._libpq = self._session.pgconn
        self._libpq.enter_pipeline_mode()
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(self._libpq.socket, select.POLLIN)
        self._writable.register(self._libpq.socket, select.POLLIN | select.POLLOUT)
        # By text and the types of its parameters: an integer, a text and a null need a statement each.
        self._prepared: dict[tuple[str, tuple[int, ...]], bytes] = {}
        # Prepared since the last round trip; forgotten if it fails, because the server may not have them.
        self._unconfirmed: list[tuple[str, tuple[int, ...]]] = []
        self._numbers = count()
        # One for each statement handed to libpq since the last round trip: what gets its answer, or None.
        self._unanswered: list[PostgresDeferred | None] = []
        # The answers of a round trip that have arrived so far.
        self._answers: list[pq.abc.PGresult] = []
        self._is_committing = False
        # A statement of the current transaction has failed, or the connection has.
        self.has_failed = False
        self.operations = PostgresTransaction(self)

    @property
    def socket(self) -> int:
        """The descriptor that an event loop watches."""
        return self._libpq.socket

    @property
    def is_open(self) -> bool:
        return self._libpq.status == pq.ConnStatus.OK

    def read(self, operation: Callable[[Transaction], T]) -> T:
        """One operation, without a transaction around its statements."""
        self._check_place()
        try:
            result = operation(self.operations)
            if self._unanswered:
                self.fetch()
            return result
        except BaseException:
            self._undo()
            raise

    def write(self, operation: Callable[[Transaction], T]) -> T:
        """One operation as one transaction."""
        with self.transaction() as tx:
            return operation(tx)

    def write_long(self, operation: Callable[[Transaction], T]) -> T:
        """The same, however long a statement takes; the connection's answer timeout must allow that."""
        with self.transaction(_LONG) as tx:
            return operation(tx)

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        """One operation, all its statements on what is committed now."""
        with self.transaction(_SNAPSHOT) as tx:
            return operation(tx)

    @contextmanager
    def transaction(self, begin: tuple[str, ...] = ("begin",)) -> Iterator[Transaction]:
        """Committed at the end, rolled back by an exception."""
        self._check_place()
        self.has_failed = False
        try:
            for statement in begin:
                self.send(statement, {})
            yield self.operations
            failpoints.hit("db.before_commit")
            self.send("commit", {})
            self._is_committing = True
            answer = self.fetch()
            # A transaction that has failed answers "ROLLBACK" to a commit.
            assert answer.command_status == b"COMMIT", "an operation caught a database error"
            failpoints.hit("db.after_commit")
        except BaseException:
            self._undo()
            raise
        finally:
            self._is_committing = False

    def send(
        self, sql: str, parameters: Mapping[str, Value], asked: "PostgresDeferred | None" = None
    ) -> None:
        """Hands a statement to libpq; it goes out with the next `fetch`, which gives `asked` its answer."""
        text, names = for_postgres(sql)
        values: list[bytes | None] = []
        types: list[int] = []
        for name in names:
            value = parameters[name]
            if isinstance(value, str):
                types.append(_TEXT)
                values.append(value.encode())
            elif value is None:
                types.append(_UNKNOWN)
                values.append(None)
            elif isinstance(value, int):
                types.append(_INTEGER)
                values.append(value.to_bytes(8, "big", signed=True))
            else:
                types.append(_BYTES)
                values.append(value)
        key = (sql, tuple(types))
        try:
            statement = self._prepared.get(key) or self._prepare(key, text)
            self._libpq.send_query_prepared(statement, values, [1] * len(values), 1)
        except psycopg.OperationalError as error:
            raise self._lost() from error
        self._unanswered.append(asked)

    def fetch(self) -> pq.abc.PGresult:
        """Sends what is pending and returns the last statement's answer; the first error of any is raised."""
        try:
            self._libpq.pipeline_sync()
            self._flush()
            while not self._arrive():
                if not self._readable.poll(self._answer_timeout_ms):
                    raise psycopg.OperationalError("the server does not answer")
                self._libpq.consume_input()
        except psycopg.OperationalError as error:
            raise self._lost() from error
        return self._finish()

    def send_at_once(self) -> bool:
        """Begins a round trip without waiting; false if the server does not take all of it at once."""
        try:
            self._libpq.pipeline_sync()
            return self._libpq.flush() == 0
        except psycopg.OperationalError as error:
            raise self._lost() from error

    def receive(self) -> bool:
        """Takes what has arrived, without waiting; true at the end of a round trip. Raises as `fetch`."""
        try:
            self._libpq.consume_input()
            has_ended = bool(self._unanswered) and self._arrive()
        except psycopg.OperationalError as error:
            raise self._lost() from error
        if has_ended:
            self._finish()
        return has_ended

    def rows(self, answer: pq.abc.PGresult, limit: int | None = None) -> list[Row]:
        """The rows of an answer as mappings."""
        number = answer.ntuples if limit is None else min(limit, answer.ntuples)
        if not number:
            return []
        names = [(answer.fname(column) or b"").decode() for column in range(answer.nfields)]
        self._transformer.set_pgresult(answer)

        def made(values: Sequence[Any]) -> Row:
            return dict(zip(names, values, strict=True))

        try:
            rows: list[Row] = self._transformer.load_rows(0, number, made)
        except UnicodeDecodeError:
            columns = range(answer.nfields)
            loads = [self._transformer.get_loader(answer.ftype(c), pq.Format.BINARY).load for c in columns]
            raw_rows = ([answer.get_value(row, column) for column in columns] for row in range(number))
            rows = [made(damaged_text.values(values, loads)) for values in raw_rows]
        return rows

    def close(self) -> None:
        with suppress(psycopg.Error):
            self._session.close()

    def _check_place(self) -> None:
        """Finds a connection that ended while it was idle, before a commit's outcome can depend on it."""
        try:
            # The server's last words come before the end of the stream.
            while self._readable.poll(0):
                self._libpq.consume_input()
        except psycopg.OperationalError as error:
            raise self._lost() from error

    def _prepare(self, key: tuple[str, tuple[int, ...]], text: str) -> bytes:
        if len(self._prepared) >= PREPARED_LIMIT:
            # The old ones stay on the server until the connection ends.
            self._prepared.clear()
        statement = b"s%d" % next(self._numbers)
        self._libpq.send_prepare(statement, text.encode(), key[1])
        self._unanswered.append(None)
        self._prepared[key] = statement
        self._unconfirmed.append(key)
        return statement

    def _flush(self) -> None:
        while self._libpq.flush():
            if not self._writable.poll(ANSWER_TIMEOUT_MS):
                raise psycopg.OperationalError("the server takes nothing")
            self._libpq.consume_input()

    def _arrive(self) -> bool:
        """Takes the answers that have arrived; true once the round trip has ended."""
        libpq = self._libpq
        while not libpq.is_busy():
            answer = libpq.get_result()
            if libpq.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
            if answer is None:
                # libpq puts an empty answer between those of two statements.
                continue
            if answer.status == pq.ExecStatus.PIPELINE_SYNC:
                return True
            if len(self._answers) == len(self._unanswered):
                # An answer that belongs to no statement: the server ends the session.
                raise psycopg.OperationalError("the session was ended")
            self._answers.append(answer)
        return False

    def _finish(self) -> pq.abc.PGresult:
        """Hands out the answers of a round trip; returns the last one, or raises the first error."""
        unanswered, self._unanswered = self._unanswered, []
        answers, self._answers = self._answers, []
        failed: pq.abc.PGresult | None = None
        assert len(answers) == len(unanswered), "each statement has one answer"
        for asked, answer in zip(unanswered, answers, strict=True):
            if asked is not None:
                asked.answer = answer
            if answer.status == pq.ExecStatus.FATAL_ERROR and failed is None:
                failed = answer
        if failed is not None:
            for key in self._unconfirmed:
                self._prepared.pop(key, None)
            self._unconfirmed.clear()
            self.has_failed = True
            raise self._explain(failed)
        self._unconfirmed.clear()
        return answers[-1]

    def _undo(self) -> None:
        """Leaves the connection without a transaction and with nothing unanswered, or closed."""
        try:
            if self._libpq.status == pq.ConnStatus.BAD:
                return
            if self._unanswered:
                with suppress(Exception):
                    self.fetch()
            if self._libpq.transaction_status != pq.TransactionStatus.IDLE:
                self.send("rollback", {})
                self.fetch()
        except ConnectionLost:
            self.close()

    def _lost(self) -> ConnectionLost:
        self.has_failed = True
        self.close()
        return ConnectionLost(self._is_committing)

    def _explain(self, answer: pq.abc.PGresult) -> BaseException:
        """The server's error as one of ours; a faulty statement stays what it is, a bug."""
        error = psycopg.errors.error_from_result(answer)
        state = error.sqlstate or ""
        explained: BaseException = error
        if state in (_SERIALIZATION_FAILURE, _DEADLOCK):
            explained = Collision(str(error))
        elif error.diag.source_function == _PLAN_CHECK:
            # A later version has added columns since `select *` was prepared: prepared again, it runs.
            self._prepared.clear()
            explained = Collision(str(error))
        elif state.startswith(_CONSTRAINT):
            explained = ConstraintFailed(str(error))
        elif state[:2] in _UNAVAILABLE_CLASSES or state in _UNAVAILABLE_STATES:
            if state != _LOCK_NOT_AVAILABLE or not self._is_hasty:
                _log.warning("database.refuses", sqlstate=state, reason=error.diag.message_primary)
            explained = Unavailable("The database cannot do this just now; nothing was stored, try again.")
        if explained is not error:
            explained.__cause__ = error
        return explained


class PostgresTransaction:
    """A Transaction on one connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def one(self, sql: str, /, **parameters: Value) -> Row | None:
        self._connection.send(sql, parameters)
        rows = self._connection.rows(self._connection.fetch(), 1)
        return rows[0] if rows else None

    def all(self, sql: str, /, **parameters: Value) -> list[Row]:
        self._connection.send(sql, parameters)
        return self._connection.rows(self._connection.fetch())

    def run(self, sql: str, /, **parameters: Value) -> int:
        self._connection.send(sql, parameters)
        return self._connection.fetch().command_tuples or 0

    def do(self, sql: str, /, **parameters: Value) -> None:
        self._connection.send(sql, parameters)

    def ask(self, sql: str, /, **parameters: Value) -> "PostgresDeferred":
        asked = PostgresDeferred(self._connection)
        self._connection.send(sql, parameters, asked)
        return asked


class PostgresDeferred:
    """A Deferred; `answer` is set by the round trip that brings it."""

    __slots__ = ("_connection", "answer")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.answer: pq.abc.PGresult | None = None

    def one(self) -> Row | None:
        rows = self._connection.rows(self._answered(), 1)
        return rows[0] if rows else None

    def changed(self) -> int:
        return self._answered().command_tuples or 0

    def _answered(self) -> pq.abc.PGresult:
        if self.answer is None:
            self._connection.fetch()
        assert self.answer is not None, "what was asked is answered by the next round trip"
        return self.answer
