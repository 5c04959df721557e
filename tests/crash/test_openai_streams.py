"""Sound and text that are sent while their job runs: they flow, outlive a lost attempt, or are cut (P6)."""

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
from tenuto.features.openai.streams import StreamBroken, _after
from tenuto.job.attempts_sql import Segment

REACHED_S = 60.0
LONG = "One segment follows another here, until all of the text has been spoken to its end. " * 3
"""Of a dozen segments."""
WAIT = 1105
"""The fake engine's directive to wait for half a second, in which it has written one word."""
LONG_WAIT = 1140
"""The same for four seconds."""
OTHER_TEXT = """insert into live_text (attempt_id, sequence, job_id, text, created_at)
                select attempt_id, sequence + 1, job_id, ' nothing', created_at from live_text
                order by sequence desc limit 1"""


class Streaming:
    """A service whose worker a test stops, and requests to it."""

    def __init__(self, service: RunningService, shots: Shots) -> None:
        self.service, self.shots = service, shots
        self.service.start()
        self.service.key = service.make_key(credit="100")
        self.http = service.client()
        self.records = service.open_database()

    def speak(self, **fields: Any) -> httpx2.Response:
        body = {"model": "fake/speech", "voice": "alloy", "input": LONG, "response_format": "pcm", **fields}
        return self._open("/v1/audio/speech", json=body)

    def transcribe(self, content: bytes) -> httpx2.Response:
        form = {"model": recordings.DUAL, "stream": "true"}
        return self._open("/v1/audio/transcriptions", data=form, files={"file": ("a.flac", content)})

    def _open(self, path: str, **parts: Any) -> httpx2.Response:
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        request = self.http.build_request(
            "POST", path, headers=headers, extensions={"timeout": {"read": REACHED_S}}, **parts
        )
        answer = self.http.send(request, stream=True)
        assert answer.status_code == 200, self.service.log_path.read_text()[-2000:]
        return answer

    def job(self, answer: httpx2.Response) -> dict[str, Any]:
        found: dict[str, Any] = self.http.get(f"/v1/jobs/{answer.headers['x-service-job']}").json()
        return found

    def whole(self, answer: httpx2.Response) -> bytes:
        """The same sound, made of the artifact at once."""
        job = self.service.wait(answer.headers["x-service-job"])
        return self.http.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/rendition?form=pcm").content

    def words(self, answer: httpx2.Response) -> str:
        """The words of the transcript, as the artifact has them."""
        job = self.service.wait(answer.headers["x-service-job"])
        content = self.http.get(f"/v1/artifacts/{job['artifacts'][0]['id']}/content").json()
        return " ".join(recordings.texts(content))

    def cancel(self, answer: httpx2.Response) -> None:
        self.http.post(f"/v1/jobs/{answer.headers['x-service-job']}/cancel")

    def await_stop(self, answer: httpx2.Response) -> None:
        """Wait until the worker is stopped and others can write."""
        await_stop(self._worker(), lambda: checker.touch(self.records, answer.headers["x-service-job"]))

    def wake(self) -> None:
        """Once the worker stands still: a signal that comes before its stop would wake nobody."""
        worker = self._worker()
        until(lambda: is_stopped(worker), REACHED_S, "the worker stands still")
        send(worker, signal.SIGCONT)

    def _worker(self) -> int:
        worker = family(self.service).worker
        assert worker is not None
        return worker


@pytest.fixture
def streaming(make_service: MakeService, tmp_path: Path) -> Iterator[Streaming]:
    shots = Shots(tmp_path / "shots")
    made = Streaming(make_service(**shots.variables), shots)
    yield made
    made.http.close()
    made.records.close()


def events(answer: httpx2.Response) -> Iterator[dict[str, Any]]:
    return (json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: "))


def test_sound_and_text_flow_while_their_jobs_run(streaming: Streaming) -> None:
    """The first of it is there while the worker stands still; the rest follows; it is all of it. The key is
    bound to the work and not to streaming: the whole sound is the same job's."""
    streaming.shots.arm("segment.after_commit", "4:stop")
    spoken = streaming.speak()
    pieces = spoken.iter_raw()
    first = next(pieces)
    states = [streaming.job(spoken)["state"]]
    streaming.wake()
    heard = first + b"".join(pieces)
    key = {"Idempotency-Key": spoken.request.headers["idempotency-key"]}
    body = json.loads(spoken.request.content) | {"response_format": "wav"}
    again = streaming.http.post("/v1/audio/speech", json=body, headers=key)
    streaming.shots.arm("live_text.after_commit", "1:stop")
    written = streaming.transcribe(recordings.recording(4, directive=WAIT))
    found = events(written)
    word = next(found)
    states.append(streaming.job(written)["state"])
    streaming.wake()
    *deltas, done = [word, *found]

    assert ["running", "running"] == states
    assert "content-length" not in spoken.headers
    assert streaming.whole(spoken) == heard
    assert (200, spoken.headers["x-service-job"]) == (again.status_code, again.headers["x-service-job"])
    assert streaming.words(written) == "".join(one["delta"] for one in deltas) == done["text"]
    assert "transcript.text.done" == done["type"]


def test_streams_outlive_their_worker(streaming: Streaming) -> None:
    """The next attempt saves the same segments and the same text: nothing comes twice (P6, P11)."""
    streaming.shots.arm("segment.after_commit", "4:kill")
    spoken = streaming.speak()
    heard = b"".join(spoken.iter_raw())
    streaming.shots.arm("live_text.after_commit", "1:kill")
    written = streaming.transcribe(recordings.recording(4, directive=WAIT))
    *deltas, done = events(written)

    assert {"segment.after_commit", "live_text.after_commit"} <= streaming.shots.taken()
    assert streaming.whole(spoken) == heard
    assert streaming.words(written) == "".join(one["delta"] for one in deltas) == done["text"]
    assert [2, 2] == [streaming.job(answer)["attempt"] for answer in (spoken, written)]


def test_a_stream_without_an_end_is_cut(streaming: Streaming) -> None:
    """The job is cancelled in the middle: no client takes what it has for the whole, and no text is kept once
    the content is erased (P6)."""
    streaming.shots.arm("segment.after_commit", "1:stop")
    spoken = streaming.speak(input=f"[fake:slow_segments=3] {LONG}")
    pieces = spoken.iter_raw()
    next(pieces)
    streaming.await_stop(spoken)
    streaming.cancel(spoken)
    streaming.wake()
    with pytest.raises(httpx2.TransportError):
        b"".join(pieces)
    streaming.shots.arm("live_text.after_commit", "1:stop")
    written = streaming.transcribe(recordings.recording(4, directive=1199))
    found = events(written)
    next(found)
    streaming.await_stop(written)
    streaming.cancel(written)
    streaming.wake()
    *_, last = found
    erased = streaming.http.delete(f"/v1/jobs/{written.headers['x-service-job']}/content")
    log = streaming.service.log_path.read_text()

    assert "cancelled" == streaming.job(spoken)["state"] == last["error"]["code"]
    assert "openai.stream_cut" in log
    assert "ASGI callable" not in log
    assert 200 == erased.status_code
    assert [] == streaming.records.read(lambda tx: tx.all("select * from live_text"))


def test_other_text_than_was_sent_ends_a_stream_with_an_error(streaming: Streaming) -> None:
    """No `done` follows words that the result does not have, here because a row was damaged."""
    streaming.shots.arm("live_text.after_commit", "1:stop")
    # Who waits for the stop may let the worker go on for a moment: it must not come to its end by then.
    answer = streaming.transcribe(recordings.recording(4, directive=LONG_WAIT))
    found = events(answer)
    next(found)
    streaming.await_stop(answer)
    streaming.records.write(lambda tx: tx.run(OTHER_TEXT))
    damaged = next(one for one in found if one["delta"] == " nothing")
    streaming.wake()
    *_, last = found

    assert "transcript.text.delta" == damaged["type"]
    assert "unavailable" == last["error"]["code"]


def test_other_segments_than_were_sent_break_a_stream() -> None:
    """A later attempt must save the same ones; it may have saved fewer so far."""
    segments = [
        Segment(f"segment_{n}", "attempt_2", n, "audio/wav", 1, sha, 1) for n, sha in enumerate("abc")
    ]

    assert segments[2:] == _after(["a", "b"], segments)
    assert [] == _after(["a", "b", "c", "d"], segments)
    with pytest.raises(StreamBroken):
        _after(["a", "x"], segments)
