"""What the hosts' tests share: a host of each sort on the demo engine, and a short way to do a run."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import ray_pool
from servers.ray_pool import RayPool
from tenuto.config import RaySettings
from tenuto.host.child_host import ChildHost
from tenuto.host.host import Cancellation, EngineSpec, HostNotReady, HostResult

ENGINES = str(Path(__file__).parent / "engines")

MakeHost = Callable[..., ChildHost]


@pytest.fixture(scope="session")
def pool() -> Iterator[RayPool]:
    """Give a Ray pool of one node with room for four engines."""
    if not ray_pool.is_installed():
        pytest.skip(ray_pool.MISSING)
    with ray_pool.ray_pool(cpus=4) as pool:
        yield pool


@pytest.fixture(scope="session")
def warm(pool: RayPool) -> Iterator[list[ChildHost]]:
    """Give the host in the pool that tests hand on to each other: a load there takes seconds."""
    warm: list[ChildHost] = []
    yield warm
    for host in warm:
        host.close()


@pytest.fixture
def make_in() -> Iterator[Callable[[RaySettings | None], MakeHost]]:
    """Give a function that makes hosts of the demo engine in a pool, or here; all are closed in the end."""
    hosts: list[ChildHost] = []

    def make_in(ray: RaySettings | None) -> MakeHost:
        def make(**changes: Any) -> ChildHost:
            hosts.append(ChildHost(spec_of(**{"ray": ray, **changes})))
            return hosts[-1]

        return make

    yield make_in
    for host in hosts:
        host.close()


@pytest.fixture(params=["child", "ray"])
def make_host(request: pytest.FixtureRequest, make_in: Callable[[RaySettings | None], MakeHost]) -> MakeHost:
    """Give a function that makes a host of either sort."""
    if request.param == "child":
        return make_in(None)
    return make_in(RaySettings(request.getfixturevalue("pool").address))


@pytest.fixture
def host(request: pytest.FixtureRequest, make_host: MakeHost) -> ChildHost:
    """Give a loaded host; in a pool the one of the test before, if it left one."""
    if request.node.callspec.params["make_host"] == "child":
        host = make_host()
        host.load()
        return host
    warm = request.getfixturevalue("warm")
    try:
        warm[-1].load()
    except (IndexError, HostNotReady):
        warm.append(ChildHost(spec_of(ray=RaySettings(request.getfixturevalue("pool").address))))
        warm[-1].load()
    found: ChildHost = warm[-1]
    return found


def spec_of(**changes: Any) -> EngineSpec:
    """The demo engine, as the test wants it."""
    return EngineSpec(**{"engine": "demo:Demo", "interpreter": sys.executable, "path": ENGINES, **changes})


@pytest.fixture
def run() -> Callable[..., HostResult]:
    """Give a function that does one run: `run(host, "mode", inputs, …)`."""

    def run(
        host: ChildHost,
        mode: str,
        inputs: dict[str, bytes] | None = None,
        *,
        on_segment: Callable[[bytes, dict[str, Any]], None] = lambda content, metadata: None,
        on_progress: Callable[[dict[str, Any]], None] = lambda progress: None,
        deadline_s: float = 30.0,
        cancelled: Cancellation | None = None,
        grace_s: float = 5.0,
        run_id: str = "",
        **parameters: Any,
    ) -> HostResult:
        return host.run(
            {"mode": mode, **parameters},
            inputs or {},
            on_segment=on_segment,
            on_progress=on_progress,
            deadline_s=deadline_s,
            cancelled=cancelled,
            grace_s=grace_s,
            run_id=run_id,
        )

    return run


@pytest.fixture
def gone() -> Callable[[int, float], bool]:
    """Give a function that waits until a process has ended, and says whether it has."""

    def gone(pid: int, timeout_s: float) -> bool:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        try:
            return bool(poll.poll(timeout_s * 1000))
        finally:
            os.close(descriptor)

    return gone
