"""What requests note beside their work, from several threads at once, and who writes it down."""

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servers.accounts import create_account, create_key
from servers.speed import HANG_S
from servers.world import at_once
from tenuto import config
from tenuto.account.caller import Caller
from tenuto.api import service
from tenuto.api.limits import Buckets
from tenuto.api.service import MAX_JOBS, FinalJobCache, LastUse
from tenuto.db.database import Database
from tenuto.job.read import Job
from tenuto.process import api as bootstrap

THREADS = 4
TURNS = 2000


class Yielding(str):
    """A text that lets other threads run whenever a dictionary looks for it."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0)
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)


def together(work: Callable[[int], None]) -> list[Exception]:
    """What goes wrong when several threads do this at once, each with a number of its own."""
    return [answer for answer in at_once(THREADS, work) if answer is not None]


def test_what_is_noted_from_several_threads_is_taken_once() -> None:
    """PostgreSQL's threads admit requests while another writes down what was noted before."""
    last_use = LastUse()
    sizes: list[int] = []
    noting = threading.Semaphore(0)

    def work(number: int) -> None:
        if number:
            for turn in range(TURNS):
                last_use.note(Yielding(f"key_{number}_{turn}"), 1)
            noting.release()
            return
        while noting._value < THREADS - 1:
            sizes.append(len(last_use.take()))
            time.sleep(0)

    faults = together(work)
    sizes.append(len(last_use.take()))

    assert ([], (THREADS - 1) * TURNS) == (faults, sum(sizes))


def final(job_id: str) -> Job:
    """A job that has ended; nobody looks at its other fields."""
    unknown: dict[str, Any] = dict.fromkeys(Job.__struct_fields__)
    return Job(**unknown | {"id": job_id, "model": "fake/speech", "state": "failed"})


def test_finals_are_kept_and_looked_at_from_several_threads() -> None:
    """While a full cache forgets its oldest job, another thread asks for that job."""
    finals, caller = FinalJobCache(), Caller("key", "account", None, None)
    for number in range(MAX_JOBS):
        finals.keep("account", final(f"job{number}"), b"{}")

    def work(number: int) -> None:
        for turn in range(TURNS):
            if number % 2:
                finals.keep("account", final(Yielding(f"more{number}.{turn}")), b"{}")
            else:
                with finals._lock:
                    _, oldest = next(iter(finals._answers))
                finals.get(caller, Yielding(oldest))

    assert [] == together(work)


def test_expired_answers_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of jobs read a second apart, only the answers of the last two seconds are kept."""
    monkeypatch.setattr(service, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    finals = FinalJobCache()
    for number in range(9):
        finals.keep("account", final(f"job{number}"), b"{}")

    assert ["job6", "job7", "job8"] == [job_id for _, job_id in finals._answers]


def test_requests_are_counted_from_several_threads() -> None:
    """Each token is taken once."""
    buckets = Buckets(TURNS, 1.0, lambda: 0.0)
    taken = [0] * THREADS

    def work(number: int) -> None:
        for _ in range(TURNS):
            taken[number] += buckets.take(Yielding("key"))

    faults = together(work)

    assert ([], TURNS) == (faults, sum(taken))


def test_what_cannot_be_written_down_does_not_end_the_writing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that fails is logged, and the next one is made: else sessions would end early, unnoticed."""
    settings = config.load({}, options={"folder": str(tmp_path), "engines": "fake"})
    service = bootstrap.build_service(settings, database, needs_worker=False)
    account_id = database.write(lambda tx: create_account(tx, service.ids, "somebody", credit="0"))
    key_id = database.write(lambda tx: create_key(tx, service.ids, account_id)[0])
    stopping = threading.Event()
    monkeypatch.setattr(bootstrap, "FLUSH_S", 0.01)
    writing = threading.Thread(target=bootstrap._flush_use, args=(service, stopping))
    # More than an integer of either database holds.
    service.used_keys.note(key_id, 1 << 80)
    writing.start()
    until = time.monotonic() + HANG_S
    while service.used_keys.get(key_id) is not None:
        assert time.monotonic() < until
    service.used_keys.note(key_id, 7)

    def last_used() -> int | None:
        row = database.read(lambda tx: tx.one("select last_used_at from api_key where id = :id", id=key_id))
        assert row is not None
        at_ms: int | None = row["last_used_at"]
        return at_ms

    while last_used() != 7 and writing.is_alive():
        assert time.monotonic() < until
    stopping.set()
    writing.join(HANG_S)

    assert 7 == last_used()
