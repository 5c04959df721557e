"""What the hosts' tests share: a host of each sort on the demo engine, and a short way to do a run."""

import os
import select
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tenuto.hosts.child import ChildHost
from tenuto.hosts.host import Cancellation, EngineSpec, Host, HostResult

ENGINES = str(Path(__file__).parent / "engines")

MakeHost = Callable[..., Host]


@pytest.fixture(params=[pytest.param(ChildHost, id="child")])
def make_host(request: pytest.FixtureRequest) -> Iterator[MakeHost]:
    """Give a function that makes a host of the demo engine; every host is closed in the end."""
    hosts: list[Host] = []

    def make(**changes: Any) -> Host:
        fields = {"engine": "demo:Demo", "interpreter": sys.executable, "path": ENGINES, **changes}
        hosts.append(request.param(EngineSpec(**fields)))
        return hosts[-1]

    yield make
    for host in hosts:
        host.close()


@pytest.fixture
def host(make_host: MakeHost) -> Host:
    """Give a loaded host."""
    host = make_host()
    host.load()
    return host


@pytest.fixture
def run() -> Callable[..., HostResult]:
    """Give a function that does one run: `run(host, "mode", inputs, …)`."""

    def run(
        host: Host,
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
