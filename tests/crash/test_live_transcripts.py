"""Transcripts that are sent while their job runs: they flow, outlive a lost attempt, and end whole (P6)."""

import json
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker, recordings
from servers.processes import await_stop, family, is_stopped, send, until
from servers.service import RunningService
from servers.shots import Shots

PATH = "/v1/audio/transcriptions"
REACHED_S = 60.0
OTHER_TEXT = """insert into live_text (attempt_id, sequence, job_id, text, created_at)
                select attempt_id, sequence + 1, job_id, ' nothing', created_at from live_text
                order by sequence desc limit 1"""
WAIT = 1105
"""The fake engine's directive to wait for half a second, in which it has written one word."""


class Transcribing:
    """A service whose worker a test stops, and requests to it."""

    def __init__(self, service: RunningService, shots: Shots) -> None:
        self.service, self.shots = service, shots
        self.service.start()
        self.service.key = service.make_key(credit="100")
        self.http = service.client()
        self.records = service.open_database()

    def open(self, content: bytes, **fields: str) -> httpx2.Response:
        request = self.http.build_request(
            "POST",
            PATH,
            data={"model": recordings.DUAL, "stream": "true", **fields},
            files={"file": ("a.flac", content)},
            headers={"Idempotency-Key": uuid.uuid4().hex},
            extensions={"timeout": {"read": REACHED_S}},
        )
        return self.http.send(request, stream=True)

    def job(self, answer: httpx2.Response) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/v1/jobs/{answer.headers['x-service-job']}").json()
        return found

    def words(self, answer: httpx2.Response) -> list[str]:
        """The words of the transcript with speakers, as the artifact has them."""
        job = self.service.wait(answer.headers["x-service-job"])
        content = self.http.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").json()
        segments = content["engines"]["segment_text"]["segments"]
        return [one["text"] for one in segments if one["text"]]

    def await_stop(self, answer: httpx2.Response) -> None:
        """Wait until the worker is stopped and others can write."""
        worker = family(self.service).worker
        assert worker is not None
        await_stop(worker, lambda: checker.touch(self.records, answer.headers["x-service-job"]))

    def wake(self) -> None:
        """Once the worker stands still: a signal that comes before its stop would wake nobody."""
        worker = family(self.service).worker
        assert worker is not None
        until(lambda: is_stopped(worker), REACHED_S, "the worker stands still")
        send(worker, signal.SIGCONT)


@pytest.fixture
def transcribing(make_service: MakeService, tmp_path: Path) -> Iterator[Transcribing]:
    shots = Shots(tmp_path / "shots")
    made = Transcribing(make_service(**shots.variables), shots)
    yield made
    made.http.close()
    made.records.close()


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    return (json.loads(line[6:]) for line in lines if line.startswith("data: "))


def test_text_flows_while_its_job_runs(transcribing: Transcribing) -> None:
    """The first word is there while the worker stands still; in the end the deltas are the whole text."""
    transcribing.shots.arm("live_text.after_commit", "1:stop")
    answer = transcribing.open(recordings.recording(4, directive=WAIT), response_format="diarized_json")
    stream = events(answer.iter_lines())
    first = next(stream)
    state = transcribing.job(answer)["state"]
    transcribing.wake()
    rest = list(stream)
    words = transcribing.words(answer)
    deltas = [one["delta"] for one in [first, *rest] if one["type"] == "transcript.text.delta"]

    assert ("running", {"type": "transcript.text.delta", "delta": words[0]}) == (state, first)
    assert " ".join(words) == "".join(deltas) == rest[-1]["text"]
    assert "transcript.text.done" == rest[-1]["type"]
    assert words == [one["text"] for one in rest if one["type"] == "transcript.text.segment"]


def test_a_stream_outlives_its_worker(transcribing: Transcribing) -> None:
    """The next attempt writes the same text: the stream goes on, and nothing comes twice (P6, P11)."""
    transcribing.shots.arm("live_text.after_commit", "1:kill")
    answer = transcribing.open(recordings.recording(4, directive=WAIT))
    found = list(events(answer.iter_lines()))
    words = transcribing.words(answer)

    assert "live_text.after_commit" in transcribing.shots.taken()
    assert " ".join(words) == "".join(one["delta"] for one in found[:-1]) == found[-1]["text"]
    assert 2 == transcribing.job(answer)["attempt"]


def test_other_text_than_was_sent_ends_a_stream_with_an_error(transcribing: Transcribing) -> None:
    """No `done` follows words that the result does not have, here because a row was damaged."""
    transcribing.shots.arm("live_text.after_commit", "1:stop")
    answer = transcribing.open(recordings.recording(4, directive=WAIT))
    stream = events(answer.iter_lines())
    first = next(stream)
    transcribing.await_stop(answer)
    transcribing.records.write(lambda tx: tx.run(OTHER_TEXT))
    damaged = next(one for one in stream if one["delta"] == " nothing")
    transcribing.wake()
    rest = list(stream)

    assert {"transcript.text.delta"} == {first["type"], damaged["type"]}
    assert "unavailable" == rest[-1]["error"]["code"]


def test_a_job_that_is_cancelled_has_no_end(transcribing: Transcribing) -> None:
    """What was sent is followed by an error, and no text is kept once the content is erased (P6)."""
    transcribing.shots.arm("live_text.after_commit", "1:stop")
    answer = transcribing.open(recordings.recording(4, directive=1199))
    stream = events(answer.iter_lines())
    next(stream)
    transcribing.await_stop(answer)
    job_id = answer.headers["x-service-job"]
    transcribing.http.post(f"/v1/jobs/{job_id}/cancel")
    transcribing.wake()
    rest = list(stream)

    assert "cancelled" == rest[-1]["error"]["code"]
    assert 200 == transcribing.http.delete(f"/v1/jobs/{job_id}/content").status_code
    assert [] == transcribing.records.read(lambda tx: tx.all("select * from live_text"))
