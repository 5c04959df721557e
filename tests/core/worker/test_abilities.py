"""What a worker says that it can run, and what it makes of the memory that its engines may take."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from servers import ray_pool
from servers.rig import Rig, eventually
from servers.world import METERED, World
from tenuto.config import ModelSettings, RaySettings, Settings
from tenuto.host.child_host import ChildHost
from tenuto.host.host import HostNotReady
from tenuto.kind import operations as catalog
from tenuto.kind.model import MAX_START_FAILURES, models
from tenuto.worker.abilities import abilities_of
from tenuto.worker.engines import Engines
from tenuto.worker.supervisor import Worker

SPEECH, IMAGE, FIRST = "fake/speech", "fake/image", "fake/segment-text"


@pytest.fixture
def dialect() -> str:
    """One database: which one it is makes no difference to engines."""
    return "sqlite"


@contextmanager
def engines(rig: Rig, names: list[str], *, limit_mib: int = 0, expected_mib: int = 0) -> Iterator[Engines]:
    """Engines of a worker that may take so much, each of which is expected to take so much."""
    made = {
        name: replace(model, entry=replace(model.entry, memory_mib=expected_mib))
        for name, model in rig.context.models.items()
    }
    settings = replace(rig.context.settings, engine_memory_mib=limit_mib)
    engines = Engines(replace(rig.context, models=made, settings=settings), names, rig.work_condition)
    try:
        yield engines
    finally:
        engines.close()


def reasons(settings: Settings) -> dict[str, str | None]:
    """What a worker with these settings says of each model."""
    offered = {name: model for name, model in models(settings).items() if model.interface == "jobs"}
    return {ability.model: ability.reason for ability in abilities_of(settings, offered, list(offered))}


def test_a_worker_leaves_what_it_cannot_run_to_others(world: World, rig: Rig) -> None:
    """Without its interpreter it takes no job of a model, though that job is the first in line (P9)."""
    settings = replace(rig.context.settings, models={METERED: ModelSettings(interpreter="/no/such/python")})
    context = replace(rig.context, settings=settings, worker_id="worker_bare")
    caller = world.caller()
    waits = world.submit(caller, "first", model=METERED).job_id
    runs = world.submit(caller, "second", model=SPEECH).job_id
    worker = Worker(context, abilities_of(settings, context.models, [METERED, SPEECH]))
    worker.start()
    try:
        ended = eventually(lambda: world.state(runs) == "succeeded", 60)
    finally:
        worker.stop()

    assert ended
    assert ("queued", 0) == (world.state(waits), world.job(waits)["attempts"])


@pytest.mark.skipif(ray_pool.is_installed(), reason="Ray is installed here")
def test_a_model_in_a_pool_needs_the_extra(tmp_path: Path) -> None:
    """The worker says before any job fails that Ray is missing, and looks for no interpreter here."""
    own = ModelSettings(interpreter="/on/the/node/python", ray=RaySettings("10.0.0.1:6379"))
    settings = Settings(folder=tmp_path, engines="fake", models={SPEECH: own})

    assert 'host = "ray" needs Ray beside Tenuto: pip install tenuto-ray' == reasons(settings)[SPEECH]


def test_an_idle_engine_makes_room_for_one_that_is_needed(world: World, rig: Rig) -> None:
    """Two fit; the one that was not needed for longest goes when a third is loaded."""
    with engines(rig, [SPEECH, IMAGE, FIRST], limit_mib=250, expected_mib=100) as all_three:
        for name in (SPEECH, IMAGE):
            all_three.begin(name)
            all_three.ready(name)
            all_three.end(name)
        pid = all_three.host(IMAGE).pid
        all_three.begin(FIRST)
        all_three.ready(FIRST)

        assert (None, pid) == (all_three.host(SPEECH).pid, all_three.host(IMAGE).pid)
        assert all_three.host(FIRST).alive
        assert frozenset({SPEECH, IMAGE, FIRST}) == all_three.offered()


def test_what_runs_is_not_unloaded_and_the_rest_is_not_claimed(world: World, rig: Rig) -> None:
    """A busy engine keeps its memory: models that do not fit beside it wait, unclaimed, until it is done."""
    with engines(rig, [SPEECH, IMAGE], limit_mib=150, expected_mib=100) as both:
        both.begin(SPEECH)
        both.ready(SPEECH)

        assert frozenset({SPEECH}) == both.offered()
        with pytest.raises(HostNotReady):
            both.ready(IMAGE)
        assert both.host(SPEECH).alive
        announced = rig.work_condition.count("speech")
        both.end(SPEECH)
        assert announced < rig.work_condition.count("speech")
        assert frozenset({SPEECH, IMAGE}) == both.offered()


def test_an_engine_that_is_loaded_early_takes_its_memory_at_once(
    world: World, rig: Rig, interpreter: Callable[[str], ModelSettings]
) -> None:
    """While a warm model loads, or upkeep tries one again, no other is loaded that does not fit beside it."""
    settings = replace(rig.context.settings, models={SPEECH: interpreter("exec sleep 600")})
    rig.context = replace(rig.context, settings=settings)
    with engines(rig, [SPEECH, IMAGE], limit_mib=150, expected_mib=100) as both:

        def warm() -> None:
            with suppress(HostNotReady):
                both.warm(SPEECH)

        threading.Thread(target=warm, daemon=True).start()
        assert eventually(lambda: both.host(SPEECH).pid is not None)

        assert frozenset({SPEECH}) == both.offered()
        with pytest.raises(HostNotReady, match="no room"):
            both.ready(IMAGE)
        assert both.host(IMAGE).pid is None


def test_a_busy_engine_that_takes_less_again_is_offered_again(
    world: World, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was over the limit during one long job only: the catalog accepts jobs for it as the worker does. If
    it still is when it is idle, it leaves.
    """

    def offered(both: Engines, resident_mib: int) -> tuple[bool, int, str | None]:
        monkeypatch.setattr(ChildHost, "resident_bytes", lambda _: resident_mib << 20)
        both.measure()
        rows = rig.database.read(lambda tx: catalog.worker_models(tx, "worker_us"))
        [told] = [(row.start_failures, row.reason) for row in rows if row.model == SPEECH]
        return SPEECH in both.offered(), *told

    with engines(rig, [SPEECH, IMAGE], limit_mib=150) as both:
        both.begin(SPEECH)
        both.ready(SPEECH)
        seen = [offered(both, mib) for mib in (100, 200, 100, 200)]
        both.end(SPEECH)
        left = both.measure(), both.host(SPEECH).pid, both.offered()

    fits, too_large = (
        (True, 0, None),
        (False, MAX_START_FAILURES, "it took 200 MiB, and engine_memory_mib is 150"),
    )
    assert [fits, too_large, fits, too_large] == seen
    assert ({}, None, frozenset({IMAGE})) == left


def test_what_an_engine_takes_is_measured_with_what_it_started(world: World, rig: Rig) -> None:
    """Resident memory of the process and its children, told to the operator by upkeep."""
    with engines(rig, [SPEECH]) as one:
        upkeep = rig.upkeep(engines=one)
        one.ready(SPEECH)
        upkeep.do_due(time.monotonic())

    [worker] = [row for row in rig.database.read(catalog.workers) if row.id == "worker_us"]
    [(engine, mib)] = json.loads(worker.engines).items()
    assert SPEECH == engine
    assert 5 < mib < 200


def test_tenuto_worker_says_in_json_what_it_runs(tmp_path: Path) -> None:
    """The first line on stdout is for scripts; the operator reads the same in the worker's row."""
    (tmp_path / "tenuto.toml").write_text('[models."fake/image"]\ninterpreter = "/no/such/python"\n')
    command = [str(Path(sys.executable).with_name("tenuto")), "worker", "--json"]
    options = ["--data", str(tmp_path / "data"), "--config", str(tmp_path / "tenuto.toml")]
    variables = {"PATH": "/usr/bin", "TENUTO_ENGINES": "fake", "TENUTO_ENGINE_MEMORY_MIB": "900"}
    variables |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    with subprocess.Popen([*command, *options], env=variables, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        said: dict[str, Any] = json.loads(worker.stdout.readline())
        worker.terminate()

    by_name = {model["model"]: model for model in said["models"]}
    assert 900 == said["engine_memory_mib"]
    speech = {"model": SPEECH, "lane": "speech", "slots": 1, "host": "child", "memory_mib": 0, "reason": None}
    assert speech == by_name[SPEECH]
    assert "not on this machine: /no/such/python" == by_name[IMAGE]["reason"]
