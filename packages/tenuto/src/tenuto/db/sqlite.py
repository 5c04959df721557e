"""Tenuto's records in a SQLite file: reads in the caller's thread, writes through one thread per process.

Knows SQLite's settings and errors; nothing of tables. The file, its two lock files and the `wake` folder
lie together.
"""

import asyncio
import shutil
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from tenuto.db.damaged_text import decoded
from tenuto.db.database import Asking, ConstraintFailed, Row, Transaction, Value
from tenuto.db.pending import Pending
from tenuto.db.sql import for_sqlite
from tenuto.db.sqlite_processes import Receiver, Sender, Turn
from tenuto.db.writer import Writer
from tenuto.errors import OperatorError, Unavailable
from tenuto.logs import get_logger

T = TypeVar("T")
_log = get_logger("tenuto.db")

FLOOR = (3, 40, 0)
BUSY_TIMEOUT_MS = 5_000
CACHED_STATEMENTS = 512
CACHE_KIB = 4_096
FULL_BYTES = 1 << 20
# The undo log of savepoints, in which a group's operations run after one has failed. In a file, where SQLite
# puts it from 64 KiB on, it is two thirds of all that a group of accepted jobs writes.
UNDO_IN_MEMORY = "pragma temp_store = memory"
# How often a listener polls the database itself, in case a wake-up was lost. At ten times a second, two
# listeners took a third of an idle service's processor time.
CHECK_S = 1.0

# As /proc/self/mountinfo calls them.
NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "lustre", "beegfs", "gpfs", "davfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.juicefs", "fuse.davfs"),
    )
)

# Faults of the machine or of the moment, not of the statement.
_UNAVAILABLE = frozenset(
    (
        *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT),
        *(sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN),
        *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM),
    )
)


_NOT_TEXT = "Could not decode to UTF-8"
_MOVED = "The database is no longer where it was opened; nothing was stored, the operator must check."


class SqliteTransaction:
    """A Transaction on one connection."""

    __slots__ = ("_connection", "_execute")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute

    def one(self, sql: str, /, **parameters: Value) -> Row | None:
        try:
            row: Row | None = self._execute(for_sqlite(sql), parameters).fetchone()
        except sqlite3.OperationalError as error:
            row = next(iter(self._damaged(sql, parameters, error)), None)
        return row

    def all(self, sql: str, /, **parameters: Value) -> list[Row]:
        try:
            return self._execute(for_sqlite(sql), parameters).fetchall()
        except sqlite3.OperationalError as error:
            return self._damaged(sql, parameters, error)

    def _damaged(self, sql: str, parameters: dict[str, Value], error: sqlite3.OperationalError) -> list[Row]:
        """The rows of a query, one of which has bytes that are not UTF-8, which only damage causes.

        Such text has lone surrogates in place of the bytes (PEP 383), so the other rows stay readable.
        """
        if _NOT_TEXT not in str(error) or not sql.lstrip().startswith(("select", "with")):
            raise error
        self._connection.text_factory = decoded
        try:
            return self._execute(for_sqlite(sql), parameters).fetchall()
        finally:
            self._connection.text_factory = str

    def run(self, sql: str, /, **parameters: Value) -> int:
        return max(0, self._execute(for_sqlite(sql), parameters).rowcount)

    def do(self, sql: str, /, **parameters: Value) -> None:
        self._execute(for_sqlite(sql), parameters)

    def ask(self, sql: str, /, **parameters: Value) -> "SqliteDeferred":
        try:
            cursor = self._execute(for_sqlite(sql), parameters)
            # Read at once: a cursor left in the middle of a table would see later changes.
            return SqliteDeferred(cursor.fetchone(), max(0, cursor.rowcount))
        except sqlite3.OperationalError as error:
            return SqliteDeferred(next(iter(self._damaged(sql, parameters, error)), None), 0)


class SqliteDeferred:
    """A Deferred. In our own process there is no round trip to save."""

    __slots__ = ("_changed", "_row")

    def __init__(self, row: Row | None, changed: int) -> None:
        self._row = row
        self._changed = changed

    def one(self) -> Row | None:
        return self._row

    def changed(self) -> int:
        return self._changed


class SqliteDatabase:
    """A Database in one file of this machine."""

    dialect: Final = "sqlite"
    servers: Final = None

    def __init__(self, path: Path) -> None:
        if sqlite3.sqlite_version_info < FLOOR:
            raise OperatorError(
                f"SQLite {sqlite3.sqlite_version} is too old; 3.40 is the oldest that Tenuto runs on."
            )
        self._path = path.absolute()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_network_file_system(self._path.parent)
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._own = threading.local()
        self._closed = False
        self._writer = self._open_writer()
        self._opened = _which(self._path)
        self._sender = Sender(self._path.parent / "wake")

    def read(self, operation: Callable[[Transaction], T]) -> T:
        try:
            reader: _Reader = self._own.reader
        except AttributeError:
            reader = self._open_reader()
        return reader.read(operation)

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        if self._closed:
            raise Unavailable("The database is closed.")
        self.check_location()
        try:
            with closing(_connect(self._path)) as connection:
                connection.execute("pragma query_only = on")
                connection.execute("begin")
                # The snapshot is taken by the first read, not by `begin`.
                connection.execute("select count(*) from sqlite_master").fetchone()
                return operation(SqliteTransaction(connection))
        except sqlite3.Error as error:
            raise explain(error) from error

    def write(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation)
        self._writer.submit(pending)
        result: T = pending.wait()
        return result

    def write_long(self, operation: Callable[[Transaction], T]) -> T:
        return self.write(operation)

    async def read_async(self, operation: Callable[[Transaction], T]) -> T:
        """Runs at once in the loop's thread: a short read takes less time than handing it over would."""
        return self.read(operation)

    async def look_up(self, ask: Callable[[Asking], Callable[[], T]]) -> T:
        return self.read(lambda tx: ask(tx)())

    async def write_async(self, operation: Callable[[Transaction], T], *, account_id: str = "") -> T:
        pending = Pending(operation, asyncio.get_running_loop())
        self._writer.submit(pending)
        assert pending.future is not None
        result: T = await pending.future
        return result

    def wake(self, topic: str) -> None:
        self._sender.wake(topic)

    def listen(self, *topics: str, once: bool = False) -> "SqliteListener":
        self.check_location()
        receiver = Receiver(self._path.parent / "wake", topics, once=once)
        return SqliteListener(_connect(self._path), receiver, frozenset(topics))

    def check_location(self) -> None:
        """Checks the name: what is written to a file that was moved away is lost to a service that starts on
        the path again, and opening the path would create an empty database there.
        """
        try:
            is_opened = _which(self._path) == self._opened
        except OSError as error:
            raise Unavailable(_MOVED) from error
        if not is_opened:
            raise Unavailable(_MOVED)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._writer.close()
        for reader in list(self._readers):
            reader.close()
        self._sender.close()

    def _open_writer(self) -> Writer:
        turn = Turn(self._path)
        try:
            with turn.taken():
                connection = _connect(self._path)
                connection.execute("pragma journal_mode = wal")
                connection.execute("pragma synchronous = full")
                connection.execute("pragma foreign_keys = on")
                connection.execute(UNDO_IN_MEMORY)
        except sqlite3.Error as error:
            turn.close()
            # SQLite needs room for two files beside the database, and calls this an I/O error.
            is_full = shutil.disk_usage(self._path.parent).free < FULL_BYTES
            why = "its disk is full; free some space" if is_full else f"{error}."
            raise OperatorError(f"{self._path} cannot be opened as a SQLite database: {why}") from error
        return Writer(connection, SqliteTransaction(connection), turn, explain, self.check_location)

    def _open_reader(self) -> "_Reader":
        if self._closed:
            raise Unavailable("The database is closed.")
        self.check_location()
        try:
            reader = _Reader(_connect(self._path))
        except sqlite3.Error as error:
            raise explain(error) from error
        self._own.reader = reader
        self._readers.add(reader)
        return reader


class _Reader:
    """One thread's connection for reading; closed when the thread ends or the database is closed."""

    __slots__ = ("__weakref__", "_connection", "_lock", "_transaction")

    def __init__(self, connection: sqlite3.Connection) -> None:
        connection.execute("pragma query_only = on")
        self._connection: sqlite3.Connection | None = connection
        self._transaction = SqliteTransaction(connection)
        # Keeps close() from closing the connection during a read.
        self._lock = threading.Lock()

    def read(self, operation: Callable[[Transaction], T]) -> T:
        with self._lock:
            if self._connection is None:
                raise Unavailable("The database is closed.")
            try:
                return operation(self._transaction)
            except sqlite3.Error as error:
                raise explain(error) from error

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        self.close()


class SqliteListener:
    """Listens through sockets, and also polls whether anything was committed."""

    def __init__(self, connection: sqlite3.Connection, receiver: Receiver, topics: frozenset[str]) -> None:
        self._connection = connection
        self._receiver = receiver
        self._topics = topics
        self._version = self._read_version()

    def arm(self, topic: str) -> None:
        self._receiver.arm(topic)

    def wait(self, timeout_s: float) -> frozenset[str]:
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            woken = self._receiver.wait(min(CHECK_S, left_s))
            # Checked in both cases: what the caller sees after this call needs no second wake-up.
            seen, self._version = self._version, self._read_version()
            if woken:
                return woken
            if seen != self._version:
                return self._topics
            if left_s <= CHECK_S:
                return woken

    def close(self) -> None:
        self._receiver.close()
        self._connection.close()

    def _read_version(self) -> int:
        """A number that changes with every commit on any other connection."""
        try:
            version: int = self._connection.execute("pragma data_version").fetchone()[0]
        except sqlite3.Error as error:
            raise explain(error) from error
        return version


def explain(error: BaseException) -> BaseException:
    """SQLite's error as one of ours; a faulty statement stays what it is, a bug."""
    if not isinstance(error, sqlite3.Error):
        return error
    explained: BaseException = error
    if isinstance(error, sqlite3.IntegrityError):
        explained = ConstraintFailed(str(error))
    elif (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _UNAVAILABLE:
        _log.warning("database.refuses", reason=str(error))
        explained = Unavailable("The database cannot do this just now; nothing was stored, try again.")
    if explained is not error:
        explained.__cause__ = error
    return explained


def file_system(folder: Path) -> str:
    """The type of the file system that a folder lies on; empty where the kernel does not say."""
    mounts = Path("/proc/self/mountinfo")
    if not mounts.exists():
        return ""
    # "36 35 98:0 / /mnt rw shared:1 - ext4 /dev/sda rw": the mount point, and after the dash the file system.
    mounted: dict[str, str] = {}
    for line in mounts.read_text().splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        mounted[point] = after.split()[0]
    resolved = folder.resolve()
    return next((mounted[str(at)] for at in (resolved, *resolved.parents) if str(at) in mounted), "")


def _refuse_network_file_system(folder: Path) -> None:
    mounted = file_system(folder)
    if mounted in NETWORK_FILE_SYSTEMS:
        raise OperatorError(
            f"{folder} lies on a network file system ({mounted}), where SQLite can lose records; "
            "choose a local disk, or use PostgreSQL."
        )


def _which(file: Path) -> tuple[int, int]:
    """The file's identity, whatever its name. It is not opened: closing it would drop SQLite's locks."""
    stat = file.stat()
    return stat.st_dev, stat.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    connection.row_factory = sqlite3.Row
    connection.execute(f"pragma busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute(f"pragma cache_size = -{CACHE_KIB}")
    return connection
