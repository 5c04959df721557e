"""Models composed of others: one host of each engine, however many models and jobs use it."""

import sys
from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace

from servers.rig import Rig
from servers.world import World
from tenuto.config import ModelSettings
from tenuto.host.host import HostNotReady
from tenuto.kind.model import MAX_START_FAILURES
from tenuto.worker.engines import Engines

DUAL, FIRST, SECOND = "fake/dual-recognition", "fake/segment-text", "fake/word-timestamps"


@pytest.fixture
def dialect() -> str:
    """One database: which one it is makes no difference to engines."""
    return "sqlite"


def test_a_composed_model_uses_the_hosts_of_its_engines(world: World, rig: Rig) -> None:
    """Three models, two processes; loading the dual model loads both (R136)."""
    engines = Engines(rig.context, [DUAL, FIRST, SECOND], rig.work_condition)
    try:
        engines.ready(DUAL)
        pids = [engines.host(name).pid for name in (FIRST, SECOND)]

        assert engines.host(DUAL) is engines.host(FIRST)
        assert None not in pids
        assert pids == [engines.ready(name).pid for name in (FIRST, SECOND)]
        assert len({*pids}) == len(pids)
    finally:
        engines.close()


def test_a_composed_model_alone_brings_its_engines(world: World, rig: Rig) -> None:
    """A worker that is told to run the dual model alone offers no other."""
    engines = Engines(rig.context, [DUAL], rig.work_condition)
    try:
        assert frozenset({DUAL}) == engines.offered()
        assert engines.ready(SECOND).pid is not None
    finally:
        engines.close()


def test_a_composed_model_is_offered_again_with_its_engines(
    world: World, rig: Rig, interpreter: Callable[[str], ModelSettings]
) -> None:
    """Upkeep tries what failed, and finds both engines loaded by models of their own."""
    settings = replace(rig.context.settings, models={FIRST: interpreter("exit 1")})
    context = replace(rig.context, settings=settings)
    with closing(Engines(context, [DUAL, FIRST, SECOND], rig.work_condition)) as engines:
        for name in (FIRST, DUAL) * MAX_START_FAILURES:
            with pytest.raises(HostNotReady):
                engines.ready(name)
        engines.ready(SECOND)
        interpreter(f'exec {sys.executable} "$@"')
        for name in engines.broken():
            engines.ready(name)

        assert [] == engines.broken()
        assert frozenset({DUAL, FIRST, SECOND}) == engines.offered()
