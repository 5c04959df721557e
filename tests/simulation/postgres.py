"""The same worlds on a real PostgreSQL: each statement of each connection is one step of the schedule.

The service's own pool, grouped commits, connections and retries run; libpq is replaced by `Wire`, which sends
one statement at a time and comes back when it is answered or waits for a lock, as PostgreSQL's own isolation
tests do. A backend that waits is stopped (SIGSTOP) and continues when its lock was granted and its turn has
come, so nothing depends on which of two backends is quicker. The limits of waits for locks, of deadlocks and
of idle transactions are virtual. A backend serves one connection after another.
"""

import os
import select
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from greenlet import GreenletExit
from psycopg import pq

from servers.postgres import start_postgres
from simulation.machine import Killed, Machine, VirtualListener
from simulation.promises import Promises, journal_of
from simulation.scheduler import Actor, Process
from simulation.world import CHARGE_MICROS, FAULTS, Plan, World, plan_of
from tenuto.db import postgres
from tenuto.db.connection import Connection
from tenuto.db.database import Transaction
from tenuto.db.migrations import migrate
from tenuto.db.pending import Pending
from tenuto.db.servers import Servers
from tenuto.db.servers import Session as RealSession

T = TypeVar("T")

DEADLOCK_S = 1.0
"""PostgreSQL's `deadlock_timeout`: when a backend that waits looks for a circle."""
IDLE_S = 10.0
"""How long a transaction may stand still, as the service sets it."""
WORLDS_BETWEEN = 50
"""After this number of worlds, their rows are deleted."""
LOST = "the connection is lost"
SYNC: Any = object()
_connected = psycopg.Connection.connect
MORE_FAULTS = {"lose commit": 5, "collide": 5, "lose connections": 4, "server away": 2}
QUIET = ("begin", "savepoint", "release", "set")
"""Statements without an effect that others can see: no switch comes before them."""


@dataclass(eq=False)
class Session:
    """One backend, and what it was asked last."""

    real: psycopg.Connection[Any]
    prepared: dict[tuple[bytes, tuple[int, ...]], tuple[bytes, Any]] = field(default_factory=dict)
    """Its prepared statements by text and types: name and answer."""
    answer: Any = None
    user: "Wire | None" = None
    waiter: Actor | None = None
    """Who waits for the answer while this backend waits for a lock."""
    waits: int = 0
    """How often it has waited: a timeout of an earlier wait is void."""
    is_stopped: bool = False

    @property
    def pid(self) -> int:
        return self.real.info.backend_pid

    def send(self, name: bytes, values: list[bytes | None]) -> None:
        self.real.pgconn.send_query_prepared(name, values, [1] * len(values), 1)
        self._go()

    def send_text(self, sql: bytes) -> None:
        self.real.pgconn.send_query_params(sql, None)
        self._go()

    def prepare(self, text: bytes, types: tuple[int, ...]) -> tuple[bytes, Any]:
        """Its name for a statement, and the server's answer, which is an error for a faulty one."""
        known = self.prepared.get((text, types))
        if known is None:
            name = b"p%d" % len(self.prepared)
            self.real.pgconn.send_prepare(name, text, types)
            self._go()
            while not self.has_answered(60_000):
                raise AssertionError("the server prepares nothing")
            known = name, self.answer
            if known[1].status == pq.ExecStatus.COMMAND_OK:
                self.prepared[text, types] = known
        return known

    def has_answered(self, timeout_ms: int) -> bool:
        """Whether the answer has come in this time; then it is `answer`."""
        libpq = self.real.pgconn
        if libpq.is_busy():
            readable = select.poll()
            readable.register(libpq.socket, select.POLLIN)
            if not readable.poll(timeout_ms):
                return False
            libpq.consume_input()
            if libpq.is_busy():
                return False
        self.answer = libpq.get_result()
        if self.answer is not None and self.answer.status != pq.ExecStatus.PIPELINE_SYNC:
            assert libpq.get_result() is None, "one answer for each statement"
        return self.answer is not None

    def sync(self) -> Any:
        """The end of a pipeline."""
        self.real.pgconn.pipeline_sync()
        while self.real.pgconn.flush():
            pass
        while not (self.has_answered(60_000) and self.answer.status == pq.ExecStatus.PIPELINE_SYNC):
            pass
        return self.answer

    def reset(self) -> None:
        """As if it had ended, and a new one had begun."""
        self.sync()
        if self.real.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            self.send_text(b"rollback")
            self.sync()
        self.user = self.waiter = None
        self.waits += 1

    def stop(self) -> None:
        if not self.is_stopped:
            self.is_stopped = True
            os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.is_stopped:
            self.is_stopped = False
            os.kill(self.pid, signal.SIGCONT)

    def _go(self) -> None:
        libpq = self.real.pgconn
        libpq.send_flush_request()
        while libpq.flush():
            pass


class Watcher:
    """A connection of the simulation's own, which sees what is committed; it speaks as `sqlite3` does."""

    def __init__(self, url: str) -> None:
        self.real = psycopg.connect(url, autocommit=True)

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        return self.real.execute(sql.replace("?", "%s").encode(), parameters or None)

    def executescript(self, script: str) -> None:
        self.real.execute(script.encode())


class PostgresGround:
    """What worlds share, one after the other: the server, its tables and its backends."""

    is_followed = True

    def __init__(self) -> None:
        shm = Path("/dev/shm")
        self.folder = Path(tempfile.mkdtemp(prefix="tenuto-simulation-", dir=shm if shm.is_dir() else None))
        self.server = start_postgres(is_durable=False)
        self._url = self.server.url()
        database = postgres.PostgresDatabase(self._url)
        migrate(database)
        database.close()
        self.server.run("alter system set deadlock_timeout = '1h'")
        self.server.run("select pg_reload_conf()")
        self.connection: Any = Watcher(self._url)
        self.promises = Promises(self.connection, journal_of("postgresql"), charge_micros=CHARGE_MICROS)
        self._audited = Connection(_connected(self._url, autocommit=True))
        self._free: list[Session] = []
        self._all: list[Session] = []
        self._waiting: list[Session] = []
        self._machine: Machine | None = None
        self._away_until_s = 0.0
        self.faults: dict[str, Callable[[World, float], None]] = {
            "lose commit": lambda *_: self._lose_commit(),
            "collide": lambda *_: self._collide(),
            "lose connections": lambda *_: self.lose(None),
            "server away": self._go_away,
        }
        # Children first: a table refers to those that were made before it.
        tables = self.connection.execute(
            "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
            " order by oid desc"
        )
        self._tables = [
            name
            for (name,) in tables.fetchall()
            if not self.connection.execute(f"select 1 from {name} limit 1").fetchone()
        ]
        self._worlds = 0

    def empty(self) -> None:
        """The tables as they are after the migration."""
        deletes = "; ".join(f"delete from {name}" for name in self._tables)
        self.connection.executescript(f"update job set artifact_id = null; {deletes}")
        self.promises.start()
        if self._worlds % WORLDS_BETWEEN == 0:
            self.connection.execute("vacuum")
        self._worlds += 1

    def tx(self) -> Transaction:
        """For the service's audit."""
        return self._audited.operations

    def open(self, machine: Machine, process: Process) -> "VirtualPostgres":
        process.on_death.append(lambda: self.lose(process))
        return VirtualPostgres(self._url, machine, process)

    @contextmanager
    def ready(self, machine: Machine) -> Iterator[None]:
        """While the block lasts, the service's connections are the world's."""
        self._machine, self._away_until_s = machine, 0.0
        vars(postgres)["Connection"] = VirtualConnection
        psycopg.Connection.connect = self._connect  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            vars(postgres)["Connection"] = Connection
            psycopg.Connection.connect = _connected  # type: ignore[method-assign]
            for session in self._all:
                if session.user is not None:
                    session.user.is_lost = True
                    self._end(session)
            self._machine = None

    def close(self) -> None:
        for session in self._all:
            session.resume()
            session.real.close()
        self._audited.close()
        self.connection.real.close()
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def plan(self, seed: int) -> Plan:
        """The plan of a seed."""
        return plan_of(seed, FAULTS | MORE_FAULTS, in_haste=True)

    def most_queued(self, seed: int) -> int:
        """How many jobs an account may have queued; 0: any number, so that no account is locked at first."""
        return 20_000 if seed % 2 else 0

    # --- faults ------------------------------------------------------------------------------------------

    def _lose_commit(self) -> None:
        self._now().lost_commits += 1

    def _collide(self) -> None:
        self._now().collisions += 1

    def _go_away(self, world: World, seconds: float) -> None:
        """The server restarts; no worker can beat meanwhile."""
        for worker in world.all_workers.values():
            worker.has_stood_still = True
        self._away_until_s = self._now().scheduler.now_s + seconds
        self.lose(None)

    def frozen(self, process: Process, seconds: float) -> None:
        """A process stands still: after a while the server ends its transactions."""
        if seconds > IDLE_S:
            scheduler = self._now().scheduler

            def end() -> None:
                scheduler.sleep(IDLE_S)
                self.lose(process, is_idle=True)

            scheduler.spawn("postgres", Process("postgres"), end)

    def lose(self, process: Process | None, *, is_idle: bool = False) -> None:
        """The connections of a process break, of all without one; `is_idle`: only those in a transaction."""
        lost = []
        for session in self._all:
            wire = session.user
            if wire is None or (process is not None and wire.process is not process):
                continue
            if is_idle and (not wire.in_transaction or session.waiter is not None):
                continue
            wire.is_lost = True
            lost.append((session, session.waiter))
            self._end(session)
        for _, waiter in lost:
            if waiter is not None:
                self._now().scheduler.wake(waiter)
        self.release()

    def end_transactions(self) -> None:
        """End the open transactions of frozen processes, as the server would after its idle timeout."""
        for session in self._all:
            if session.user is not None and session.user.in_transaction:
                session.user.is_lost = True
                self._end(session)

    def leave(self, session: Session) -> None:
        """Its connection is closed, or broken."""
        self._end(session)
        self.release()

    # --- statements --------------------------------------------------------------------------------------

    def ask(self, session: Session) -> Any:
        """The answer to what was just sent; while its backend waits for a lock, others run."""
        if not self._settle(session):
            machine = self._now()
            machine.note(f"{machine.scheduler.me().name} waits for a lock")
            session.waiter = machine.scheduler.me()
            self._waiting.append(session)
            self._limit(session)
            machine.scheduler.wait()
            if session.waiter is not None:
                session.waiter = None
        return session.answer

    def release(self) -> None:
        """Locks are free: the backends that now have one continue, in the order in which they came."""
        is_moving = bool(self._waiting)
        while is_moving:
            is_moving = False
            for session in list(self._waiting):
                if session in self._waiting and not self._is_blocked(session):
                    is_moving = True
                    session.resume()
                    if self._settle(session):
                        self._woken(session)
                    else:
                        self._limit(session)

    def _woken(self, session: Session) -> None:
        self._waiting.remove(session)
        session.waits += 1
        assert session.waiter is not None
        self._now().scheduler.wake(session.waiter)

    def _settle(self, session: Session) -> bool:
        """True: it has answered. False: it waits for a lock, and is stopped."""
        timeout_ms = 1
        while not session.has_answered(timeout_ms):
            if self._is_blocked(session):
                session.stop()
                return False
            timeout_ms = min(20, timeout_ms + 1)
        return True

    def _is_blocked(self, session: Session) -> bool:
        pids = [each.pid for each in self._all]
        row = self.connection.execute(
            "select pg_isolation_test_session_is_blocked(?, ?)", (session.pid, pids)
        )
        return bool(row.fetchone()[0])

    def _limit(self, session: Session) -> None:
        """Its wait ends with a deadlock, or when it has lasted too long."""
        scheduler = self._now().scheduler
        session.waits += 1
        wait, wire = session.waits, session.user
        assert wire is not None
        limits = sorted(((DEADLOCK_S, "40P01"), (wire.lock_timeout_s, "55P03")))

        def watch() -> None:
            passed_s = 0.0
            for limit_s, code in limits:
                scheduler.sleep(limit_s - passed_s)
                passed_s = limit_s
                if session.waits != wait:
                    return
                if code == "55P03" or self._is_in_a_circle(session):
                    self._refuse(session, code)
                    return

        scheduler.spawn("postgres", Process("postgres"), watch)

    def _is_in_a_circle(self, session: Session) -> bool:
        blocking = {
            each.pid: self.connection.execute("select pg_blocking_pids(?)", (each.pid,)).fetchone()[0]
            for each in self._waiting
        }
        seen: set[int] = set()
        ahead = list(blocking[session.pid])
        while ahead:
            pid = ahead.pop()
            if pid == session.pid:
                return True
            if pid not in seen:
                seen.add(pid)
                ahead += blocking.get(pid, ())
        return False

    def _refuse(self, session: Session, code: str) -> None:
        """The statement fails with this error, in the server's own form; its transaction keeps its locks."""
        self._now().note(f"{session.user.process.name if session.user else ''}: the lock is refused: {code}")
        self._cancel(session)
        session.answer = self.connection.real.pgconn.exec_(_raising(code))
        self._woken(session)
        self.release()

    def _cancel(self, session: Session) -> None:
        self.connection.execute("select pg_cancel_backend(?)", (session.pid,))
        session.resume()
        while not session.has_answered(60_000):
            pass

    def _end(self, session: Session) -> None:
        if session in self._waiting:
            self._cancel(session)
            self._waiting.remove(session)
        session.reset()
        self._free.append(session)

    # --- connections -------------------------------------------------------------------------------------

    def _connect(self, *_: Any, **__: Any) -> "Facade":
        machine = self._now()
        machine.switch()
        if machine.scheduler.now_s < self._away_until_s:
            raise psycopg.OperationalError("the server is away")
        if not self._free:
            session = Session(_connected(self._url, autocommit=True))
            session.real.pgconn.enter_pipeline_mode()
            self._all.append(session)
            self._free.append(session)
        return Facade(Wire(self, machine, self._free.pop(0), machine.scheduler.me().process))

    def _now(self) -> Machine:
        assert self._machine is not None, "a world is under way"
        return self._machine


class Wire:
    """libpq, as one connection of one process uses it; a process that dies has its transaction undone."""

    def __init__(self, ground: PostgresGround, machine: Machine, session: Session, process: Process) -> None:
        self.process = process
        self.is_lost = False
        self.in_transaction = False
        self.lock_timeout_s = 0.0
        self.session = session
        self.socket = session.real.pgconn.socket
        self._ground = ground
        self._machine = machine
        self._outgoing: deque[Any] = deque()
        self._texts: dict[bytes, tuple[bytes, bytes]] = {}
        """Of each prepared statement: the backend's name for it, and its text."""
        session.user = self

    @property
    def status(self) -> int:
        return pq.ConnStatus.BAD if self.is_lost else self.session.real.pgconn.status

    @property
    def transaction_status(self) -> int:
        return self.session.real.pgconn.transaction_status

    def enter_pipeline_mode(self) -> None:
        """The backend is in it."""

    def send_prepare(self, name: bytes, text: bytes, types: tuple[int, ...]) -> None:
        self._check()
        self._outgoing.append((name, text, types))

    def send_query_prepared(
        self, name: bytes, values: list[bytes | None], _formats: list[int], _format: int
    ) -> None:
        self._check()
        self._outgoing.append((name, values))

    def pipeline_sync(self) -> None:
        self._check()
        self._outgoing.append(SYNC)

    def flush(self) -> int:
        return 0

    def is_busy(self) -> bool:
        return False

    def consume_input(self) -> None:
        self._check()

    def poll(self, _timeout_ms: int) -> list[int]:
        """Something to read: the end of the connection."""
        return [self.socket] if self.is_lost else []

    def register(self, *_: Any) -> None:
        """There is one socket."""

    def get_result(self) -> Any:
        """The next answer; its statement runs now."""
        self._check()
        step = self._outgoing.popleft()
        if step is SYNC:
            return self.session.sync()
        if len(step) == 3:
            name, text, types = step
            known, answer = self.session.prepare(text, types)
            self._texts[name] = known, text
            return answer
        return self._run(*self._texts[step[0]], step[1])

    def close(self) -> None:
        if not self.is_lost and not self._machine.scheduler.is_closing:
            self.is_lost = True
            self._ground.leave(self.session)

    def _check(self) -> None:
        if self._machine.scheduler.is_closing:
            raise GreenletExit
        if self.process.is_dead:
            raise Killed
        if self.is_lost:
            raise psycopg.OperationalError(LOST)

    def _run(self, name: bytes, text: bytes, values: list[bytes | None]) -> Any:
        machine, verb = self._machine, text.split(None, 1)[0].decode()
        if verb not in QUIET:
            machine.switch()
            self._check()
        self._die(verb, name, values)
        code = self._refused(verb)
        machine.statements += 1
        if code:
            machine.note(f"{self.process.name}: {verb} is refused: {code}")
            self.session.send_text(_raising(code))
        else:
            self.session.send(name, values)
        answer = self._ground.ask(self.session)
        self._check()
        self._ended(verb, text, answer)
        return answer

    def _die(self, verb: str, name: bytes, values: list[bytes | None]) -> None:
        """A process that is doomed dies in its next transaction; a commit may be on its way already."""
        machine = self._machine
        if machine.doomed is not self.process or not self.in_transaction or verb == "rollback":
            return
        if verb not in ("begin", "commit") and machine.random.random() < 0.7:
            return
        machine.doomed = None
        machine.note(f"{self.process.name} is killed inside a transaction, before {verb}")
        if verb == "commit" and machine.random.random() < 0.5:
            machine.note("the commit arrives all the same")
            self.session.send(name, values)
            self._ended(verb, b"commit", self._ground.ask(self.session))
        machine.scheduler.kill(self.process)
        raise Killed

    def _refused(self, verb: str) -> str:
        """The error that the statement gets instead of its answer, or none."""
        machine = self._machine
        if verb == "commit" and machine.refused_commits:
            machine.refused_commits -= 1
            machine.hindered(self.process)
            return "53100"
        if verb == "commit" and machine.lost_commits:
            machine.lost_commits -= 1
            machine.hindered(self.process)
            self._break("the connection breaks before the commit arrives")
        if self.in_transaction and verb not in ("commit", "rollback") and machine.collisions:
            machine.collisions -= 1
            return "40001"
        return ""

    def _ended(self, verb: str, text: bytes, answer: Any) -> None:
        machine = self._machine
        if answer.status == pq.ExecStatus.FATAL_ERROR:
            return
        if verb == "begin":
            self.in_transaction = True
        elif verb == "commit":
            self.in_transaction = False
            if answer.command_status == b"COMMIT":
                machine.commits += 1
                machine.after_commit(self.process.name)
            self._ground.release()
            if machine.lost_answers:
                machine.lost_answers -= 1
                machine.hindered(self.process)
                self._break("the commit's answer is lost")
        elif verb == "rollback":
            self.in_transaction = b" to " in text
            self._ground.release()

    def _break(self, why: str) -> None:
        self._machine.note(f"{self.process.name}: {why}")
        self.is_lost = True
        self._ground.leave(self.session)
        raise psycopg.OperationalError(LOST)


class Facade:
    """What the service sees of psycopg's connection."""

    def __init__(self, wire: Wire) -> None:
        self.pgconn = wire
        self.connection = wire.session.real
        self.adapters = wire.session.real.adapters
        self.info = wire.session.real.info

    def execute(self, sql: Any) -> None:
        """The session's settings; timeouts are the world's."""
        name, _, value = (sql if isinstance(sql, str) else sql.decode()).rpartition(" = ")
        if name == "set lock_timeout":
            self.pgconn.lock_timeout_s = int(value) / 1000

    def close(self) -> None:
        self.pgconn.close()


class VirtualConnection(Connection):
    """The service's connection; whether something arrived while it was idle is the wire's to say."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        wire: Any = self._libpq
        self._readable = self._writable = wire


class VirtualServers(Servers):
    """The one server of the worlds, which has no other copy to be compared with."""

    def connect(self, application: str) -> RealSession:
        return psycopg.Connection.connect("", application_name=application)


class VirtualPostgres(postgres.PostgresDatabase):
    """The service's database, as one process opens it; an API's writes are grouped, as in its event loop."""

    def __init__(self, url: str, machine: Machine, process: Process) -> None:
        super().__init__(url)
        self.servers = VirtualServers(url)
        self._machine = machine
        self._process = process

    def write(self, operation: Callable[[Transaction], T]) -> T:
        pending = Pending(operation)
        if not (self._process.name.startswith("api") and self._groups_of("").take(pending)):
            self._submit(pending, is_write=True)
        result: T = pending.wait()
        return result

    def wake(self, topic: str) -> None:
        for listener in self._machine.listeners:
            listener.tell(topic)

    def listen(self, *topics: str, once: bool = False) -> Any:
        listener = VirtualListener(self._machine, self._process, topics, once=once)
        self._machine.listeners.append(listener)
        return listener


def _raising(code: str) -> bytes:
    """A statement that fails with this SQLSTATE."""
    return f"do $$begin raise sqlstate '{code}'; end$$".encode()
