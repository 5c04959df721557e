"""The limit of an account's queue holds exactly, whichever processes submit, and however many (P14)."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from servers.world import LANE, World
from tenuto.account.caller import Caller
from tenuto.db.database import Database, Transaction
from tenuto.db.database_opening import open_database
from tenuto.errors import RateLimited
from tenuto.ids import Ids
from tenuto.job.queue import LONG_QUEUE, SHARES
from tenuto.job.submit import prepare

NUMBERS = itertools.count()
FREE_CALLER_MICROS = 10**12
STILL_S = 0.3
"""So long one process stands still while another tries to pass it."""


class Process:
    """An API process: connections and memory of its own, on the records of all."""

    def __init__(self, database: Database, world: World, caller: Caller, limit: int) -> None:
        self.database, self.world, self.caller = database, world, caller
        ids = Ids(lambda: int(time.time() * 1000))
        self.submitting = replace(world.submitting, database=database, ids=ids, max_queued=limit)
        self.accepted = 0

    def submit(self, before_commit: Callable[[], None] = lambda: None) -> bool:
        """One submission; False when the queue is full."""
        request = self.world.request(self.caller, f"key {next(NUMBERS)}")
        transaction = prepare(self.submitting, request)

        def accept(tx: Transaction) -> None:
            transaction(tx)
            before_commit()

        try:
            with self.submitting.full_queues.noting():
                self.database.write(accept)
        except RateLimited:
            return False
        self.accepted += 1
        return True

    def flood(self, least_refused: int) -> None:
        """Submit until so many were refused in a row."""
        refused = 0
        while refused < least_refused:
            refused = 0 if self.submit() else refused + 1


@pytest.fixture
def databases(database_url: str) -> Iterator[list[Database]]:
    opened = [open_database(database_url) for _ in range(6)]
    yield opened
    for database in opened:
        database.close()


def queued(world: World) -> int:
    return int(world.row("select count(*) as n from job where state = 'queued'")["n"])


@pytest.mark.parametrize("limit", [10, LONG_QUEUE + 140])
def test_six_processes_together_keep_the_limit(world: World, databases: list[Database], limit: int) -> None:
    """Exactly so many are accepted, of a small limit and of one that is seldom counted (P14)."""
    caller = world.caller(FREE_CALLER_MICROS)
    processes = [Process(database, world, caller, limit) for database in databases]
    threads = [threading.Thread(target=process.flood, args=(3,)) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    assert limit == queued(world)
    assert limit == sum(process.accepted for process in processes)


@pytest.mark.parametrize("limit", [SHARES // 2, 3 * SHARES])
def test_who_stands_still_within_a_submission_lets_nobody_past(
    world: World, databases: list[Database], limit: int
) -> None:
    """Who has its place and is slow to commit holds up the others, who then count its job (P14)."""
    caller = world.caller(FREE_CALLER_MICROS)
    slow, busy = (Process(database, world, caller, limit) for database in databases[:2])
    busy.submit()
    has_place, others_wait = threading.Event(), threading.Event()

    def stand_still() -> None:
        has_place.set()
        others_wait.wait(120)

    threads = [
        threading.Thread(target=slow.submit, args=(stand_still,)),
        threading.Thread(target=busy.flood, args=(1,)),
    ]
    threads[0].start()
    assert has_place.wait(120)
    threads[1].start()
    threads[1].join(STILL_S)
    accepted_meanwhile = busy.accepted
    others_wait.set()
    for thread in threads:
        thread.join(120)

    assert 1 == accepted_meanwhile
    assert limit == queued(world)


def test_the_last_places_are_counted_one_by_one(world: World, databases: list[Database]) -> None:
    """Nothing is noted when less than a part is left, and what left the queue is room again at once (P14)."""
    caller = world.caller(FREE_CALLER_MICROS)
    process = Process(databases[0], world, caller, SHARES + 5)
    process.flood(1)
    for row in world.all("select id from job order by id limit 2"):
        world.cancel(caller.account_id, row["id"])
    process.flood(1)

    assert [0] == [row["room"] for row in world.all("select room from queue_room")]
    assert (SHARES + 5, SHARES + 7) == (queued(world), process.accepted)


def test_the_noted_room_is_an_accounts_own(world: World, databases: list[Database]) -> None:
    """What one account may queue without a count, no other may."""
    callers = [world.caller(FREE_CALLER_MICROS) for _ in range(2)]
    for caller in callers:
        Process(databases[0], world, caller, 10 * SHARES).submit()

    rows = world.all("select account_id, lane, room from queue_room")
    noted = {(row["account_id"], row["lane"]): row["room"] for row in rows}
    assert {(caller.account_id, LANE): 10 for caller in callers} == noted


@pytest.mark.parametrize("before", [20_000, 10 * SHARES])
def test_a_lower_limit_holds_from_the_first_submission_on(
    world: World, databases: list[Database], before: int
) -> None:
    """What was noted under a higher limit does not count under the new one, of whatever size (P14)."""
    caller = world.caller(FREE_CALLER_MICROS)
    higher = Process(databases[0], world, caller, before)
    assert higher.submit() and higher.submit()
    lowered = Process(databases[1], world, caller, 2)
    lowered.flood(1)

    assert (2, 0) == (queued(world), lowered.accepted)
