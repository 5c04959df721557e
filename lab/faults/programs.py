"""Programs made for OpenAI: they ask its routes for speech, images and transcripts, and know nothing of jobs.

A patient one sends again what was not answered, as OpenAI's SDKs do, and says so; the other asks once and
takes what comes. Each text is asked for once, so that its jobs can be counted when all is at rest.
"""

import base64
import hashlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
from lab.faults.clients import Client
from lab.faults.seen import Book
from lab.faults.works import CANARY, RECORDINGS

from servers import recordings
from tenuto.api.errors import STATUS
from tenuto.job.states import MAX_HOSTS_LOST

SPEECH, IMAGES, TRANSCRIPTS = "/v1/audio/speech", "/v1/images/generations", "/v1/audio/transcriptions"
METERED = "fake/metered-speech"
PACES = ("", "", "[fake:sleep=0.3] ", "[fake:slow_segments=0.1] ")
FORMS: tuple[Mapping[str, Any], ...] = (
    {"response_format": "wav"},
    {"response_format": "mp3"},
    {"response_format": "opus"},
    {"response_format": "pcm"},
    {"response_format": "pcm", "stream_format": "sse"},
    {"response_format": "mp3", "stream_format": "sse"},
    {"response_format": "mp3", "stream": True},
    {"response_format": "opus", "stream_format": "audio"},
)
WRITTEN: tuple[Mapping[str, str], ...] = (
    {},
    {"response_format": "text"},
    {"response_format": "verbose_json"},
    {"stream": "true"},
)
"""Forms of a transcript."""
LAST_EVENTS = {SPEECH: "speech.audio.done", TRANSCRIPTS: "transcript.text.done"}
MOST_OPEN = 2
_OGG_PAGE = re.compile(rb"(OggS.{10}).{4}(.{4}).{4}", re.DOTALL)


@dataclass(slots=True)
class Ask:
    """One thing that a program wants, and what it got."""

    path: str
    body: dict[str, Any]
    text: str
    jobs: int = 1
    file: bytes | None = field(default=None, repr=False)
    """The recording, which goes in a form with the body's fields."""
    sends: int = 0
    sent_at: float = 0.0
    job_ids: set[str] = field(default_factory=set)
    """That an answer has named."""
    content: bytes | None = field(default=None, repr=False)
    """What came to a clean end, sound or the text of a transcript, until it is known to be whole."""
    is_done: bool = False

    @property
    def form(self) -> str:
        return str(self.body.get("response_format", "png"))


class Program(Client):
    """One program with its API key."""

    def __init__(self, url: str, account: str, key: str, book: Book, seed: str, *, is_patient: bool) -> None:
        super().__init__(url, account, key, book, seed)
        self.name = f"program-{seed}"
        self.is_patient = is_patient
        self.asks: list[Ask] = []

    def unfinished(self) -> list[Any]:
        return [ask for ask in self.asks if not ask.is_done]

    def _step(self) -> None:
        waiting = self.unfinished()
        if not self._closing.is_set() and len(waiting) < MOST_OPEN:
            self.asks.append(self._new())
            waiting = [self.asks[-1]]
        if waiting:
            ask = self._dice.choice(waiting)
            (self._compare if ask.content is not None else self._ask)(ask)

    def _new(self) -> Ask:
        number = len(self.asks)
        text = f"{self._dice.choice(PACES)}{CANARY} of {self.name}, {number}. {'And more. ' * 4}".strip()
        if self._dice.random() < 0.2:
            count = self._dice.choice((1, 2))
            body = {"model": "dall-e-3", "prompt": text, "n": count, "size": "256x256", "steps": 2}
            return Ask(IMAGES, body, text, count)
        if self._dice.random() < 0.25:
            recording = self._book.media.flacs[self._dice.randrange(RECORDINGS)]
            form = {"model": "whisper-1", "prompt": text, **self._dice.choice(WRITTEN)}
            return Ask(TRANSCRIPTS, form, text, file=recording)
        model = METERED if self._dice.random() < 0.15 else "fake/speech"
        return Ask(
            SPEECH, {"model": model, "voice": "alloy", "input": text, **self._dice.choice(FORMS)}, text
        )

    def _ask(self, ask: Ask) -> None:
        headers = {"X-Stainless-Retry-Count": str(ask.sends)}
        ask.sent_at = ask.sent_at or time.monotonic()
        ask.sends += 1
        options: dict[str, Any] = {"json": ask.body}
        if ask.file is not None:
            options = {"data": ask.body, "files": {"file": ("speech.flac", ask.file)}}
        answer = self.link.ask("POST", ask.path, headers=headers, **options)
        if not self.is_patient:
            ask.is_done = True
        if answer is None:
            return
        ask.job_ids.update(answer.headers.get("x-service-job", "").replace(",", " ").split())
        if len(ask.job_ids) > ask.jobs:
            self.faults.append(f"P2: {ask} has {ask.job_ids}")
        if answer.status_code != 200:
            self._see_refusal(ask, answer.status_code, answer.headers, answer.json()["error"])
        elif ask.body.get("stream_format") == "sse" or ask.body.get("stream") == "true":
            self._see_events(ask, answer)
        elif ask.path == IMAGES:
            self._see_images(ask, answer)
        elif ask.path == TRANSCRIPTS:
            is_text = ask.body.get("response_format") == "text"
            self._hear(ask, (answer.text.removesuffix("\n") if is_text else answer.json()["text"]).encode())
        else:
            self._hear(ask, answer.content)

    def _hear(self, ask: Ask, content: bytes) -> None:  # type: ignore[override]
        """It came to a clean end, so it must be whole."""
        ask.content, ask.is_done = content, False

    def _see_images(self, ask: Ask, answer: httpx2.Response) -> None:
        images = [base64.b64decode(image["b64_json"]) for image in answer.json()["data"]]
        found = ", ".join(hashlib.sha256(image).hexdigest() for image in images)
        if (found, len(images)) != (answer.headers["x-service-sha256"], ask.jobs):
            self.faults.append(f"P6: wrong images for {ask}")
        ask.is_done = True

    def _see_events(self, ask: Ask, answer: httpx2.Response) -> None:
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
        last = events[-1] if events else {}
        if "error" in last:
            code = last["error"]["code"]
            status = 503 if code == "still_running" else STATUS.get(code, 500)
            retry = {"x-should-retry": "false", "retry-after": "1"}
            self._see_refusal(ask, status, retry, last["error"])
        elif last.get("type") != LAST_EVENTS[ask.path]:
            self.faults.append(f"P6: a clean end without a last event: {ask}, {answer.text[-200:]}")
        elif ask.path == TRANSCRIPTS:
            if "".join(event["delta"] for event in events[:-1]) != last["text"]:
                self.faults.append(f"P6: the pieces of {ask} are not its text: {answer.text[-500:]}")
            self._hear(ask, last["text"].encode())
        else:
            self._hear(ask, b"".join(base64.b64decode(event["audio"]) for event in events[:-1]))

    def _see_refusal(self, ask: Ask, status: int, headers: Mapping[str, str], error: dict[str, Any]) -> None:
        """503 may be at any time; an end without a result as a job may have it, and is not asked again."""
        if status == 503:
            if "retry-after" not in headers:
                self.faults.append(f"503 without Retry-After: {error}")
            return
        has_crashed = (
            error["code"] == "engine_crashed" and self._book.hosts_killed(ask.sent_at) >= MAX_HOSTS_LOST
        )
        paid = ask.body["model"] == METERED and error["code"] in ("engine_failed", "recovery_required")
        if not (status == 500 and (has_crashed or paid) and headers.get("x-should-retry") == "false"):
            self.faults.append(f"{status} for {ask}: {error}")
        ask.is_done = True

    def _compare(self, ask: Ask) -> None:
        """What came against the job's own result, in the same form."""
        [job_id] = ask.job_ids
        job = self.link.ask("GET", f"/v1/jobs/{job_id}")
        if job is None or not self.link.expect(job, 200, ask):
            return
        is_text = ask.path == TRANSCRIPTS
        form = "content" if is_text else f"rendition?form={ask.form}"
        whole = self.link.ask("GET", f"/v1/artifacts/{job.json()['artifacts'][0]['id']}/{form}")
        if whole is not None and self.link.expect(whole, 200, ask):
            expected = " ".join(recordings.texts(whole.json())).encode() if is_text else whole.content
            received = ask.content or b""
            if _alike(received) != _alike(expected):
                self.faults.append(f"P6: {len(received)} of {len(expected)} bytes at a clean end: {ask}")
            ask.content, ask.is_done = None, True


def _alike(sound: bytes) -> bytes:
    """The same for the same sound: each Ogg stream has a number of its own, which its checksums cover."""
    return _OGG_PAGE.sub(lambda page: page[1] + page[2], sound)
