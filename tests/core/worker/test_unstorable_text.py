"""U+0000 in what an engine prints, raises or writes: PostgreSQL stores no such text."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from servers.rig import Rig, run
from servers.world import SPEECH, World
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec
from tenuto.worker.engines import Engines

ENGINE = """
import os
from tenuto_engine import InputError

class Printing:
    def __init__(self, options):
        FAILS_TO_LOAD

    def run(self, run):
        print("before \\0 after", flush=True)
        FAILS
"""
FAULTS = {
    "it dies": ("pass", "os._exit(3)", "queued"),
    "an exception": ("pass", 'raise ValueError("x \\0 y")', "failed"),
    "an error for the caller": ("pass", 'raise InputError("nothing_to_speak", "x \\0 y")', "failed"),
    "it does not load": ('raise ValueError("x \\0 y")', "pass", "queued"),
}


@pytest.mark.parametrize("dialect", ["postgresql"])
@pytest.mark.parametrize("fault", FAULTS)
def test_an_attempt_ends_whatever_its_engine_has_printed(
    world: World, rig: Rig, tmp_path: Path, fault: str
) -> None:
    """Otherwise its job would stay running, be rescued and run again, uncounted, until its deadline."""
    loading, running, state = FAULTS[fault]
    code = ENGINE.replace("FAILS_TO_LOAD", loading).replace("FAILS", running)
    (tmp_path / "printing.py").write_text(code)

    def host(spec: EngineSpec) -> ChildHost:
        return ChildHost(replace(spec, engine="printing:Printing", path=str(tmp_path)))

    engines = Engines(rig.context, [SPEECH], rig.work_condition, host)
    claim = rig.running("worker_us")
    try:
        run(rig, engines, claim)
    finally:
        engines.close()

    assert state == world.state(claim.job_id)
    assert "\ufffd" in world.attempt(claim.attempt_id)["evidence"]
