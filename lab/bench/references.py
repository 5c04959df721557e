"""What the service is compared with: the disk's fsync, a database's own commit, a raw ASGI app."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psycopg
from lab.bench import ROOT
from lab.bench.client import Connection, get

from servers.postgres import PostgresServer

PAGE = bytes(range(256)) * 16
ROW = "x" * 200


class Reference(Protocol):
    """One step that is durable when it returns."""

    def step(self) -> None: ...


class Fsync:
    """Append a page to a file and fsync it."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "fsync", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def step(self) -> None:
        os.write(self._file, PAGE)
        os.fsync(self._file)


class SqliteCommit:
    """Insert one row and commit, in a database of its own with the service's settings."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "reference.db", isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = full")
        self._connection.execute("create table line (id integer primary key, text text not null)")

    def step(self) -> None:
        self._connection.execute("insert into line (text) values (?)", (ROW,))


class PostgresCommit:
    """Insert one row and commit, a prepared statement through libpq, on the service's server."""

    def __init__(self, server: PostgresServer) -> None:
        session = psycopg.connect(server.url(), autocommit=True)
        session.execute("create table if not exists line (id bigserial primary key, text text not null)")
        self._session = session
        session.pgconn.prepare(b"line", b"insert into line (text) values ($1)")

    def step(self) -> None:
        answer = self._session.pgconn.exec_prepared(b"line", [ROW.encode()])
        assert answer.command_tuples == 1, answer.error_message


def time_step(reference: Reference) -> float:
    """Seconds that one step takes."""
    began = time.perf_counter()
    reference.step()
    return time.perf_counter() - began


def steps_per_s(reference: Reference, seconds: float) -> float:
    """Steps a second, one after the other."""
    began = now = time.perf_counter()
    steps = 0
    while now - began < seconds:
        reference.step()
        steps += 1
        now = time.perf_counter()
    return steps / (now - began)


@contextmanager
def raw_app(answer: bytes, folder: Path) -> Iterator[tuple[int, int]]:
    """A process with uvicorn and an app that gives this answer; its port and process id."""
    path = folder / "answer"
    path.write_bytes(answer)
    process = subprocess.Popen(
        [sys.executable, "-m", "lab.bench.raw_app", str(path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    try:
        _await_answer(port)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far, user and system, all threads, to the nanosecond.

    The same sum stands in /proc in hundredths of a second; this is clock_getcpuclockid(3)'s clock.
    """
    return time.clock_gettime((~pid << 3) | 2)


def _await_answer(port: int) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            connection = Connection(port)
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.01)
            continue
        connection.ask(get("/", "none"))
        connection.close()
        return
