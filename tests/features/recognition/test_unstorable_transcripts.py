"""U+0000 in a transcript: PostgreSQL stores no such text."""

import json

from servers.rig import Rig
from servers.world import World
from tenuto.features.recognition import live_text
from tenuto.features.recognition.live import LiveText
from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.host import HostResult
from tenuto.host.registry import SEGMENT_TEXT, entry_of
from tenuto.job.rows import ChunkKey
from tenuto.worker.engine_calls import EngineCalls
from tenuto.worker.engines import Engines


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
