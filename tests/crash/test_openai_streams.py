"""Sound that is sent while its job is made: it flows, outlives a lost attempt, or is cut (P6)."""

import base64
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker
from servers.processes import await_stop, family, is_stopped, send, until
from servers.service import RunningService
from servers.shots import Shots
from tenuto.features.openai.streams import StreamBroken, _after
from tenuto.job.attempts_sql import Segment

REACHED_S = 60.0
LONG = "One segment follows another here, until all of the text has been spoken to its end. " * 3
"""Of a dozen segments."""


class Streaming:
    """A service whose worker a test stops, and requests to it."""

    def __init__(self, service: RunningService, shots: Shots) -> None:
        self.service, self.shots = service, shots
        self.service.start()
        self.service.key = service.make_key(credit="10")
        self.http = service.client()
        self.records = service.open_database()

    def open(self, **fields: Any) -> httpx2.Response:
        body = {"model": "fake/speech", "voice": "alloy", "input": LONG, **fields}
        request = self.http.build_request(
            "POST", "/v1/audio/speech", json=body, extensions={"timeout": {"read": REACHED_S}}
        )
        return self.http.send(request, stream=True)

    def state(self, answer: httpx2.Response) -> str:
        assert answer.status_code == 200, self.service.log_path.read_text()[-2000:]
        return str(self.http.get(f"/v1/jobs/{answer.headers['x-service-job']}").json()["state"])

    def await_stop(self, answer: httpx2.Response) -> None:
        """Wait until the worker is stopped and others can write."""
        worker = family(self.service).worker
        assert worker is not None
        await_stop(worker, lambda: checker.touch(self.records, answer.headers["x-service-job"]))

    def whole(self, answer: httpx2.Response, form: str) -> bytes:
        """The same sound, made of the artifact at once."""
        job = self.service.wait(answer.headers["x-service-job"])
        path = f"/v1/artifacts/{job['artifacts'][0]['id']}/rendition?form={form}"
        return self.http.get(path).content


@pytest.fixture
def streaming(make_service: MakeService, tmp_path: Path) -> Iterator[Streaming]:
    shots = Shots(tmp_path / "shots")
    made = Streaming(make_service(**shots.variables), shots)
    yield made
    made.http.close()
    made.records.close()


@pytest.mark.parametrize(
    ("form", "fields"),
    [("pcm", {}), ("mp3", {"stream": True}), ("mp3", {"stream_format": "audio"})],
)
def test_sound_flows_while_its_job_is_made(streaming: Streaming, form: str, fields: dict[str, Any]) -> None:
    """The first bytes are there while the worker stands still; the rest follows; it is all of it."""
    streaming.shots.arm("segment.after_commit", "4:stop")
    answer = streaming.open(response_format=form, **fields)
    pieces = answer.iter_raw()
    first = next(pieces)
    state = streaming.state(answer)
    _wake(streaming)
    rest = b"".join(pieces)

    assert (200, "running") == (answer.status_code, state)
    assert "content-length" not in answer.headers
    assert streaming.whole(answer, form) == first + rest


def test_events_carry_sound_while_its_job_is_made(streaming: Streaming) -> None:
    """The same in server-sent events, whose end says that it was all."""
    streaming.shots.arm("segment.after_commit", "4:stop")
    answer = streaming.open(response_format="pcm", stream_format="sse")
    lines = (line for line in answer.iter_lines() if line.startswith("data: "))
    first = json.loads(next(lines)[6:])
    state = streaming.state(answer)
    _wake(streaming)
    events = [first, *(json.loads(line[6:]) for line in lines)]

    assert "running" == state
    assert "speech.audio.done" == events[-1]["type"]
    assert streaming.whole(answer, "pcm") == b"".join(
        base64.b64decode(event["audio"]) for event in events[:-1]
    )


def test_a_stream_outlives_its_worker(streaming: Streaming) -> None:
    """The next attempt saves the same segments: the stream goes on, and nothing comes twice (P6, P11)."""
    streaming.shots.arm("segment.after_commit", "4:kill")
    answer = streaming.open(response_format="pcm")
    heard = b"".join(answer.iter_raw())

    assert "segment.after_commit" in streaming.shots.taken()
    assert streaming.whole(answer, "pcm") == heard
    assert 2 == streaming.service.wait(answer.headers["x-service-job"])["attempt"]


def test_a_stream_without_an_end_is_cut(streaming: Streaming) -> None:
    """The job is cancelled in the middle: no client takes what it has for the whole (P6)."""
    streaming.shots.arm("segment.after_commit", "1:stop")
    answer = streaming.open(response_format="pcm", input=f"[fake:slow_segments=3] {LONG}")
    pieces = answer.iter_raw()
    next(pieces)
    streaming.await_stop(answer)
    streaming.http.post(f"/v1/jobs/{answer.headers['x-service-job']}/cancel")
    _wake(streaming)

    with pytest.raises(httpx2.TransportError):
        b"".join(pieces)
    assert "cancelled" == streaming.state(answer)
    log = streaming.service.log_path.read_text()
    assert "openai.stream_cut" in log
    assert "ASGI callable" not in log


def test_a_key_is_bound_to_the_work_and_not_to_streaming(streaming: Streaming) -> None:
    """Streamed, then whole: the same job, for the same key."""
    headers = {"Idempotency-Key": "one"}
    body = {"model": "fake/speech", "voice": "alloy", "input": "Hold the note."}
    answers = [
        streaming.http.post("/v1/audio/speech", json=body | more, headers=headers)
        for more in ({"response_format": "pcm"}, {"response_format": "wav"}, {"stream": True})
    ]

    assert [200] * 3 == [answer.status_code for answer in answers]
    assert 1 == len({answer.headers["x-service-job"] for answer in answers})


def test_other_segments_than_were_sent_break_a_stream() -> None:
    """A later attempt must save the same ones; it may have saved fewer so far."""
    segments = [
        Segment(f"segment_{n}", "attempt_2", n, "audio/wav", 1, sha, 1) for n, sha in enumerate("abc")
    ]

    assert segments[2:] == _after(["a", "b"], segments)
    assert [] == _after(["a", "b", "c", "d"], segments)
    with pytest.raises(StreamBroken):
        _after(["a", "x"], segments)


def _wake(streaming: Streaming) -> None:
    """Once it stands still: a signal that comes before its stop would wake nobody."""
    worker = family(streaming.service).worker
    assert worker is not None
    until(lambda: is_stopped(worker), REACHED_S, "the worker stands still")
    send(worker, signal.SIGCONT)
