"""An engine's silence counts while it runs, and at no other time: who waits for it has not gone silent."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from servers.rig import Rig, eventually, run
from servers.speed import HANG_S
from servers.world import SPEECH, World
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, Cancelled, EngineSpec, HostResult
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.engines import Engines
from tenuto.worker.heartbeat import Heartbeat


@pytest.fixture
def dialect() -> str:
    """One database: which one it is makes no difference to engines."""
    return "sqlite"


@pytest.fixture
def quick(rig: Rig) -> Rig:
    """A rig whose heart beats and looks for silence every 50 ms."""
    rig.context = replace(rig.context, settings=replace(rig.context.settings, heartbeat_s=0.05))
    rig.heartbeat = Heartbeat(rig.context, rig.register)
    rig.heartbeat.start()
    return rig


class Told(ChildHost):
    """A host of ours that says when a load or a run is asked of it."""

    def __init__(self, spec: EngineSpec, before: Callable[[str], None]) -> None:
        super().__init__(spec)
        self._before = before

    def load(self) -> dict[str, Any]:
        self._before("load")
        return super().load()

    def run(self, *arguments: Any, **named: Any) -> HostResult:
        self._before("run")
        return super().run(*arguments, **named)


def grow_old(rig: Rig) -> None:
    """So much time passes for whoever is watched as an engine may be silent, and the heartbeat looks."""
    for watched in rig.heartbeat.active():
        watched.heard_at = 0.0
    for _ in range(2):
        before = rig.heartbeat.ran_at
        assert eventually(lambda before=before: rig.heartbeat.ran_at > before)  # type: ignore[misc]


@contextmanager
def engines_of(rig: Rig, before: Callable[[str], None]) -> Iterator[Engines]:
    engines = Engines(rig.context, [SPEECH], rig.work_condition, lambda spec: Told(spec, before))
    try:
        yield engines
    finally:
        engines.close()


def ends_well(world: World, job_id: str) -> tuple[str, int]:
    """The job's state and how many attempts it has had."""
    tries = world.all("select id from attempt where job_id = :id", id=job_id)
    return str(world.job(job_id)["state"]), len(tries)


def test_a_long_load_costs_no_try(world: World, quick: Rig) -> None:
    """The engine takes longer to load than it may be silent: the run has not begun (P1)."""
    claim = quick.running("worker_us")

    def before(what: str) -> None:
        if what == "load":
            grow_old(quick)

    with engines_of(quick, before) as engines:
        run(quick, engines, claim)

    assert ("succeeded", 1) == ends_well(world, claim.job_id)


class SlowLoads:
    """Loads that wait until they are let go; all are, when the block ends."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()

    def before(self, what: str) -> None:
        if what == "load":
            self.begun.release()
            assert self.go_on.wait(60)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.go_on.set()


def test_a_cancel_does_not_wait_for_a_load(world: World, quick: Rig) -> None:
    """The job is cancelled while its engine still loads; another that waits for the same load is not
    disturbed, and nothing is loaded twice (P1). Until it is loaded no other engine is promised its room.
    """
    world.slots(2)
    doomed, other = quick.running("worker_us"), quick.running("worker_us")
    slow = SlowLoads()
    with engines_of(quick, slow.before) as engines, ThreadPoolExecutor(2) as pool, slow:
        runs = [pool.submit(run, quick, engines, claim) for claim in (doomed, other)]
        assert slow.begun.acquire(timeout=60)
        assert eventually(lambda: len(quick.heartbeat.active()) == 2)
        world.cancel(doomed.account_id, doomed.job_id)
        world.database.wake("cancel")
        runs[0].result(HANG_S)
        while_it_loads = world.state(doomed.job_id), world.state(other.job_id), engines.host(SPEECH).alive
        busy = engines._busy()
        slow.go_on.set()
        runs[1].result(60)
        is_loaded_twice = slow.begun.acquire(blocking=False)

    assert ("cancelled", "running", False) == while_it_loads
    assert {SPEECH} == busy
    assert ["hold", "void"] == world.entries(doomed.job_id)
    assert (("succeeded", 1), False) == (ends_well(world, other.job_id), is_loaded_twice)


def test_a_long_wait_for_a_place_costs_no_try(world: World, quick: Rig) -> None:
    """Every place of the process is taken for longer than an engine may be silent (P1)."""
    claim = quick.running("worker_us")
    places = quick.context.models[SPEECH].entry.concurrency
    stop, arrived = Cancellation(), threading.Semaphore(0)
    started = threading.Semaphore(0)

    with (
        engines_of(quick, lambda what: arrived.release() if what == "run" else None) as engines,
        ThreadPoolExecutor(places + 1) as pool,
    ):
        host = engines.ready(SPEECH)
        others = [
            pool.submit(
                host.run,
                {"text": "[fake:sleep=600] Others.", "stream": False},
                {},
                on_start=started.release,
                on_segment=lambda content, metadata: None,
                on_progress=lambda progress: None,
                deadline_s=600,
                cancelled=stop,
            )
            for _ in range(places)
        ]
        try:
            assert all(started.acquire(timeout=60) and arrived.acquire(timeout=60) for _ in range(places))
            mine = pool.submit(run, quick, engines, claim)
            assert arrived.acquire(timeout=60)
            grow_old(quick)
            was_stopped = [watched.stop.is_set() for watched in quick.heartbeat.active()]
        finally:
            stop.set()
        mine.result(60)
        assert all(isinstance(other.exception(60), Cancelled) for other in others)

    assert [False] == was_stopped
    assert ("succeeded", 1) == ends_well(world, claim.job_id)


def test_an_engine_that_waits_for_us_is_not_silent(world: World, quick: Rig) -> None:
    """A segment takes longer to be stored than an engine may be silent; afterwards silence counts again."""
    claim = quick.running("worker_us")
    watched = quick.heartbeat.watch(claim.attempt_id, cancellable=True)
    seen: list[bool] = []

    def show(content: bytes, metadata: dict[str, Any]) -> None:
        grow_old(quick)
        seen.append(watched.stop.is_set())

    with engines_of(quick, lambda what: None) as engines, ThreadPoolExecutor(1) as pool:
        calls = EngineCalls(quick.context, engines, claim, watched, lambda: None)
        calls.run({"text": "Piece by piece.", "stream": True}, {}, show)
        was_over = not watched.is_running
        silent = pool.submit(calls.run, {"text": "[fake:segments=1] [fake:sleep=600] Then none."}, {})
        assert eventually(lambda: watched.is_running, 60)
        watched.heard_at = 0.0
        assert isinstance(silent.exception(60), Cancelled)

    assert was_over
    assert seen
    assert not any(seen)
    assert watched.silent
