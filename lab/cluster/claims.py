"""Four processes that claim and give back without pause, and what they saw of each other.

A claim's slot is given back in the transaction that takes the next one, as a worker does it with results. How
many are held is counted in memory that the processes share: up when a claim is known to be committed, down
before it is given back. That is never more than are held in truth, so a count over the slots is a proof.
"""

import multiprocessing
import random
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Barrier
from pathlib import Path
from tempfile import TemporaryDirectory

from servers.world import EVERY_MODEL, LANE, World
from tenuto.db.database import Database, Transaction
from tenuto.db.database_opening import open_database
from tenuto.job import finish, queue
from tenuto.job.fate import Cause
from tenuto.job.queue import Claim

PROCESSES = 4
ACCOUNTS = 6
JOBS_AN_ACCOUNT = 8
LET_GO = 0.1
"""The part of claims whose slot is given back alone."""
KEPT, KEPT_S = 0.2, 0.005
LOOK_S, PAUSE_S = 0.02, 0.002
READY_S, MOST_S, END_S = 60.0, 300.0, 30.0

_STATE = """
    select (select count(*) from job where state = 'running' and lane = :lane) as running,
           (select count(*) from slot where lane = :lane and job_id is not null) as busy
"""


@dataclass(frozen=True)
class Seen:
    """What came of it all."""

    claims: int
    most_held: int
    """By what the processes counted together."""
    most_running: int
    """By what was committed at any moment that we looked."""
    uneven: int
    """How often jobs running and slots busy were not as many, in one look."""
    by_account: Counter[str]
    took_s: float


@dataclass(frozen=True)
class _Shared:
    """What the processes have in common: how many claims are left, how many are held, the most that were."""

    gate: Barrier
    left: "Synchronized[int]"
    held: "Synchronized[int]"
    most: "Synchronized[int]"

    def hold(self) -> None:
        with self.held.get_lock():
            self.left.value -= 1
            self.held.value += 1
            self.most.value = max(self.most.value, self.held.value)

    def let_go(self) -> None:
        with self.held.get_lock():
            self.held.value -= 1


def race(url: str, *, claims: int, slots: int, most_s: float = MOST_S) -> Seen:
    """So many claims by four processes on a database that has its tables and nothing else; fewer where they
    take longer than they may."""
    database, folder = open_database(url), TemporaryDirectory(prefix="tenuto-claims-")
    world = World(database, Path(folder.name))
    world.open(slots)
    for number in range(ACCOUNTS):
        caller = world.caller()
        for job in range(JOBS_AN_ACCOUNT):
            world.submit(caller, f"{number} {job}")
    context = multiprocessing.get_context("spawn")
    shared = _Shared(
        context.Barrier(PROCESSES + 1),
        context.Value("q", claims),
        context.Value("q", 0),
        context.Value("q", 0),
    )
    processes = [
        context.Process(target=_work, args=(url, folder.name, number, slots, shared), daemon=True)
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    shared.gate.wait(READY_S)
    began = time.monotonic()
    most_running, uneven = _watch(database, shared, began + most_s)
    took_s = time.monotonic() - began
    for process in processes:
        process.join(END_S)
        assert process.exitcode == 0, f"a claiming process ended with {process.exitcode}"
    rows = world.all(
        """select j.account_id, count(*) as claims from event e join job j on j.id = e.job_id
           where e.type = 'running' group by j.account_id"""
    )
    findings = world.findings()
    database.close()
    folder.cleanup()
    assert findings == []
    by_account = Counter({row["account_id"]: row["claims"] for row in rows})
    return Seen(by_account.total(), shared.most.value, most_running, uneven, by_account, took_s)


def _watch(database: Database, shared: _Shared, until: float) -> tuple[int, int]:
    """The most jobs that ran at once, and how often they were not as many as the busy slots."""
    most, uneven = 0, 0
    while shared.left.value > 0:
        if time.monotonic() > until:
            shared.left.value = 0
        row = database.read(lambda tx: tx.one(_STATE, lane=LANE))
        assert row is not None
        most = max(most, row["running"])
        uneven += row["running"] != row["busy"]
        time.sleep(LOOK_S)
    return most, uneven


def _work(url: str, folder: str, number: int, slots: int, shared: _Shared) -> None:
    """One process: claims until all claims are made, and holds nothing at its end."""
    database = open_database(url)
    world = World(database, Path(folder))
    dice = random.Random(number)
    world.register(f"worker_{number}", machine=f"machine {number}")

    def take(tx: Transaction, given_back: str | None) -> Claim | None:
        if given_back is not None:
            finish.end(tx, world.ids, given_back, Cause("given_back"), now_ms=world.now_ms)
        return queue.claim(
            tx,
            world.ids,
            worker_id=f"worker_{number}",
            lane=LANE,
            slots=slots,
            models=EVERY_MODEL,
            now_ms=world.now_ms,
        )

    shared.gate.wait(READY_S)
    held: str | None = None
    while shared.left.value > 0:
        if held is not None:
            shared.let_go()
            # Sometimes the slot is free for a moment, so that another process may have it.
            if dice.random() < LET_GO:
                world.release(held)
                held = None
        claim = database.write(lambda tx, before=held: take(tx, before))  # type: ignore[misc]
        held = None
        if claim is None:
            time.sleep(PAUSE_S)
        else:
            held = claim.attempt_id
            shared.hold()
            # Sometimes it is kept for a while, so that another one would be seen beside it.
            if dice.random() < KEPT:
                time.sleep(KEPT_S)
    if held is not None:
        shared.let_go()
        world.release(held)
    database.close()
