"""The streaming preview: segments that can be played while their job runs, and afterwards."""

import hashlib
import io
import time
import uuid
import wave
from typing import Any

import httpx2
import pytest

from servers.callers import METERED, Caller, Operator, faults
from servers.service import FINAL
from servers.speed import HANG_S

pytestmark = pytest.mark.variant("database", only="postgresql")

FIELDS = {
    "object",
    "segment_id",
    "attempt_id",
    "sequence",
    "media_type",
    "size_bytes",
    "sha256",
    "duration_ms",
}
SLOW = "[fake:slow_segments=0.25] " + "x" * 90
"""Five segments, each a quarter of a second after the one before."""
MIB = 1 << 20


def listed(caller: Caller, job_id: str, query: str = "") -> list[dict[str, Any]]:
    answer = caller.get(f"/v1/jobs/{job_id}/audio-segments{query}")
    assert answer.status_code == 200, answer.text
    segments: list[dict[str, Any]] = answer.json()["data"]
    return segments


def content(caller: Caller, job_id: str, segment: dict[str, Any]) -> httpx2.Response:
    return caller.get(f"/v1/jobs/{job_id}/audio-segments/{segment['segment_id']}/content")


def samples(wav: bytes) -> bytes:
    """The samples of a file that the standard library can decode by itself."""
    with wave.open(io.BytesIO(wav)) as file:
        assert (1, 2, 24_000) == (file.getnchannels(), file.getsampwidth(), file.getframerate())
        read: bytes = file.readframes(file.getnframes())
        return read


def until_listed(caller: Caller, job_id: str, count: int) -> list[dict[str, Any]]:
    """The list once it has this many; the contract has no signal but polling."""
    end = time.monotonic() + HANG_S
    while len(found := listed(caller, job_id)) < count:
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def test_segments_appear_while_the_job_runs(caller: Caller) -> None:
    """The first can be heard before the rest is made; the list only grows, and the job is not done by it
    (R39, R52, R53, R54, R55, R56, R57)."""
    job_id = caller.submit(SLOW, stream=True)
    first = until_listed(caller, job_id, 1)
    heard = content(caller, job_id, first[0])
    state = caller.read(job_id)["state"]
    more = until_listed(caller, job_id, 3)
    caller.wait(job_id)
    all_of_them = listed(caller, job_id)

    assert ("running", 200) == (state, heard.status_code)
    assert FIELDS == set(first[0])
    assert first == more[: len(first)] and more == all_of_them[: len(more)]
    assert [0, 1, 2, 3, 4] == [segment["sequence"] for segment in all_of_them]
    assert 5 == len({segment["segment_id"] for segment in all_of_them})
    assert 1 == len({segment["attempt_id"] for segment in all_of_them})


def test_a_segment_is_the_file_that_the_list_describes(caller: Caller) -> None:
    """Size, hash, type and duration are the content's; ranges and ETag work as for artifacts. Whoever lists
    once the job is final misses nothing; joined without any gap they are the result (R54, R59, R60, R65,
    R67)."""
    job_id = caller.submit("y" * 70, stream=True, interval_silence=333)
    artifact = caller.wait(job_id)["artifacts"][0]
    segments = listed(caller, job_id)
    whole = caller.get(f"/v1/artifacts/{artifact['id']}/content").content
    pieces = [samples(content(caller, job_id, segment).content) for segment in segments]

    assert 4 == len(segments)
    assert samples(whole) == b"".join(pieces)
    for segment in segments:
        answer = content(caller, job_id, segment)
        path = f"/v1/jobs/{job_id}/audio-segments/{segment['segment_id']}/content"
        assert ("audio/wav", "audio/wav") == (segment["media_type"], answer.headers["content-type"])
        assert segment["size_bytes"] == len(answer.content) == int(answer.headers["content-length"])
        assert segment["sha256"] == hashlib.sha256(answer.content).hexdigest()
        assert segment["duration_ms"] == round(len(samples(answer.content)) / 48)
        assert answer.content[5:9] == caller.get(path, {"Range": "bytes=5-8"}).content
        assert 304 == caller.get(path, {"If-None-Match": f'"{segment["sha256"]}"'}).status_code


def test_without_stream_the_list_is_empty(caller: Caller) -> None:
    """stream is false by default; its list is valid and holds nothing, while running and after (R66)."""
    job_id = caller.submit("[fake:slow_segments=0.05] " + "x" * 50)
    while_running = caller.get(f"/v1/jobs/{job_id}/audio-segments")
    caller.wait(job_id)

    assert (200, {"object": "list", "data": []}) == (while_running.status_code, while_running.json())
    assert [] == listed(caller, job_id)


def test_saved_segments_stay_readable_when_the_job_fails(caller: Caller) -> None:
    """A job that breaks off leaves what it had shown; it has failed all the same (R34, R39, R41, R64)."""
    job_id = caller.submit("[fake:segments=3] [fake:garbage] x", stream=True)
    operation = caller.wait(job_id)
    kept = listed(caller, job_id)

    assert ("failed", []) == (operation["state"], operation["artifacts"])
    assert 4 == len(kept)
    assert {200} == {content(caller, job_id, segment).status_code for segment in kept}


def test_segments_are_never_billed(paid: Operator) -> None:
    """A preview costs nothing: not when its job fails, and no more than the price when it succeeds (R40)."""
    caller = paid.caller(credit="1")
    failed = caller.submit("[fake:segments=3] [fake:garbage] x", stream=True)
    caller.wait(failed)
    after_failure = paid.money(caller)
    done = caller.submit("x" * 50, stream=True)
    caller.wait(done)
    for segment in listed(caller, done):
        content(caller, done, segment)

    assert (1_000_000, 0) == after_failure
    assert (950_000, 0) == paid.money(caller)


def test_a_job_that_waits_for_recovery_keeps_its_segments(paid: Operator) -> None:
    """recovery_required, after the metered host died: its segments can be played (R35, R41)."""
    caller = paid.caller(credit="1")
    job_id = caller.submit(
        "[fake:segments=2] [fake:slow_segments=0.2] [fake:crash_late] " + "x" * 60, model=METERED, stream=True
    )
    operation = caller.wait(job_id)

    assert "recovery_required" == operation["state"]
    assert 2 <= len(listed(caller, job_id))
    paid.service.command("admin", "recover", "void", job_id)
    assert "failed" == caller.read(job_id)["state"]
    assert 2 <= len(listed(caller, job_id))


def test_a_new_attempt_has_segments_and_an_id_of_its_own(caller: Caller) -> None:
    """After a lost host the list is the new attempt's; the old ones stay readable by id and by attempt
    (R41, R57, R58)."""
    job_id = caller.submit("[fake:segments=2] [fake:crash_late] x", stream=True)
    operation = caller.wait(job_id)
    newest = listed(caller, job_id)
    attempts = {event["attempt_id"] for event in caller.get(f"/v1/jobs/{job_id}/events").json()["data"]}
    by_attempt = {
        attempt: listed(caller, job_id, f"?attempt_id={attempt}") for attempt in attempts if attempt
    }

    assert ("failed", "engine_crashed", 3) == (
        operation["state"],
        operation["error"]["code"],
        operation["attempt"],
    )
    assert 3 == len(by_attempt)
    assert newest == by_attempt[newest[0]["attempt_id"]] == by_attempt[max(by_attempt)]
    assert {0, 1} <= {segment["sequence"] for segment in newest}
    every = [segment for segments in by_attempt.values() for segment in segments]
    assert len(every) == len({segment["segment_id"] for segment in every})
    assert {200} == {content(caller, job_id, segment).status_code for segment in every}


def test_more_than_the_limits_ends_the_preview_and_not_the_job(caller: Caller) -> None:
    """1,024 segments, 16 MiB a segment and 320 MiB an attempt are kept: a larger segment becomes several, and
    the result is whole; features/speech has the others (R61, R62, R63)."""
    job_id = caller.submit(f"[fake:segments=1] [fake:segment_kib={16 * 1024 + 1}] x", stream=True)
    operation = caller.wait(job_id)
    segments = listed(caller, job_id)

    assert "succeeded" == operation["state"], operation
    assert 3 == len(segments)
    assert all(segment["size_bytes"] <= 16 * MIB for segment in segments)


def test_an_attempt_that_is_not_the_jobs_is_named_as_the_fault(caller: Caller) -> None:
    """400 for attempt ids that are unknown, malformed or foreign, and for names that do not exist (R207)."""
    job_id = caller.submit("x", stream=True)
    for attempt in ("x", "attempt_00000000000000000000000000", "%00", ""):
        answer = caller.get(f"/v1/jobs/{job_id}/audio-segments?attempt_id={attempt}")
        assert ["attempt_id"] == [param for param, _ in faults(answer)]
    unknown = caller.get(f"/v1/jobs/{job_id}/audio-segments?after={uuid.uuid4()}")
    assert [("after", "unknown_name")] == faults(unknown)
    caller.wait(job_id, FINAL)


def test_saved_segments_stay_readable_when_the_job_is_cancelled(caller: Caller) -> None:
    """A cancelled job keeps its segments so far (R41, R64)."""
    job_id = caller.submit(SLOW, stream=True)
    until_listed(caller, job_id, 2)
    caller.cancel(job_id)
    operation = caller.wait(job_id)
    kept = listed(caller, job_id)

    assert "cancelled" == operation["state"]
    assert 2 <= len(kept) < 5
    assert samples(content(caller, job_id, kept[1]).content)
