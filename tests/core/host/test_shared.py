"""A process that serves several runs at once: what one of them does, no other pays for."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from servers.rig import eventually
from servers.speed import HANG_S
from servers.threads import lacking
from tenuto.host import process
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, Cancelled, HostDeadline, HostDraining, HostLost, HostResult

MakeHost = Callable[..., ChildHost]
DoRun = Callable[..., HostResult]
Gone = Callable[[int, float], bool]


class Neighbour:
    """A run that goes on until it is let go, and then gives the number of its process."""

    def __init__(self, pool: ThreadPoolExecutor, run: DoRun, host: ChildHost, file: Path) -> None:
        self._file = file
        self._started = threading.Event()
        self.run: Future[HostResult] = pool.submit(
            run, host, "when_there", file=str(file), on_progress=lambda _: self._started.set()
        )
        assert self._started.wait(HANG_S)

    def pid(self) -> int:
        self._file.touch()
        return int(self.run.result(HANG_S).content)


Beside = Callable[[ChildHost], Neighbour]


@pytest.fixture
def beside(tmp_path: Path, run: DoRun) -> Iterator[Beside]:
    """Give a function that starts a neighbour in a host."""
    neighbours: list[Neighbour] = []
    with ThreadPoolExecutor() as pool:

        def beside(host: ChildHost) -> Neighbour:
            neighbours.append(Neighbour(pool, run, host, tmp_path / str(len(neighbours))))
            return neighbours[-1]

        yield beside
        for index in range(len(neighbours)):
            (tmp_path / str(index)).touch()


def shared(make_host: MakeHost, spare_processes: int = 0) -> tuple[ChildHost, int]:
    """A host whose process takes four runs, and the number of that process."""
    host = make_host(options={"concurrency": 4}, spare_processes=spare_processes)
    return host, int(host.load()["pid"])


def cancel(run: DoRun, host: ChildHost, mode: str = "deaf", **parameters: Any) -> Cancelled:
    """What a run that is cancelled once it has begun raises, after a grace of 0.2 s."""
    cancelled = Cancellation()
    with pytest.raises(Cancelled) as error:
        run(host, mode, on_progress=lambda _: cancelled.set(), cancelled=cancelled, grace_s=0.2, **parameters)
    return error.value


def test_a_run_that_does_not_stop_is_left_and_its_neighbours_finish(
    make_host: MakeHost, run: DoRun, beside: Beside, gone: Gone
) -> None:
    """A cancel ends for its caller after the grace; the process goes on for the others and ends with them."""
    host, pid = shared(make_host)
    first, second = beside(host), beside(host)
    left = cancel(run, host)

    assert (True, True) == (left.lost, left.shared)
    assert (False, True) == (host.alive, host.is_draining)
    with pytest.raises(HostDraining):
        host.load()
    assert pid == first.pid()
    assert not gone(pid, 0)
    assert pid == second.pid()
    assert gone(pid, 5)
    assert pid != host.load()["pid"]
    assert b"echo" == run(host, "echo").content


def test_an_engine_without_a_model_goes_on_in_another_process_at_once(
    make_host: MakeHost, run: DoRun, beside: Beside, gone: Gone
) -> None:
    """Cancels in a row cost no neighbour its run; a limited number of processes drains at once."""
    host, pid = shared(make_host, spare_processes=2)
    neighbours, pids = [beside(host)], [pid]
    for _ in range(2):
        cancel(run, host)
        assert not host.is_draining
        pids.append(host.load()["pid"])
        neighbours.append(beside(host))
    cancel(run, host)

    assert host.is_draining
    with pytest.raises(HostDraining):
        host.load()
    assert pids == [neighbour.pid() for neighbour in neighbours]
    assert 3 == len(set(pids))
    assert all(gone(pid, 5) for pid in pids)
    assert host.load()["pid"] not in pids


def test_a_callers_fault_costs_no_neighbour_its_run(make_host: MakeHost, run: DoRun, beside: Beside) -> None:
    """What a callback raises leaves the run that does not stop; so do an interruption of its thread and a
    deadline.
    """
    host, _ = shared(make_host, spare_processes=3)
    neighbours, pids = [], []
    for fault in (LookupError, SystemExit, HostDeadline):

        def refuse(_: dict[str, Any], fault: type[BaseException] = fault) -> None:
            if fault is not HostDeadline:
                raise fault

        neighbours.append(beside(host))
        pids.append(host.pid)
        with pytest.raises(fault):
            run(
                host, "deaf", on_progress=refuse, grace_s=0.2, deadline_s=0.3 if fault is HostDeadline else 30
            )
        host.load()

    assert pids == [neighbour.pid() for neighbour in neighbours]


def test_a_process_is_of_use_again_when_the_run_that_was_left_ends(
    make_host: MakeHost, run: DoRun, beside: Beside
) -> None:
    """An engine that was slow to stop is not loaded again, and what the left run still says is dropped."""
    host, pid = shared(make_host)
    neighbour = beside(host)
    cancel(run, host, "linger", seconds=0.7)
    assert host.is_draining
    assert eventually(lambda: not host.is_draining)

    assert pid == host.load()["pid"] == run(host, "echo").metadata["pid"] == neighbour.pid()
    assert pid == host.load()["pid"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_process_that_was_killed_for_its_last_run_drains_no_longer(
    make_host: MakeHost, run: DoRun, gone: Gone, concurrency: int
) -> None:
    """Its engine is offered again at once: a lane whose only engine seemed to drain for ever stood still."""
    host = make_host(options={"concurrency": concurrency})
    first = int(host.load()["pid"])
    cancel(run, host)

    assert gone(first, 20)
    assert not host.is_draining
    assert host.load()["pid"] != first


def test_an_engine_that_loads_slowly_is_not_killed_at_once(
    make_host: MakeHost, run: DoRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killing it would make everybody wait for a load: it has as long as that took to look at the cancel."""
    monkeypatch.setattr(process, "SHORT_LOAD_S", 0.0)
    host = make_host(options={"load_s": 2.0})
    pid = host.load()["pid"]
    cancel(run, host, "linger", seconds=0.5)

    assert pid == host.load()["pid"]


def test_a_process_that_drains_too_long_is_ended_without_blame(
    make_host: MakeHost, run: DoRun, beside: Beside, gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no other process may stand beside it, its last runs have a limited time; losing them is on us."""
    monkeypatch.setattr(process, "DRAIN_S", 0.5)
    host, pid = shared(make_host)
    neighbour = beside(host)
    cancel(run, host)

    error = neighbour.run.exception(10)
    assert isinstance(error, HostLost)
    assert "service" == error.blame
    assert gone(pid, 5)


def test_a_loss_is_blamed_on_a_run_that_was_alone(make_host: MakeHost, run: DoRun, beside: Beside) -> None:
    """With others in the process it may have been any of them; a close is nobody's fault."""
    host, _ = shared(make_host)
    with pytest.raises(HostLost) as alone:
        run(host, "crash")
    host.load()
    neighbour = beside(host)
    with pytest.raises(HostLost) as crasher:
        run(host, "crash")
    bystander = neighbour.run.exception(10)
    host.load()
    closed = beside(host)
    host.close()
    end = closed.run.exception(10)

    assert isinstance(bystander, HostLost)
    assert isinstance(end, HostLost)
    assert ("run", "shared") == (alone.value.blame, crasher.value.blame)
    assert ("shared", "service") == (bystander.blame, end.blame)


def test_a_run_that_is_left_while_no_thread_can_be_started_ends_the_process(
    make_host: MakeHost, run: DoRun, beside: Beside, gone: Gone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody could wait for its neighbours, so they are lost on us; the next process takes runs."""
    host, pid = shared(make_host)
    neighbour = beside(host)
    refused = lacking(monkeypatch, "_drain_runs")
    cancel(run, host)

    error = neighbour.run.exception(10)
    assert 1 == len(refused)
    assert isinstance(error, HostLost)
    assert "service" == error.blame
    assert gone(pid, 5)
    assert pid != host.load()["pid"]
    assert b"echo" == run(host, "echo").content
