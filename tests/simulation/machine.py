"""What a virtual machine has: records in SQLite in memory, bytes, a clock that may be wrong, engines.

The service's own writer, transactions, queues and locks run on it; only the file, the socket, the store's
disk and the engine's process are imitated, each with the faults that the real one has. Knows no promises.
"""

import errno
import json
import os
import sqlite3
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from greenlet import GreenletExit

from simulation.scheduler import Process, Scheduler
from tenuto.db.database import Transaction
from tenuto.db.sqlite import SqliteDatabase, SqliteTransaction, explain
from tenuto.db.writer import Writer
from tenuto.errors import (
    ArtifactUnavailable,
    CommitUnknown,
    CorruptBlob,
    StorageFailed,
    StoreUnreachable,
    StoreUnreachableForWrites,
    Unavailable,
)
from tenuto.file.blob import BLOCK_BYTES, BlobRecord, Checksums, check_block, pieces
from tenuto.host.host import (
    Cancellation,
    Cancelled,
    EngineFailed,
    EngineSpec,
    HostLost,
    HostNotReady,
    HostResult,
    OnProgress,
    OnSegment,
    OnStart,
    OutcomeUnknown,
)
from tenuto_engine.wav import pcm16_wav

T = TypeVar("T")

FROZEN_S = 4.5
START_MS = 1_800_000_000_000


class Killed(GreenletExit):  # type: ignore[misc]
    """The process was killed inside a transaction. Ends this thread; others end at their next call."""


@dataclass
class Machine:
    """Everything outside of the processes: it outlasts them."""

    scheduler: Scheduler
    random: Random
    note: Callable[[str], None]
    connection: sqlite3.Connection
    after_commit: Callable[[str], None]
    """Looks at what a commit has changed; its argument names the process."""
    run_s: tuple[float, ...] = (0.0,)
    hindered: Callable[[Process], None] = lambda _: None
    """Is told whose commit went wrong."""
    listeners: list["VirtualListener"] = field(default_factory=list)
    bytes: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    """Of each stored blob, and when it was written, in wall milliseconds."""
    wall_offset_ms: int = 0
    doomed: Process | None = None
    """Dies at the next statement of its next transaction."""
    lost_answers: int = 0
    """So many commits from now on succeed, and their callers do not learn of it."""
    refused_commits: int = 0
    lost_commits: int = 0
    """So many commits do not arrive, and their callers do not learn of it; on PostgreSQL alone."""
    collisions: int = 0
    """So many statements meet another transaction; on PostgreSQL alone."""
    refused_puts: deque[str] = field(default_factory=deque)
    """How the next writes of bytes fail."""
    runs: deque[str] = field(default_factory=deque)
    """How the next runs of engines end; without any, well."""
    results: Counter[str] = field(default_factory=Counter)
    """How often an engine was called, by text; each result differs from every other."""
    results_made: int = 0
    statements: int = 0
    commits: int = 0

    def clock(self) -> int:
        """Wall time in milliseconds; it jumps."""
        return START_MS + round(self.scheduler.now_s * 1000) + self.wall_offset_ms

    def switch(self) -> None:
        self.scheduler.switch()


class Wire:
    """The connection as one process uses it; a process that dies has its transaction undone."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine = machine
        self._process = process
        self._connection = machine.connection
        self._run = machine.connection.execute

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def text_factory(self) -> Any:
        return self._connection.text_factory

    @text_factory.setter
    def text_factory(self, factory: Any) -> None:
        self._connection.text_factory = factory

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        machine, process = self._machine, self._process
        if process.is_dead:
            if sql.startswith("roll"):
                return self._run(sql)
            raise Killed
        if machine.doomed is process and self._connection.in_transaction and sql[:3] not in ("rol", "rel"):
            machine.doomed = None
            machine.note(f"{process.name} is killed inside a transaction")
            machine.scheduler.kill(process)
            raise Killed
        machine.statements += 1
        if sql == "commit":
            if machine.refused_commits:
                machine.refused_commits -= 1
                machine.hindered(process)
                machine.note(f"{process.name}: the commit is refused")
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            cursor = self._run(sql)
            machine.commits += 1
            machine.after_commit(process.name)
            return cursor
        return self._run(sql, parameters)

    def close(self) -> None:
        """The world closes it."""


class Turn:
    """The right to write: no thread is switched while one has it, so there is nothing to wait for."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @contextmanager
    def taken(self) -> Iterator[None]:
        self._machine.switch()
        yield
        # Committed, or undone; nobody who waits for it knows.
        self._machine.switch()

    def close(self) -> None:
        pass


class VirtualDatabase(SqliteDatabase):
    """The service's SQLite database, as one process opens it, without its file."""

    def __init__(self, machine: Machine, process: Process) -> None:
        self._machine = machine
        self._process = process
        wire: Any = Wire(machine, process)
        turn: Any = Turn(machine)
        self._reading = ReadTransaction(wire, machine)
        self._writer = Writer(wire, SqliteTransaction(wire), turn, explain, self.check_location)

    def read(self, operation: Callable[[Transaction], T]) -> T:
        try:
            return operation(self._reading)
        except sqlite3.Error as error:
            raise explain(error) from error

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        self._machine.switch()
        wire: Any = Wire(self._machine, self._process)
        return operation(SqliteTransaction(wire))

    def write(self, operation: Callable[[Transaction], T]) -> T:
        result = super().write(operation)
        if self._machine.lost_answers:
            self._machine.lost_answers -= 1
            self._machine.hindered(self._process)
            self._machine.note(f"{self._process.name}: the commit's answer is lost")
            raise CommitUnknown
        return result

    def wake(self, topic: str) -> None:
        for listener in self._machine.listeners:
            listener.tell(topic)

    def listen(self, *topics: str, once: bool = False) -> Any:
        listener = VirtualListener(self._machine, self._process, topics, once=once)
        self._machine.listeners.append(listener)
        return listener

    def check_location(self) -> None:
        pass

    def close(self) -> None:
        pass


class ReadTransaction(SqliteTransaction):
    """Each statement for itself: between two of them others may commit."""

    __slots__ = ("_machine",)

    def __init__(self, wire: Any, machine: Machine) -> None:
        super().__init__(wire)
        self._machine = machine
        run = wire.execute

        def execute(sql: str, parameters: Any = ()) -> sqlite3.Cursor:
            machine.switch()
            cursor: sqlite3.Cursor = run(sql, parameters)
            return cursor

        self._execute = execute


class VirtualListener:
    """A Listener of one process."""

    def __init__(self, machine: Machine, process: Process, topics: Iterable[str], *, once: bool) -> None:
        self._machine = machine
        self._process = process
        self._topics = frozenset(topics)
        self._armed = set(topics)
        self._once = once
        self._woken: set[str] = set()
        self._waiter: Any = None

    def arm(self, topic: str) -> None:
        self._armed.add(topic)

    def tell(self, topic: str) -> None:
        if topic not in self._armed or self._process.is_dead:
            return
        if self._once:
            self._armed.discard(topic)
        self._woken.add(topic)
        if self._waiter is not None:
            self._machine.scheduler.wake(self._waiter)

    def wait(self, timeout_s: float) -> frozenset[str]:
        if not self._woken:
            self._waiter = self._machine.scheduler.me()
            self._machine.scheduler.wait(timeout_s)
            self._waiter = None
        woken, self._woken = frozenset(self._woken), set()
        return woken

    def close(self) -> None:
        self._machine.listeners.remove(self)


class VirtualBlobs:
    """A BlobStore whose bytes outlast every process."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def write(self, blob_id: str, content: bytes | Iterable[bytes]) -> BlobRecord:
        machine, checksums, whole = self._machine, Checksums(), b""
        for piece in pieces(content):
            checksums.add(piece)
            whole += bytes(piece)
        machine.switch()
        how = machine.refused_puts.popleft() if machine.refused_puts else ""
        if how:
            machine.note(f"{machine.scheduler.me().name}: bytes are not stored: {how}")
        if how == "frozen":
            # The result is there; while the process stands still, others take its attempt for silent.
            process = machine.scheduler.me().process
            machine.hindered(process)
            process.frozen_until = machine.scheduler.now_s + FROZEN_S
            machine.switch()
        if how == "disk full":
            raise StorageFailed from OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if how == "away":
            raise StoreUnreachableForWrites
        if machine.bytes.get(blob_id, (whole, 0))[0] != whole:
            raise StorageFailed(f"{blob_id} is taken")
        machine.bytes[blob_id] = whole, machine.clock()
        machine.switch()
        if how == "answer lost":
            raise StoreUnreachableForWrites
        return checksums.record(blob_id)

    def read(self, record: BlobRecord, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        self._machine.switch()
        if record.blob_id not in self._machine.bytes:
            raise ArtifactUnavailable(f"{record.blob_id} is not there.")
        content = self._machine.bytes[record.blob_id][0]
        if len(content) != record.size_bytes:
            raise CorruptBlob(f"{record.blob_id} has another size")
        for index in range(-(-len(content) // BLOCK_BYTES)):
            check_block(record, index, content[index * BLOCK_BYTES : (index + 1) * BLOCK_BYTES])
        yield content[start:end]

    def read_all(self, record: BlobRecord) -> bytes:
        return b"".join(self.read(record))

    def delete(self, blob_id: str) -> None:
        self._machine.switch()
        self._machine.bytes.pop(blob_id, None)

    def ids(self, older_than_ms: int) -> Iterator[str]:
        return iter([name for name, (_, at_ms) in self._machine.bytes.items() if at_ms < older_than_ms])

    def store_id(self) -> str | None:
        return None

    def name_store(self, store_id: str) -> str:
        return store_id

    def newest(self) -> bytes | None:
        return None

    def record_newest(self, content: bytes) -> None:
        pass

    def check_location(self) -> None:
        pass


class VirtualHost:
    """A host whose engine takes virtual time, and ends as the machine's `runs` say."""

    def __init__(self, spec: EngineSpec, machine: Machine, process: Process) -> None:
        self._machine = machine
        self._process = process
        self._is_metered = "etered" in json.dumps(spec.options, default=str) + spec.engine
        self.alive = False
        self.is_draining = False
        self.pid = 1

    def load(self) -> dict[str, Any]:
        self._machine.scheduler.sleep(0.05)
        if self._machine.runs and self._machine.runs[0] == "not started":
            self._machine.runs.popleft()
            raise HostNotReady("the engine did not start")
        self.alive = True
        return {}

    def resident_bytes(self) -> int | None:
        return None

    def close(self) -> None:
        self.alive = False

    def run(
        self,
        parameters: dict[str, Any],
        inputs: dict[str, bytes],
        *,
        on_start: OnStart,
        on_segment: OnSegment,
        on_progress: OnProgress,
        deadline_s: float,
        cancelled: Cancellation,
        grace_s: float,
        run_id: str,
    ) -> HostResult:
        machine, text = self._machine, parameters["text"]
        if not self.alive:
            raise HostNotReady("it ended before this run")
        on_start()
        machine.results[text] += 1
        how = machine.runs.popleft() if machine.runs else ""
        machine.note(f"{self._process.name}: a run of {text} begins{how and ': ' + how}")
        takes_s = 8.0 if how == "slow" else machine.random.choice(machine.run_s)
        stopped = threading.Event()
        with cancelled.calling(stopped.set):
            if not cancelled.is_set():
                stopped.wait(takes_s / 2)
                on_progress({"done": 1})
                if parameters["stream"]:
                    for _ in range(2):
                        on_segment(self._sound(), {})
            if not cancelled.is_set():
                stopped.wait(takes_s / 2)
        if cancelled.is_set() and how != "deaf":
            raise Cancelled(lost=False)
        return self._ended(how)

    def _ended(self, how: str) -> HostResult:
        match how:
            case "failed":
                raise EngineFailed("engine_failed", "it cannot do this", transient=False)
            case "transient":
                raise EngineFailed("engine_failed", "not now", transient=True)
            case "lost":
                self.alive = False
                raise HostLost("the process ended", exit_code=-9)
            case "shared":
                raise HostLost("the process ended", exit_code=-9, blame="shared")
            case "unknown":
                raise OutcomeUnknown("no answer")
            case "unforeseen":
                raise ZeroDivisionError("nobody has thought of this")
            case "silent":
                return HostResult("audio/wav", pcm16_wav(bytes(64), 8000, 1), {}, None)
        return HostResult("audio/wav", self._sound(), {"segments": 1}, 4)

    def _sound(self) -> bytes:
        """A WAV of four milliseconds that is like no other."""
        self._machine.results_made += 1
        samples = (20_000 + self._machine.results_made).to_bytes(2, "little") * 32
        return pcm16_wav(samples, 8000, 1)


__all__ = [
    "START_MS",
    "Machine",
    "StoreUnreachable",
    "Unavailable",
    "VirtualBlobs",
    "VirtualDatabase",
    "VirtualHost",
]
