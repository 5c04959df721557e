"""One life: a fresh service, clients that work, faults one after the other, rest, and the checker."""

import random
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lab.faults import check, plan
from lab.faults.clients import Client
from lab.faults.inject import inject
from lab.faults.plan import Fault, Shape
from lab.faults.programs import Program
from lab.faults.seen import Book
from lab.faults.world import World

from servers import checker
from servers.postgres import PostgresServer

ACCOUNTS = {"rich": "1000", "other": "1000", "poor": "2"}
"""The accounts and their credit: the poor one cannot pay for all its jobs."""
CLIENTS = ("rich", "rich", "other", "other", "poor")
PROGRAMS = (("rich", True), ("other", False))
"""Programs made for OpenAI, by account, and whether they ask again."""
INFORMED = ("rich", "other")
"""The accounts that have a webhook; they share its server."""
INFORM_S = 60.0
"""Until every message must have come, once nothing goes wrong any more."""
PATIENCE_S, REST_S = 25.0, 180.0
"""After the first, clients cancel unfinished jobs; after the second, an unfinished job is a finding."""
WARM_S, READY_S = 1.0, 20.0
MESSAGES_LOOK_S = 0.3
RECOVERIES = 3
"""How many jobs of unknown charge an operator decides at the end of a life, each differently."""


@dataclass
class Result:
    """What a life was: which faults hit, what came of it, and what was found."""

    first: int
    hit: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    by_kill: int = 0
    """Workers killed at a failpoint."""
    missed: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Where the time went: start, pauses, waiting until all is ready, faults, rest, checks."""
    took_s: float = 0.0
    rest_s: float = 0.0
    starts: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        return sum(self.hit.values())

    def dump(self) -> dict[str, Any]:
        """As JSON: counters as objects."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}


def live(
    folder: Path,
    server: PostgresServer | None,
    faults: list[Fault],
    *,
    wanted: int,
    shape: Shape,
    seed: str,
    book: Book,
    until: float,
) -> Result:
    """Inject of these faults as many as are wanted, in order, until that moment of the monotonic clock.

    The folder is removed where nothing was found, and kept otherwise.
    """
    result = Result(faults[0].number)
    began = time.monotonic()
    folder.mkdir(parents=True)
    book.forget_ids()
    clients: list[Client] = []
    with _timed(result, "start"):
        world = World(folder, shape, server)
        world.start()
    try:
        with _timed(result, "start"):
            clients += _clients(world, book, seed)
            time.sleep(WARM_S)
        for fault in faults:
            _suffer(world, fault, result, book)
            broken = [said for client in clients for said in client.faults]
            if result.faults >= wanted or time.monotonic() > until or broken or result.findings:
                break
        with _timed(result, "rest"):
            result.findings += _rest(world, clients, random.Random(seed))
        result.rest_s = result.seconds["rest"]
        result.starts = world.supervisor.starts
        with _timed(result, "checks"):
            code = world.stop()
            result.findings += [] if code == 0 else [f"`serve` ended with {code}"]
            result.findings += check.findings(world, clients)
            result.ends = check.outcomes(world.service)
    except BaseException:
        with suppress(Exception):
            world.kill()
        raise
    finally:
        world.close(is_kept=bool(result.findings))
    for client in clients:
        result.answers += client.link.counts
    result.took_s = time.monotonic() - began
    if not result.findings:
        shutil.rmtree(folder)
        world.drop()
    return result


def _suffer(world: World, fault: Fault, result: Result, book: Book) -> None:
    """One fault, at its time; clients do what leads to its place while it waits there."""
    with _timed(result, "pauses"):
        time.sleep(fault.pause_s)
    if not fault.is_hasty:
        with _timed(result, "ready"):
            world.wait_ready(READY_S)
    book.wanted = fault.place or ""
    with _timed(result, "faults"):
        has_hit = _injected(world, fault, result)
    book.wanted = ""
    _count(result, fault, has_hit)
    if has_hit and fault.kind == plan.KILL_HOST:
        book.host_killed()


@contextmanager
def _timed(result: Result, what: str) -> Iterator[None]:
    began = time.monotonic()
    try:
        yield
    finally:
        result.seconds[what] += time.monotonic() - began


def _injected(world: World, fault: Fault, result: Result) -> bool:
    """Whether it hit; what a fault itself finds is a finding of the life."""
    try:
        return inject(world, fault)
    except AssertionError as error:
        result.findings.append(f"{fault}: {error}")
        return True


def _clients(world: World, book: Book, seed: str) -> list[Client]:
    direct, cut = world.service.url, f"http://127.0.0.1:{world.client_proxy.port}"
    clients = []
    for number, account in enumerate(CLIENTS):
        key = world.service.make_key(account, credit=ACCOUNTS[account])
        url = cut if number % 2 else direct
        clients.append(Client(url, account, key, book, f"{seed}/{number}"))
        if account in INFORMED and account not in world.inbox.secrets:
            world.inbox.register(world.service, account, key)
    for account, is_patient in PROGRAMS:
        key = world.service.make_key(account)
        clients.append(Program(cut, account, key, book, f"{seed}/{is_patient}", is_patient=is_patient))
    for client in clients:
        client.start()
    return clients


def _count(result: Result, fault: Fault, has_hit: bool) -> None:
    if not has_hit:
        result.missed[fault.place or fault.kind] += 1
        return
    result.hit[fault.kind] += 1
    if fault.place is not None:
        result.places[fault.place] += 1
        result.by_kill += fault.kind == plan.PLACE_KILL and fault.place in plan.OF_WORKERS


def _rest(world: World, clients: list[Client], dice: random.Random) -> list[str]:
    """No more faults: everything must come to its end by itself, what waits for an operator by them."""
    world.shots.disarm()
    for client in clients:
        client.finish()
    resting = time.monotonic()
    for patience_s, lose_it in ((PATIENCE_S, Client.lose_patience), (REST_S, Client.give_up)):
        for client in clients:
            client.join(max(0.0, resting + patience_s - time.monotonic()))
            lose_it(client)
    found = _recover(world, clients, dice)
    for client in clients:
        client.join(10)
    _await_messages(world)
    return found


def _await_messages(world: World) -> None:
    """What was refused is due now, not after the hours of its schedule; `check` finds what is missing."""
    until = time.monotonic() + INFORM_S
    database = checker.open_records(world.service)
    try:
        while list(check.informed(database, world.inbox)) and time.monotonic() < until:
            database.write(
                lambda tx: tx.run("update webhook_delivery set next_at = 0 where state = 'pending'")
            )
            time.sleep(MESSAGES_LOOK_S)
    finally:
        database.close()


def _recover(world: World, clients: list[Client], dice: random.Random) -> list[str]:
    """The operator's three exits, each for one of the jobs whose payment is unknown."""
    waiting = [
        work
        for client in clients
        for work in client.works
        if work.operation.get("state") == "recovery_required"
    ]
    sample = world.folder / "brought.wav"
    sample.write_bytes(clients[0]._book.media.wavs[0])
    ways = (["void"], ["requeue"], ["complete", "--file", str(sample)])
    found = []
    for work, (way, *options) in zip(dice.sample(waiting, min(RECOVERIES, len(waiting))), ways, strict=False):
        assert work.job_id is not None
        done = world.service.command("admin", "recover", way, work.job_id, *options, check=False)
        world.service.key = next(client.link.key for client in clients if work in client.works)
        ended = world.service.wait(work.job_id, states=("succeeded", "failed", *_waits(done.returncode)))
        expected = "failed" if way == "void" and done.returncode == 0 else "succeeded"
        if ended["state"] != expected:
            found.append(f"after recover {way} {done.stderr}: {ended}")
        work.operation, work.resolved = ended, True
    return found


def _waits(returncode: int) -> tuple[str, ...]:
    """Whoever was refused finds a late worker's own result, or a job that waits still: that is a finding."""
    return () if returncode == 0 else ("recovery_required",)
