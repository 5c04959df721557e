"""What is measured: a service on one of the databases, with accounts and keys, and requests to send it.

Keys are made through the accounts' operations, as the command line does, because eight commands would take
longer than what they prepare.
"""

import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from lab.bench.client import Connection, get

from servers.postgres import PostgresServer
from servers.service import RunningService
from tenuto.account import operations as accounts
from tenuto.db.database import Database
from tenuto.db.database_opening import open_database
from tenuto.ids import Ids
from tenuto.money import operations as billing

ACCOUNTS = 8
CREDIT_MICROS = 10**12
REPLAYS = 10
"""One request in so many repeats the one before it."""

PRICES = """
[models."fake/speech"]
price = "0.001"
[models."fake/metered-speech"]
price = "0.001"
"""
TEXT = "The quick brown fox jumps over the lazy dog."
READY_S = 30.0

_numbers = itertools.count(1)


@dataclass(slots=True)
class Stage:
    """A running service, a look into its database, and a key of each account."""

    name: str
    service: RunningService
    database: Database
    keys: list[str]
    folder: Path
    ready_s: float
    """From starting the command until it was ready."""

    @property
    def port(self) -> int:
        return self.service.port

    @property
    def host(self) -> str:
        return self.service.host

    def api(self) -> psutil.Process:
        """The process that answers HTTP."""
        assert self.service.process is not None
        return psutil.Process(self.service.process.pid)

    def processes(self) -> list[psutil.Process]:
        """All processes of the service: the API, its worker, the hosts."""
        api = self.api()
        return [api, *api.children(recursive=True)]

    def query(self, sql: str, **parameters: Any) -> list[Any]:
        return self.database.read(lambda tx: tx.all(sql, **parameters))

    def submit(self, text: str, *, key: str | None = None) -> str:
        """One job; gives its id."""
        connection = Connection(self.port, self.host)
        answer = connection.ask(next(submissions(key or self.keys[0], text, replays=0)))
        connection.close()
        assert answer.status == 202, answer
        job_id: str = json.loads(answer.body)["id"]
        return job_id

    def wait(self, job_id: str, state: str) -> None:
        self.wait_for(lambda: self.state(job_id) == state)

    def wait_for(self, is_so: Callable[[], bool], timeout_s: float = READY_S) -> None:
        until = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < until, "it took too long"
            time.sleep(0.005)

    def state(self, job_id: str) -> str:
        found: str = self.query("select state from job where id = :id", id=job_id)[0]["state"]
        return found

    def shown(self, job_id: str, key: str) -> bytes:
        """The answer to a poll, as bytes."""
        connection = Connection(self.port, self.host)
        answer = connection.ask(get(f"/v1/jobs/{job_id}", key))
        connection.close()
        return answer.head + answer.body


@contextmanager
def stage(postgres: PostgresServer | None, **variables: str) -> Iterator[Stage]:
    """A new service on SQLite, or on a new database of the server, with empty tables."""
    folder = Path(tempfile.mkdtemp(prefix="tenuto-bench-"))
    (folder / "prices.toml").write_text(PRICES)
    url, name = f"sqlite:///{folder}/data/tenuto.db", "SQLite"
    if postgres is not None:
        base = f"bench_{next(_numbers)}"
        postgres.run(f"create database {base}")
        url, name = postgres.url(base), "PostgreSQL"
    settings = {
        "TENUTO_CONFIG": str(folder / "prices.toml"),
        "TENUTO_REQUESTS_PER_SECOND": "0",
        "TENUTO_QUEUED_JOBS": "0",
        "TENUTO_DRAIN_S": "0",
        **variables,
    }
    service = RunningService(folder / "data", url, variables=settings, is_measured=True)
    database: Database | None = None
    try:
        began = time.perf_counter()
        service.start()
        ready_s = time.perf_counter() - began
        database = open_database(url)
        yield Stage(name, service, database, make_keys(database), folder, ready_s)
    finally:
        if database is not None:
            database.close()
        if service.process is not None and service.process.poll() is None:
            service.stop()
        shutil.rmtree(folder, ignore_errors=True)


def submissions(key: str, text: str = TEXT, *, replays: int = REPLAYS) -> Iterator[bytes]:
    """Requests of one client without end; one in `replays` is the one before it again (0: none)."""
    head = (
        "POST /v1/jobs HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nIdempotency-Key: client-{next(_numbers)}-"
    )
    for number in itertools.count(1):
        body = json.dumps({"model": "fake/speech", "parameters": {"text": f"{text} Number {number}."}})
        request = f"{head}{number}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        yield request
        if replays and number % (replays - 1) == 0:
            yield request


def clients(keys: list[str], number: int, text: str = TEXT) -> list[Iterator[bytes]]:
    """So many clients, spread over the keys."""
    return [submissions(keys[client % len(keys)], text) for client in range(number)]


def make_keys(database: Database, first: int = 0) -> list[str]:
    """A key of each of the accounts, which are made and have credit; `first`: the number of the first one."""
    ids = Ids(_now_ms)
    keys = []
    for number in range(first, first + ACCOUNTS):
        account_id = database.write(
            lambda tx, number=number: accounts.create_account(  # type: ignore[misc]
                tx, ids, name=f"bench {number}", now_ms=_now_ms()
            )
        )
        keys.append(database.write(lambda tx, owner=account_id: _equip(tx, ids, owner)))  # type: ignore[misc]
    return keys


def _equip(tx: Any, ids: Ids, account_id: str) -> str:
    now_ms = _now_ms()
    billing.credit(
        tx, ids.new("entry"), account_id=account_id, amount_micros=CREDIT_MICROS, note="bench", now_ms=now_ms
    )
    _, key = accounts.create_key(
        tx, ids, account_id=account_id, name="bench", models=None, expires_at=None, now_ms=now_ms
    )
    return key


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
