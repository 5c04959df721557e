"""U+0000 in what an engine prints, raises or writes: PostgreSQL stores no such text."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from servers.rig import Rig, run
from servers.world import SPEECH, World
from tenuto.features.recognition import live_text
from tenuto.features.recognition.live import LiveText
from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.child_host import ChildHost
from tenuto.host.host import EngineSpec, HostResult
from tenuto.host.registry import SEGMENT_TEXT, entry_of
from tenuto.job.rows import ChunkKey
from tenuto.worker.engine_calls import EngineCalls
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


def test_a_transcripts_text_can_be_stored(world: World, rig: Rig) -> None:
    """What is reported while the job runs, and the transcript at the end."""
    claim, first = rig.running("worker_us"), entry_of("fake/segment-text")
    watched = rig.heartbeat.watch(claim.attempt_id, cancellable=True)
    calls = EngineCalls(
        rig.context, Engines(rig.context, [], rig.work_condition), claim, watched, lambda: None
    )
    key = ChunkKey(SEGMENT_TEXT, 0, 0, 160_000, first.model, first.revision)
    reports = LiveText(calls, (first,), [(0.0, 10.0)]).reports(key, lambda _: None)
    assert reports.on_segment is not None
    reports.on_segment(b"be\0fore", {"start": 0.0, "end": 1.0})
    segment = {"start": 0, "end": 1, "text": "be\0fore", "type": "speech"}
    content = json.dumps({"segments": [segment]}).encode()
    transcript = checked(HostResult("application/json", content, {}, None), SEGMENT_TEXT, 10.0)

    assert ["be\ufffdfore"] == world.read(lambda tx: live_text.of_job(tx, claim.job_id)).pieces
    assert ["be\ufffdfore"] == [one["text"] for one in transcript["segments"]]
