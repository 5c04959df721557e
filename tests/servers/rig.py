"""Workers of one machine around a world: their parts, their locks, and a database that can go away."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from servers.speed import HANG_S
from servers.world import EVERY_MODEL, World
from tenuto import failpoints
from tenuto.config import Settings
from tenuto.db.database import Asking, Database, Dialect, Listener, Transaction
from tenuto.db.servers import Servers
from tenuto.errors import Unavailable
from tenuto.feature import features
from tenuto.file.directory import DirectoryBlobs
from tenuto.job.queue import Claim
from tenuto.kind import operations as catalog
from tenuto.kind.kinds import kinds
from tenuto.worker import attempt, locks
from tenuto.worker.context import WorkCondition, WorkerContext
from tenuto.worker.core_duties import EngineDuties, core_duties
from tenuto.worker.duties import Turn, Upkeep, of_features
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import CLOCK_TRUST_S, ClockTrust, Heartbeat
from tenuto.worker.locks import LifeLock
from tenuto.worker.result_keeper import keeping
from tenuto.worker.watch import Watch

T = TypeVar("T")
SILENCE_S = 30.0


@dataclass
class Interrupted:
    """A real database whose line can be cut: then every call is refused as it is when the server is away.
    Or it stalls: then writes wait until it passes on again."""

    real: Database
    is_away: bool = False
    passes: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.passes.set()

    @property
    def dialect(self) -> Dialect:
        return self.real.dialect

    def read(self, operation: Callable[[Transaction], T]) -> T:
        self._check()
        return self.real.read(operation)

    def snapshot(self, operation: Callable[[Transaction], T]) -> T:
        self._check()
        return self.real.snapshot(operation)

    def write(self, operation: Callable[[Transaction], T]) -> T:
        self._check()
        self.passes.wait()
        return self.real.write(operation)

    def write_long(self, operation: Callable[[Transaction], T]) -> T:
        self._check()
        return self.real.write_long(operation)

    async def read_async(self, operation: Callable[[Transaction], T]) -> T:
        self._check()
        return await self.real.read_async(operation)

    async def look_up(self, ask: Callable[[Asking], Callable[[], T]]) -> T:
        self._check()
        return await self.real.look_up(ask)

    async def write_async(self, operation: Callable[[Transaction], T], *, account_id: str = "") -> T:
        self._check()
        return await self.real.write_async(operation, account_id=account_id)

    def wake(self, topic: str) -> None:
        self.real.wake(topic)

    def listen(self, *topics: str, once: bool = False) -> Listener:
        return self.real.listen(*topics, once=once)

    @property
    def servers(self) -> Servers | None:
        return self.real.servers

    def check_location(self) -> None:
        self.real.check_location()

    def close(self) -> None:
        self.real.close()

    def _check(self) -> None:
        if self.is_away:
            raise Unavailable


@dataclass
class Rig:
    """A worker that keeps house (`worker_us`), and what it shares with others of its machine."""

    world: World
    folder: Path
    database: Interrupted = field(init=False)
    context: WorkerContext = field(init=False)
    heartbeat: Heartbeat = field(init=False)
    work_condition: WorkCondition = field(default_factory=lambda: WorkCondition(kinds()))

    def __post_init__(self) -> None:
        self.database = Interrupted(self.world.database)
        self.context = WorkerContext(
            settings=Settings(folder=self.folder, silence_s=SILENCE_S, engines="fake"),
            database=self.database,
            blobs=DirectoryBlobs(self.folder / "blobs"),
            models=self.world.models,
            ids=self.world.ids,
            clock=lambda: self.world.now_ms,
            worker_id="worker_us",
            locks=self.folder / "locks",
        )
        if kept := features().get("kept_results"):
            keeping.begin = kept.part(".keeper:PaidResult")
        self.heartbeat = Heartbeat(self.context, self.register)
        self.world.register("worker_us", machine=self.machine)

    @property
    def machine(self) -> str:
        return locks.machine(self.folder / "locks")

    def register(self, tx: Transaction) -> None:
        """Our worker says that it is there once more."""
        catalog.register_worker(
            tx,
            "worker_us",
            machine=self.machine,
            pid=1,
            lock_name="worker_us.lock",
            models=["fake/speech"],
            now_ms=self.world.now_ms,
        )

    def upkeep(self, worker_id: str = "worker_us", engines: Engines | None = None) -> Upkeep:
        """An upkeep of a worker of this machine; it is driven by `do_due`, not by its thread."""
        context = replace(self.context, worker_id=worker_id)
        measured = EngineDuties(
            engines or Engines(context, [], self.work_condition), self.work_condition.announce
        )
        core = core_duties(context, measured, self.heartbeat, self.work_condition.announce)
        return Upkeep(context, [*core, *of_features(Watch(context.settings))])

    def turn(self) -> Turn:
        """The turn of a duty that trusts the clock."""
        now, now_ms = time.monotonic(), self.context.clock()
        clock_trust = ClockTrust(round(now_ms - CLOCK_TRUST_S * 1000), now - CLOCK_TRUST_S)
        return Turn(self.context, now, now_ms, clock_trust, threading.Event())

    def lock(self, worker_id: str) -> LifeLock:
        return LifeLock(self.folder / "locks", f"{worker_id}.lock")

    def neighbour(self, worker_id: str = "worker_b") -> None:
        """Another worker of this machine registers; whether its lock is held is the test's business."""
        self.world.register(worker_id, machine=self.machine)

    def running(self, worker_id: str, model: str = "fake/speech") -> Claim:
        """A job that this worker has claimed."""
        self.world.submit(self.world.caller(), "key", model=model)
        claim = self.world.claim(worker_id, EVERY_MODEL)
        assert claim is not None
        return claim

    def record(self, claim: Claim, content: bytes = b"sound") -> str:
        """A result whose bytes lie in the folder; gives the blob's id."""
        record = self.context.blobs.write(self.world.ids.new("blob"), content)
        self.world.record(claim.attempt_id, self.world.result(blob=record))
        return record.blob_id


def run(rig: Rig, engines: Engines, claim: Claim) -> None:
    """The attempt from its claim to its end, as a slot's thread makes it."""
    engines.begin(claim.model)
    attempt.run(rig.context, engines, rig.heartbeat, claim, lambda tx, now_ms: None)


@contextmanager
def failing(place: str, error: str, *, times: int = 1) -> Iterator[None]:
    """So many visits of a place meet this error of the system's."""
    failpoints.arm(",".join(f"{place}:{nth}:raise={error}" for nth in range(1, times + 1)))
    try:
        yield
    finally:
        failpoints.arm("")


@contextmanager
def hanging(place: str) -> Iterator[threading.Event]:
    """Whoever reaches the place hangs there, as in a kernel that waits for a mount, until the block ends.
    The event is set when somebody does."""
    reached, over, hit = threading.Event(), threading.Event(), failpoints.hit

    def hang(name: str) -> None:
        hit(name)
        if name == place:
            reached.set()
            over.wait()

    failpoints.hit = hang
    try:
        yield reached
    finally:
        failpoints.hit = hit
        over.set()


def full_disk() -> AbstractContextManager[None]:
    """The folder of bytes stays where it is and takes none while the block lasts."""
    return failing("blob.before_write", "ENOSPC", times=1000)


def eventually(holds: Callable[[], Any], timeout_s: float = HANG_S) -> bool:
    """Whether something that another thread does comes true in time."""
    end, pause = time.monotonic() + timeout_s, threading.Event()
    while not holds():
        if time.monotonic() > end:
            return False
        pause.wait(0.005)
    return True
