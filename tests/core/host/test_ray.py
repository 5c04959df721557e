"""How a Ray pool fails, and that the worker outlives it; what every host does is in `test_host.py`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.host.conftest import ENGINES, spec_of
from servers import ray_pool
from servers.ray_pool import RayPool, children
from servers.service import RunningService
from tenuto.config import RaySettings
from tenuto.host.child_host import ChildHost
from tenuto.host.host import HostLost, HostNotReady, HostResult
from tenuto_engine.network import ALLOWED, NO_REPORTS

DoRun = Callable[..., HostResult]
Gone = Callable[[int, float], bool]
InPool = Callable[..., ChildHost]

PARENT = """
import sys
from tenuto.config import RaySettings
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec

host = ChildHost(EngineSpec("demo:Demo", sys.executable, path=sys.argv[1], ray=RaySettings(sys.argv[2])))
say = lambda progress: print(host.pid, flush=True)
host.load()
host.run({"mode": "deaf"}, {}, on_segment=print, on_progress=say, deadline_s=600)
"""


@pytest.fixture
def in_pool(pool: RayPool, request: pytest.FixtureRequest) -> InPool:
    """Give a function that makes a host in the pool; every host is closed in the end."""

    def make(
        *, cpus: float = 1, gpus: float = 0, wait_s: int = 30, address: str = pool.address, **changes: object
    ) -> ChildHost:
        host = ChildHost(spec_of(ray=RaySettings(address, cpus, gpus, wait_s), **changes))
        request.addfinalizer(host.close)
        return host

    return make


def refused(host: ChildHost) -> str:
    """Load what cannot be loaded, and give why."""
    with pytest.raises(HostNotReady) as error:
        host.load()
    assert host.pid is None
    return error.value.message


def drivers() -> list[int]:
    """The drivers of this process."""
    return [
        pid for pid in children(os.getpid()) if b"tenuto_ray" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def test_a_full_pool_is_not_ready_in_time(in_pool: InPool, run: DoRun) -> None:
    """Ray would leave the actor pending for ever; here the wait has an end that says what was asked for."""
    message = refused(in_pool(cpus=64, wait_s=2))

    assert "no node of the Ray pool had 64 CPU and 0 GPU free within 2 s" in message
    host = in_pool()
    host.load()
    assert b"echo" == run(host, "echo").content


def test_a_pool_that_is_not_there_is_not_ready(in_pool: InPool) -> None:
    """An address where nobody answers is named in bounded time."""
    message = refused(in_pool(address="127.0.0.1:1", load_timeout_s=4.0))

    assert "the Ray pool at 127.0.0.1:1" in message


def test_a_lost_actor_is_a_lost_host(in_pool: InPool, run: DoRun, gone: Gone) -> None:
    """The node's process is killed under a run: HostLost with what Ray says, and no engine is left behind."""
    host = in_pool()
    engine = int(host.load()["pid"])
    with pytest.raises(HostLost) as lost:
        run(host, "deaf", on_progress=lambda _: os.kill(parent(engine), signal.SIGKILL))

    assert "the actor was lost" in lost.value.evidence
    assert gone(engine, 2)


def test_a_lost_driver_is_a_lost_host(in_pool: InPool, run: DoRun, gone: Gone) -> None:
    """Ray may end the driver's process: the worker lives on, the engine ends, the next load is a new one."""
    host = in_pool()
    engine, before = int(host.load()["pid"]), set(drivers())
    newest = max(before)
    with pytest.raises(HostLost) as lost:
        run(host, "deaf", on_progress=lambda _: os.kill(newest, signal.SIGKILL))

    assert -signal.SIGKILL == lost.value.exit_code
    assert gone(engine, 10)
    assert engine != host.load()["pid"]


def test_an_engine_in_a_pool_ends_with_its_worker(pool: RayPool, gone: Gone) -> None:
    """kill -9 of the worker ends the driver at once, and with it the actor and the engine."""
    command = [sys.executable, "-c", PARENT, str(Path(__file__).parent / "engines"), pool.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        engine = int(parent.stdout.readline())
        assert not gone(engine, 0)
        parent.send_signal(signal.SIGKILL)

        assert gone(engine, 10)


def test_engines_of_a_feature_travel_to_the_node(in_pool: InPool, tmp_path: Path) -> None:
    """A node needs Ray and an interpreter: the far end and the engines are brought along."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    host = in_pool(path="", folder=ENGINES, interpreter=str(tmp_path / "empty/bin/python"))

    assert "demo" == host.load()["model_id"]


def test_an_engine_in_a_pool_sees_no_secret(
    in_pool: InPool, run: DoRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the worker's secrets, the pool's, nor a network; what the specification gives it arrives."""
    for name in ("TENUTO_DATABASE_URL", "AWS_SECRET_ACCESS_KEY", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, "secret")
    host = in_pool(env={"ENGINE_KEY": "its own"})
    reach = host.load()["network"]
    environment = run(host, "surroundings").metadata["environment"]

    assert "its own" == environment["ENGINE_KEY"]
    assert ALLOWED != reach
    assert "secret" not in environment.values()
    theirs = environment.keys() - NO_REPORTS
    assert not [name for name in theirs if name.startswith(("RAY_", "TENUTO_"))]


def test_a_service_runs_a_model_in_a_pool(pool: RayPool, tmp_path: Path) -> None:
    """The model's table is all that it takes; a job whose actor is killed is run again and charged once."""
    settings = tmp_path / "tenuto.toml"
    settings.write_text(
        f'[models."fake/speech"]\nhost = "ray"\nray_address = "{pool.address}"\nprice = "0.05"\n', "utf-8"
    )
    service = RunningService(tmp_path / "data", variables={"TENUTO_CONFIG": str(settings)})
    service.start()
    try:
        service.key = service.make_key(credit="1")
        job_id = service.submit("[fake:slow_segments=0.2] " + "Enough to be killed in" * 10, stream=True)
        service.wait(job_id, states=("running",))
        os.kill(wait_for_actor(pool, "fake_speech:FakeSpeech"), signal.SIGKILL)
        job = service.wait(job_id, timeout_s=120)
    finally:
        service.stop()

    assert ("succeeded", 2, "0.050000") == (job["state"], job["attempt"], job["billing"]["charged"])


def wait_for_actor(pool: RayPool, engine: str) -> int:
    """The process of the actor above an engine's, once there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for pid in children(pool.head.pid):
            if engine.encode() in command(pid):
                return parent(pid)
        time.sleep(0.1)
    raise TimeoutError("no engine runs in the pool")


def parent(pid: int) -> int:
    """Who started a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def command(pid: int) -> bytes:
    """A process's command line, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_an_engine_on_another_node_is_lost_with_it(in_pool: InPool, pool: RayPool, run: DoRun) -> None:
    """A node with what is asked for is found; the engine is told its GPU; a lost node is a lost host."""
    with ray_pool.joined(pool, cpus=1, gpus=1) as node:
        host = in_pool(gpus=1, wait_s=60)
        engine = int(host.load()["pid"])
        environment = run(host, "surroundings").metadata["environment"]

        assert engine in children(node.pid)
        assert "0" == environment["CUDA_VISIBLE_DEVICES"]
        assert b"r" * 30_000_000 == run(host, "big", size_bytes=30_000_000).content
        with pytest.raises(HostLost):
            run(host, "deaf", on_progress=lambda _: ray_pool.kill_node(node))


def test_a_lost_head_costs_the_host_and_not_the_worker(run: DoRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends the driver when its head is away for too long (a minute by default, three seconds here)."""
    if not ray_pool.is_installed():
        pytest.skip(ray_pool.MISSING)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "3")
    with ray_pool.ray_pool(cpus=1) as own:
        host = ChildHost(spec_of(ray=RaySettings(own.address), load_timeout_s=8.0))
        host.load()
        with pytest.raises(HostLost):
            run(host, "deaf", on_progress=lambda _: own.kill_head(), deadline_s=60)

        assert not host.alive
        assert "the Ray pool" in refused(host)
        host.close()
