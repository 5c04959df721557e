"""One piece: a service on the records of the piece before it, callers, samples, and the checks at its end."""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.checkout import today
from lab.endurance.load import ACCOUNTS, CALLERS, CREDIT, CROWD, Caller, Follower, Tally
from lab.endurance.record import Piece
from lab.endurance.samples import MIB, Sampler

from servers import checker
from servers.postgres import PostgresServer, start_postgres
from servers.receiver import Receiver
from servers.service import RunningService
from tenuto.db.database import Database
from tenuto_client import Tenuto

WARM_UP = 0.25
MOST_WARM_UP_S = 600.0
"""A quarter of a piece warms up, ten minutes at most: caches fill, allocators grow to their size."""
DRAIN_S = 120.0
MESSAGES_S = 60.0
LOOK_S = 0.5
PRICES = '[models."fake/speech"]\nprice = "0.001"\n[models."fake/metered-speech"]\nprice = "0.002"\n'
SETTINGS = {
    "TENUTO_REQUESTS_PER_SECOND": "0",
    "TENUTO_SPEECH_SLOTS": "3",
    "TENUTO_RECOGNITION_SLOTS": "2",
    "TENUTO_WEBHOOKS": "any",
}
EVENTS = ("succeeded", "failed", "cancelled")
NAME = "endurance"
"""Of the database on the server."""
MOST_FAULTS = 20


class Letters:
    """The receiver of an account's webhook: the ids of the messages that came."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self._receiver = Receiver()
        self.url = self._receiver.url

    def collect(self) -> None:
        """Take what has come out of the receiver, which keeps it all."""
        messages = self._receiver.messages
        while messages:
            self.ids.add(messages.pop(0).id)

    def close(self) -> None:
        self._receiver.close()


def run(database: str, minutes: float, folder: Path, commit: str, number: int = 1) -> Piece:
    """A piece of so many minutes on `sqlite` or `postgresql`; `folder` keeps its records for the next one."""
    folder.mkdir(parents=True, exist_ok=True)
    with _server(database, folder) as server:
        service = _service(folder, server)
        service.start()
        records = checker.open_records(service)
        try:
            before = _count(records), _size_mib(records, folder, server)
            tally, letters, sampler, faults = _load(service, records, server, minutes)
            after = _count(records), _size_mib(records, folder, server)
        finally:
            records.close()
            code = service.stop()
    faults = [*faults, *([] if code == 0 else [f"`serve` ended with {code}"])]
    return Piece(
        database=database,
        commit=commit,
        date=today(),
        cores=os.cpu_count() or 1,
        loads=(min(sampler.loads), statistics.median(sampler.loads), max(sampler.loads)),
        minutes=minutes,
        acts=tally.count(),
        jobs=after[0] - before[0],
        jobs_before=before[0],
        database_mib=(before[1], after[1]),
        messages=len(letters.ids),
        latencies_ms={act: _percentiles_ms(seconds) for act, seconds in tally.took_s().items()},
        series=sampler.series,
        faults=faults,
        service=number,
    )


def _load(
    service: RunningService, records: Database, server: PostgresServer | None, minutes: float
) -> tuple[Tally, Letters, Sampler, list[str]]:
    """The load from its begin to its rest, and what was not as it must be."""
    assert service.process is not None
    scratch = Path(tempfile.mkdtemp(prefix="endurance-"))
    tally, letters = Tally(), Letters()
    keys = [service.make_key(account, credit=CREDIT) for account in ACCOUNTS]
    since_ms = time.time_ns() // 1_000_000
    sampler = Sampler(service.process.pid, None if server is None else server.pid, tally.count)
    callers = [Caller(service, keys[n % len(keys)], scratch, tally, n) for n in range(CALLERS)]
    crowd = [Caller(service, keys[n % len(keys)], scratch, tally, CALLERS + n) for n in range(CROWD)]
    followers = [Follower(service, key, tally) for key in keys]
    try:
        with Tenuto(keys[0], service.url, journal=False) as first:
            webhook = first.webhooks.create(letters.url, [f"job.{event}" for event in EVENTS])
            began = time.monotonic()
            for thread in (*callers, *crowd, *followers, sampler):
                thread.start()
            measured = began + min(WARM_UP * minutes * 60, MOST_WARM_UP_S)
            _wait(began + (measured - began) / 2, letters)
            late = _finish(crowd, [])
            _wait(measured, letters)
            there, tally.is_counting = sampler.processes(), True
            _wait(began + minutes * 60, letters)
            sampler.measure(measured)
            now = sampler.processes()
            faults = [f"{name} was started again" for name, pid in there.items() if now.get(name) != pid]
            faults += [*late, *_finish(callers, followers)]
            faults += _missing(records, letters, since_ms)
            first.webhooks.delete(webhook.id)
    finally:
        sampler.stop()
        letters.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return tally, letters, sampler, [*faults, *tally.faults[:MOST_FAULTS], *_checked(service)]


def _wait(until: float, letters: Letters) -> None:
    while time.monotonic() < until:
        letters.collect()
        time.sleep(LOOK_S)


def _finish(callers: Sequence[Caller], followers: Sequence[Follower]) -> list[str]:
    """Their last acts; those that do not come to an end in time."""
    until = time.monotonic() + DRAIN_S
    for caller in callers:
        caller.finish()
    for caller in callers:
        caller.join(max(0.0, until - time.monotonic()))
    for follower in followers:
        # It may wait for an event that nobody causes any more; its stream ends with the service.
        follower.finish()
    silent = [f"{each.name} saw no event" for each in followers if each.count == 0]
    return [*silent, *(f"{caller.name} does not finish" for caller in callers if caller.is_alive())]


def _missing(records: Database, letters: Letters, since_ms: int) -> list[str]:
    """Each end of a job of the first account is a message of its webhook."""
    sql = f"""select e.job_id, e.sequence from event e join job j on j.id = e.job_id
              join account a on a.id = j.account_id
              where a.name = :account and e.at >= :since and e.type in {EVENTS}"""
    until = time.monotonic() + MESSAGES_S
    while True:
        letters.collect()
        ends = checker.rows(records, sql, account=ACCOUNTS[0], since=since_ms)
        missing = {f"{end['job_id']}_{end['sequence']}" for end in ends} - letters.ids
        if not missing or time.monotonic() > until:
            return [f"no message of {each}" for each in sorted(missing)[:MOST_FAULTS]]
        time.sleep(LOOK_S)


def _checked(service: RunningService) -> list[str]:
    """The operator's audit, and the log of this piece."""
    done = service.command("admin", "audit", check=False, timeout_s=600)
    lines = [] if done.returncode == 0 else (done.stdout + done.stderr).splitlines()[:MOST_FAULTS]
    text = service.log_path.read_text(errors="replace")
    traces = text.count("Traceback (most recent call last)")
    return [*(f"audit: {line}" for line in lines), *([f"{traces} tracebacks in the log"] if traces else [])]


def _service(folder: Path, server: PostgresServer | None) -> RunningService:
    (folder / "tenuto.toml").write_text(PRICES)
    (folder / "data.log").unlink(missing_ok=True)
    variables = {**SETTINGS, "TENUTO_CONFIG": str(folder / "tenuto.toml")}
    url = None if server is None else server.url(NAME)
    return RunningService(folder / "data", url, variables=variables, is_measured=True)


@contextmanager
def _server(database: str, folder: Path) -> Iterator[PostgresServer | None]:
    """PostgreSQL on the data of the piece before, if they are there; it is stopped and keeps them."""
    if database == "sqlite":
        yield None
        return
    note = folder / "server"
    kept = Path(note.read_text()) if note.exists() else None
    if kept is not None and (kept / "data").exists():
        binaries = Path((folder / "binaries").read_text())
        server = PostgresServer(kept, binaries, is_durable=True, pid=0)
        server.start()
    else:
        server = start_postgres()
        server.run(f"create database {NAME}")
        # Blobs and records belong together.
        shutil.rmtree(folder / "data", ignore_errors=True)
        note.write_text(str(server.folder))
        (folder / "binaries").write_text(str(server.binaries))
    try:
        yield server
    finally:
        server.kill()


def _count(records: Database) -> int:
    number: int = checker.rows(records, "select count(*) as n from job")[0]["n"]
    return number


def _size_mib(records: Database, folder: Path, server: PostgresServer | None) -> float:
    if server is None:
        return round(sum(file.stat().st_size for file in (folder / "data").glob("tenuto.db*")) / MIB, 1)
    [size] = checker.rows(records, f"select pg_database_size('{NAME}') as bytes")
    return round(int(size["bytes"]) / MIB, 1)


def _percentiles_ms(seconds: Sequence[float]) -> list[float]:
    """How many, and the percentiles 50, 95 and 99, of sorted values."""
    at = [seconds[min(len(seconds) - 1, int(share * len(seconds)))] for share in (0.5, 0.95, 0.99)]
    return [len(seconds), *(round(each * 1000, 1) for each in at)]
