"""A preview survives: what was saved before a worker died can be heard, and a new attempt begins anew."""

import io
import signal
import time
import wave
from typing import Any

import httpx2

from crash.conftest import MakeService
from servers import checker
from servers.processes import family, send
from servers.speed import HANG_S

TEXT = "[fake:slow_segments=0.3] " + "x" * 90


def test_segments_survive_a_kill_between_two_of_them(make_service: MakeService) -> None:
    """SIGKILL of the worker after some segments: they stay, the next attempt's replace them in the list, and
    joined they are the file; one charge (P1, P3, P11; R40, R41, R57, R58, R60)."""
    service = make_service()
    service.start()
    service.key = service.make_key(credit="1")
    job_id = service.submit(TEXT, stream=True)
    with service.client() as http:
        before = _until(http, job_id, lambda segments: len(segments) >= 2)
        killed = family(service)
        assert killed.worker is not None
        send(killed.worker, signal.SIGKILL)
        old = before[0]["attempt_id"]
        meanwhile = _until(http, job_id, lambda segments: segments[0]["attempt_id"] != old)
        operation = service.wait(job_id)
        after = _listed(http, job_id)
        kept = _listed(http, job_id, f"?attempt_id={old}")
        heard = [_content(http, job_id, segment) for segment in (*kept, *after)]
        whole = http.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content").content

    assert ("succeeded", 2) == (operation["state"], operation["attempt"])
    assert before == kept[: len(before)]
    assert len(kept) < 5
    assert {operation["attempt"] - 1} == {len({segment["attempt_id"] for segment in meanwhile})}
    assert [0, 1, 2, 3, 4] == [segment["sequence"] for segment in after]
    assert {old}.isdisjoint(segment["attempt_id"] for segment in after)
    assert _samples(whole) == b"".join(_samples(content) for content in heard[len(kept) :])
    assert [_samples(content) for content in heard[: len(kept)]] == [
        _samples(content) for content in heard[len(kept) : 2 * len(kept)]
    ]
    checker.check_audit(service)


def _until(http: httpx2.Client, job_id: str, holds: Any) -> list[dict[str, Any]]:
    end = time.monotonic() + HANG_S
    while not ((segments := _listed(http, job_id)) and holds(segments)):
        assert time.monotonic() < end, segments
        time.sleep(0.02)
    return segments


def _listed(http: httpx2.Client, job_id: str, query: str = "") -> list[dict[str, Any]]:
    segments: list[dict[str, Any]] = http.get(f"/v1/jobs/{job_id}/audio-segments{query}").json()["data"]
    return segments


def _content(http: httpx2.Client, job_id: str, segment: dict[str, Any]) -> bytes:
    answer = http.get(f"/v1/jobs/{job_id}/audio-segments/{segment['segment_id']}/content")
    assert answer.status_code == 200, answer.text
    return answer.content


def _samples(content: bytes) -> bytes:
    with wave.open(io.BytesIO(content)) as file:
        read: bytes = file.readframes(file.getnframes())
        return read
