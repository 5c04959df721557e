"""The load: callers that do everything a service is for, through the SDK and through OpenAI's routes.

Nothing fails here: an error that an act does not expect is a fault. How long each act takes is kept. Results
are erased, but for some, so that hours of load fit on a disk.
"""

import base64
import contextlib
import hashlib
import random
import shutil
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2

from servers import recordings, voices
from servers.service import PLAIN, RunningService
from tenuto_client import Job, JobCancelled, JobFailed, Tenuto

PAUSE_S = 0.5
"""On average, between two acts of a caller."""
CALLERS = 8
CROWD = 24
"""More callers, in the first half of the warm-up, which fill the pools of threads and connections."""
ACCOUNTS = ("first", "second")
CREDIT = "1000000"
KEPT = 0.05
"""The share of results that are not erased."""
TIMEOUT_S = 60.0
EVENTS_OF_A_CONNECTION = 40
BATCH_LINES = 6
SPEECH, METERED, IMAGE, CHAT = "fake/speech", "fake/metered-speech", "fake/image", "fake/chat"
IMAGE_SIZE: dict[str, Any] = {"width": 256, "height": 256, "num_inference_steps": 2}


class Tally:
    """What all callers did: the seconds that each act took, and what went wrong."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._took_s: defaultdict[str, list[float]] = defaultdict(list)
        self.faults: list[str] = []
        self.is_counting = False
        """Set after the warm-up."""

    def note(self, act: str, seconds: float) -> None:
        if self.is_counting:
            with self._lock:
                self._took_s[act].append(seconds)

    def count(self) -> int:
        """Acts so far."""
        with self._lock:
            return sum(map(len, self._took_s.values()))

    def took_s(self) -> Mapping[str, list[float]]:
        """By act, in ascending order."""
        with self._lock:
            return {act: sorted(seconds) for act, seconds in sorted(self._took_s.items())}


class Caller(threading.Thread):
    """One caller: acts drawn from a seed, one after the other, until it is asked to finish."""

    def __init__(self, service: RunningService, key: str, folder: Path, tally: Tally, seed: int) -> None:
        super().__init__(name=f"caller-{seed}", daemon=True)
        self._folder = folder / self.name
        self._folder.mkdir(parents=True)
        self._client = Tenuto(key, service.url, timeout=TIMEOUT_S, journal=self._folder / "journal")
        headers = {"Authorization": f"Bearer {key}"}
        self._http = httpx2.Client(base_url=service.url, headers=headers, timeout=TIMEOUT_S, verify=PLAIN)
        self._tally, self._dice = tally, random.Random(seed)
        self._flacs = [recordings.recording(words) for words in range(2, 6)]
        self._finishing = threading.Event()
        self._acts: Mapping[Callable[[], None], int] = {
            self.speech: 20,
            self.preview: 12,
            self.metered: 6,
            self.image: 6,
            self.recognition: 8,
            self.chat: 8,
            self.streamed_chat: 6,
            self.voice: 5,
            self.cancelled: 5,
            self.failing: 2,
            self.followed: 5,
            self.sent_twice: 3,
            self.reads: 8,
            self.batch: 1,
            self.openai_speech: 6,
            self.openai_image: 2,
            self.openai_transcript: 4,
            self.upload: 3,
        }

    def finish(self) -> None:
        """The act that it is at is its last."""
        self._finishing.set()

    def run(self) -> None:
        with self._client, self._http:
            while not self._finishing.wait(self._dice.uniform(0, 2 * PAUSE_S)):
                [act] = self._dice.choices(list(self._acts), list(self._acts.values()))
                began = time.monotonic()
                try:
                    act()
                except Exception as error:
                    self._tally.faults.append(f"{act.__name__}: {error!r}")
                self._tally.note(act.__name__, time.monotonic() - began)

    # --- jobs ------------------------------------------------------------------------------------------

    def speech(self) -> None:
        self._read(self._client.speech.create(self._text(), model=SPEECH))

    def preview(self) -> None:
        text = f"{self._text()} {' '.join(['And one more sentence.'] * 3)}"
        job = self._client.speech.create(text, model=SPEECH, stream=True)
        if not list(job.segments()):
            raise AssertionError(f"{job.id} has no segment")
        self._read(job)

    def metered(self) -> None:
        self._read(self._client.speech.create(self._text(), model=METERED))

    def image(self) -> None:
        self._read(self._client.images.create(self._text(), model=IMAGE, **IMAGE_SIZE))

    def recognition(self) -> None:
        job = self._client.recognition.create(self._dice.choice(self._flacs), model=recordings.DUAL)
        self._read(job)

    def cancelled(self) -> None:
        job = self._client.speech.create(f"[fake:sleep=30] {self._text()}", model=SPEECH)
        time.sleep(self._dice.uniform(0, 0.3))
        job.cancel()
        with contextlib.suppress(JobCancelled):
            job.wait()
            raise AssertionError(f"{job.id} was cancelled, and is {job.state}")

    def failing(self) -> None:
        job = self._client.speech.create(f"[fake:raise] {self._text()}", model=SPEECH)
        with contextlib.suppress(JobFailed):
            job.wait()
            raise AssertionError(f"{job.id} was to fail, and is {job.state}")

    def followed(self) -> None:
        """The events of a job as they happen; its stream ends with it."""
        job = self._client.speech.create(self._text(), model=SPEECH)
        kinds = [event.type for event in self._client.events(job_id=job.id)]
        if not kinds or "succeeded" not in kinds[-1]:
            raise AssertionError(f"the events of {job.id} are {kinds}")
        self._read(job)

    def sent_twice(self) -> None:
        key, text = str(uuid.uuid4()), self._text()
        once, again = (self._client.speech.create(text, model=SPEECH, idempotency_key=key) for _ in range(2))
        if once.id != again.id:
            raise AssertionError(f"{key} is {once.id} and {again.id}")
        self._read(again)

    def batch(self) -> None:
        folder = self._folder / uuid.uuid4().hex
        lines = [
            {"id": str(number), "text": self._text(), "model": SPEECH}
            if number % 2
            else {"id": str(number), "prompt": self._text(), "model": IMAGE, **IMAGE_SIZE}
            for number in range(BATCH_LINES)
        ]
        report = self._client.batch(lines, folder)
        if not report.has_succeeded:
            raise AssertionError(f"a batch came to {report}")
        for line in report.results:
            if line.job_id is not None:
                self._client.jobs.get(line.job_id).erase()
        shutil.rmtree(folder)

    # --- all else --------------------------------------------------------------------------------------

    def chat(self) -> None:
        message: Any = {"role": "user", "content": self._text()}
        if not self._client.chat.completions.create([message], model=CHAT).content:
            raise AssertionError("an empty answer")

    def streamed_chat(self) -> None:
        message: Any = {"role": "user", "content": self._text()}
        if not list(self._client.chat.completions.create([message], model=CHAT, stream=True)):
            raise AssertionError("an empty answer")

    def voice(self) -> None:
        """Uploaded, used, downloaded, renamed and deleted."""
        content = voices.recording(self._dice.randrange(1 << 16))
        made = self._client.voices.create(content, "mine")
        self._read(self._client.speech.create(self._text(), model=SPEECH, voice_id=made.voice_id))
        file = self._client.voices.download(made.voice_id, self._folder / "voice.wav")
        if file.read_bytes() != content:
            raise AssertionError(f"other bytes of {made.voice_id}")
        self._client.voices.rename(made.voice_id, "ours")
        self._client.voices.delete(made.voice_id)

    def upload(self) -> None:
        """A recording that no job uses, erased by its id."""
        content = self._dice.choice(self._flacs)
        headers = {
            "Content-Type": "audio/flac",
            "Idempotency-Key": str(uuid.uuid4()),
            "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
        }
        answer = self._http.post("/v1/input-artifacts", headers=headers, content=content).raise_for_status()
        self._http.delete(f"/v1/artifacts/{answer.json()['artifact']['id']}").raise_for_status()

    def reads(self) -> None:
        list(self._client.jobs.list(limit=20))
        self._client.account.balance()
        self._client.account.ledger()
        self._client.account.usage()
        self._client.models.list()
        self._client.voices.list()

    def openai_speech(self) -> None:
        form = self._dice.choice(("wav", "mp3", "opus", "pcm"))
        body = {"model": SPEECH, "voice": "alloy", "input": self._text(), "response_format": form}
        self._clear(self._http.post("/v1/audio/speech", json=body).raise_for_status())

    def openai_image(self) -> None:
        body = {"model": "dall-e-3", "prompt": self._text(), "size": "256x256", "steps": 2}
        answer = self._http.post("/v1/images/generations", json=body).raise_for_status()
        base64.b64decode(answer.json()["data"][0]["b64_json"])
        self._clear(answer)

    def openai_transcript(self) -> None:
        files = {"file": ("speech.flac", self._dice.choice(self._flacs))}
        answer = self._http.post("/v1/audio/transcriptions", data={"model": "whisper-1"}, files=files)
        self._clear(answer.raise_for_status())

    # --- helpers ---------------------------------------------------------------------------------------

    def _text(self) -> str:
        return f"Hold the note for {self._dice.randrange(1_000_000)} beats."

    def _read(self, job: Job) -> None:
        """Its result, checked; mostly erased then."""
        if not job.read():
            raise AssertionError(f"{job.id} has an empty result")
        if self._dice.random() > KEPT:
            job.erase()

    def _clear(self, answer: httpx2.Response) -> None:
        for job_id in answer.headers.get("x-service-job", "").replace(",", " ").split():
            if self._dice.random() > KEPT:
                self._client.jobs.get(job_id).erase()


class Follower(threading.Thread):
    """An account's stream of events: opened again after some of them, behind the last one."""

    def __init__(self, service: RunningService, key: str, tally: Tally) -> None:
        super().__init__(name="follower", daemon=True)
        self._client = Tenuto(key, service.url, timeout=TIMEOUT_S, journal=False)
        self._tally, self._finishing = tally, threading.Event()
        self.count = 0

    def finish(self) -> None:
        self._finishing.set()

    def run(self) -> None:
        after = None
        with self._client:
            while not self._finishing.is_set():
                try:
                    after = self._follow(after)
                except Exception as error:
                    self._tally.faults.append(f"follower: {error!r}")

    def _follow(self, after: str | None) -> str | None:
        events = self._client.events(after=after)
        for number, event in enumerate(events, 1):
            after, self.count = event.id, self.count + 1
            if number == EVENTS_OF_A_CONNECTION or self._finishing.is_set():
                break
        events.close()  # type: ignore[attr-defined]
        return after
