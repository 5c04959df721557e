"""Kills at named places: what was durable is kept, what was not leaves nothing behind, nothing doubles."""

import hashlib
import os
import signal
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from crash.conftest import MakeService
from servers import checker
from servers.processes import Supervisor, family, is_alive, send, until
from servers.receiver import Receiver
from servers.recordings import DUAL, long_recording, recording
from servers.service import RunningService
from servers.shots import Shots
from servers.upstream import UpstreamServer
from servers.voices import headers_of
from servers.voices import recording as voice_recording
from tenuto import failpoints

REACHED_S = 30.0
LONG_MINUTES = 10.5
MORE_THAN_A_BLOCK = "Long." * 90
METERED = "fake/metered-speech"
DAY_S = 24 * 3600

WORKER_PLACES = {
    "claim.before_commit": "speech",
    "claim.after_commit": "speech",
    "input.after_read": "voice",
    "engine.before_call": "speech",
    "engine.mid_run": "stream",
    "engine.after_call": "speech",
    "segment.after_bytes": "stream",
    "segment.before_commit": "stream",
    "segment.after_commit": "stream",
    "live_text.before_commit": "recognition",
    "live_text.after_commit": "recognition",
    "chunk.before_commit": "recognition",
    "chunk.after_commit": "recognition",
    "blob.before_write": "speech",
    "blob.before_fsync": "speech",
    "blob.before_rename": "speech",
    "blob.before_folder_fsync": "speech",
    "result.after_bytes": "speech",
    "record.before_commit": "speech",
    "succeed.before_commit": "speech",
    "succeed.after_commit": "speech",
}
"""A worker's places on its way through a job that may run again, and which job comes there."""

IS_WHOLE = bool(os.environ.get("CRASH_EVERY_PLACE"))
"""PostgreSQL at every place, too, and that a run passes each of them there (`make soak-tests`); else where a
transaction of several tables is cut, since the campaign kills at every place on both databases."""
ON_POSTGRES = ("claim.after_commit", "segment.after_commit", "chunk.before_commit", "succeed.before_commit")
PAID_ON_POSTGRES = ("fence.after_commit", "record.after_commit")

METERED_PLACES = {
    "fence.before_commit": "succeeded",
    "fence.after_commit": "recovery_required",
    "engine.after_call": "recovery_required",
    "record.before_commit": "recovery_required",
    "record.after_commit": "succeeded",
    "succeed.before_commit": "succeeded",
}
"""The same for a paid call: what becomes of its job without an operator."""


@dataclass
class Armed:
    """A service whose failpoints a test arms, an account, and its HTTP client."""

    service: RunningService
    shots: Shots
    http: httpx2.Client
    supervisor: Supervisor | None = None

    def submit(self, sort: str) -> str:
        """A job of this sort; its id."""
        if sort == "recognition":
            body: dict[str, Any] = {"model": DUAL, "parameters": {}}
            body["input_artifact_ids"] = [self.upload(recording()).json()["artifact"]["id"]]
        else:
            model = METERED if sort == "metered" else "fake/speech"
            text = (
                "[fake:slow_segments=0.05] Some segments, one by one, of a voice."
                if sort == "stream"
                else sort
            )
            body = {"model": model, "parameters": {"text": text, "stream": sort == "stream"}}
            if sort == "voice":
                body["parameters"]["voice_id"] = self.upload_voice(voice_recording()).json()["voice_id"]
        answer = self.post("/v1/jobs", json=body)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    def post(self, path: str, *, key: str | None = None, **options: Any) -> httpx2.Response:
        headers = {"Idempotency-Key": key or str(uuid.uuid4()), **options.pop("headers", {})}
        return self.http.post(path, headers=headers, **options)

    def upload(self, content: bytes, *, key: str | None = None) -> httpx2.Response:
        headers = {
            "Content-Type": "audio/flac",
            "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
        }
        return self.post("/v1/input-artifacts", key=key, headers=headers, content=content)

    def upload_voice(self, content: bytes, *, key: str | None = None) -> httpx2.Response:
        return self.post("/v1/voices", key=key, headers=headers_of(content), content=content)

    def is_ready(self) -> bool:
        try:
            return self.http.get("/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def kill_worker(self) -> None:
        worker = family(self.service).worker
        assert worker is not None
        send(worker, signal.SIGKILL)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        database = checker.open_records(self.service)
        try:
            return checker.rows(database, sql)
        finally:
            database.close()


@pytest.fixture
def armed(make_service: MakeService, tmp_path: Path) -> Iterator[Armed]:
    """Not started: some places are passed by the start alone."""
    shots = Shots(tmp_path / "shots")
    own = {"TENUTO_HEARTBEAT_S": "0.3", "TENUTO_SILENCE_S": "1", "TENUTO_HOST_GRACE_S": "1"}
    own["TENUTO_WEBHOOKS"] = "any"
    service = make_service(**shots.variables, **own)
    made = Armed(service, shots, httpx2.Client())
    yield made
    made.http.close()
    if made.supervisor is not None:
        made.supervisor.give_up()


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"] if IS_WHOLE else ["sqlite"], indirect=True)
def test_every_failpoint_is_reached_by_a_real_run(armed: Armed, tmp_path: Path) -> None:
    """Each name of the table is come by: a place that nobody passes proves nothing. Those of the operator's
    commands are reached by the tests of backup, restore and migrations."""
    for place in failpoints.PLACES:
        armed.shots.arm(place, "1:delay=0")
    upstream, receiver = UpstreamServer(), Receiver()
    with (tmp_path / "tenuto.toml").open("a") as config:
        config.write(f'[models."there/priced"]\nupstream = "{upstream.url}"\ninput_price = "2"\n')
    _start(armed)
    webhook = {"url": receiver.url, "events": ["job.succeeded"]}
    assert 201 == armed.http.post("/v1/webhooks", json=webhook).status_code
    _all_sorts_of_work(armed)
    chat = {"model": "there/priced", "messages": [{"role": "user", "content": "Hold the note."}]}
    assert 200 == armed.http.post("/v1/chat/completions", json=chat).status_code
    upstream.close()
    # A recorded result whose worker died before it was settled is verified by the next one.
    armed.shots.arm("record.after_commit", "1:kill")
    job_id = armed.submit("metered")
    assert armed.shots.fired("record.after_commit", REACHED_S)
    armed.service.wait(job_id, states=("succeeded",))
    armed.kill_worker()
    until(lambda: "sweep.after_condemn" in armed.shots.taken(), REACHED_S, "the sweep of the next worker")
    receiver.close()

    assert set(failpoints.PLACES) - failpoints.OF_COMMANDS == armed.shots.taken() - failpoints.OF_COMMANDS


def test_a_job_survives_its_worker_killed_at_any_place(armed: Armed, dialect: str) -> None:
    """SIGKILL before and after each commit, between bytes and row, between segments and between parts: a new
    attempt, or the verified result finished; one result, one charge of its price (P1, P3, P5, P9, P11)."""
    _start(armed)
    jobs = []
    for place, sort in WORKER_PLACES.items():
        if dialect == "postgresql" and place not in ON_POSTGRES and not IS_WHOLE:
            continue
        armed.shots.arm(place, "1:kill")
        jobs.append(armed.submit(sort))
        assert armed.shots.fired(place, REACHED_S), place
    operations = [armed.service.wait(job_id) for job_id in jobs]
    contents = [
        armed.http.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content") for operation in operations
    ]

    assert {"succeeded"} == {operation["state"] for operation in operations}
    assert [operation["artifacts"][0]["sha256"] for operation in operations] == [
        hashlib.sha256(content.content).hexdigest() for content in contents
    ]
    assert len(jobs) == len(armed.rows("select id from entry where type = 'settle'"))
    checker.check_audit(armed.service)


def test_a_paid_call_is_never_made_again_by_itself(armed: Armed, dialect: str) -> None:
    """SIGKILL on either side of fence, call, record and settlement: before the fence it runs again, a result
    that was recorded is finished, anything between waits for an operator with its hold kept (P10)."""
    _start(armed)
    jobs, expected = [], []
    for place, end in METERED_PLACES.items():
        if dialect == "postgresql" and place not in PAID_ON_POSTGRES and not IS_WHOLE:
            continue
        expected.append(end)
        armed.shots.arm(place, "1:kill")
        jobs.append(armed.submit("metered"))
        assert armed.shots.fired(place, REACHED_S), place
        armed.service.wait(jobs[-1])
    ended = [armed.service.wait(job_id) for job_id in jobs]
    fenced = armed.rows("select job_id from attempt where fenced_at is not null")
    resolved = armed.rows("select job_id from entry where type in ('settle', 'void')")

    assert expected == [each["state"] for each in ended]
    assert sorted(jobs) == sorted(row["job_id"] for row in fenced)
    assert sorted(each["id"] for each in ended if each["state"] == "succeeded") == sorted(
        row["job_id"] for row in resolved
    )
    checker.check_audit(armed.service)


def test_the_api_killed_around_an_acceptance(armed: Armed) -> None:
    """Before the commit: no job, no hold, and the same key makes one. After it: the job is there, and the key
    gets it again. One job and one hold either way (P1, P2)."""
    _start(armed, kept_alive=True)
    left, replayed = [], []
    for place in ("accept.before_commit", "accept.after_commit"):
        key, body = str(uuid.uuid4()), {"model": "fake/speech", "parameters": {"text": "Once."}}
        armed.shots.arm(place, "1:kill")
        with pytest.raises(httpx2.TransportError):
            armed.post("/v1/jobs", key=key, json=body)
        left.append(
            [len(armed.rows(f"select id from {what}")) for what in ("job", "entry where type = 'hold'")]
        )
        until(armed.is_ready, REACHED_S, "the API is back")
        answer = armed.post("/v1/jobs", key=key, json=body)
        replayed.append((answer.status_code, "idempotent-replayed" in answer.headers))
        assert "succeeded" == armed.service.wait(answer.json()["id"])["state"]

    # One job is there from before the second kill.
    assert [[0, 0], [2, 2]] == left
    assert [(202, False), (202, True)] == replayed
    checker.check_everything(armed.service, jobs=2, credit_micros=100_000_000)


@pytest.mark.parametrize(
    ("what", "places"),
    [
        ("upload", ("blob.before_write", "upload.after_bytes", "upload.before_commit")),
        ("voice", ("blob.before_rename", "voice.after_bytes")),
    ],
)
def test_the_api_killed_in_an_upload(armed: Armed, what: str, places: tuple[str, ...]) -> None:
    """Killed while bytes are written, between bytes and row, and around the commit: no id was given, the same
    upload works again and makes one record; the orphans are swept once they are a day old (P1, P5)."""
    _start(armed, kept_alive=True)
    send_it = armed.upload if what == "upload" else armed.upload_voice
    content = recording() if what == "upload" else voice_recording(7)
    key = str(uuid.uuid4())
    before = _files(armed.service)
    for place in [*places, f"{what}.after_commit"]:
        armed.shots.arm(place, "1:kill")
        with pytest.raises(httpx2.TransportError):
            send_it(content, key=key)
        until(armed.is_ready, REACHED_S, "the API is back")
    answer = send_it(content, key=key)
    orphans = {name for name in _files(armed.service) - before if name not in _known(armed)}
    for path in (armed.service.folder / "blobs").rglob("*"):
        os.utime(path, (time.time() - DAY_S - 60,) * 2)
    checker.let_an_hour_pass(armed.service)
    armed.kill_worker()
    # Once more: the first sweep of the one that was killed may have begun in between.
    checker.let_an_hour_pass(armed.service)
    until(lambda: not _files(armed.service) & orphans, REACHED_S, "the orphans are swept")

    assert (201, True) == (answer.status_code, "idempotent-replayed" in answer.headers)
    assert len(places) == len(orphans)
    assert 1 == len(armed.rows("select record_id from upload_key"))
    checker.check_audit(armed.service)


def _start(armed: Armed, *, kept_alive: bool = False) -> None:
    """Ready, with an account; kept alive by a supervisor where a test kills the API."""
    service = armed.service
    service.start()
    service.key = service.make_key(credit="100")
    armed.http = service.client()
    if kept_alive:
        armed.supervisor = Supervisor(service)


def _all_sorts_of_work(armed: Armed) -> None:
    """Everything that a caller can cause, and a worker that dies under a job."""
    voice = armed.upload_voice(voice_recording()).json()["voice_id"]
    long_input = armed.upload(long_recording(LONG_MINUTES)[0]).json()["artifact"]["id"]
    two_parts = {"model": DUAL, "parameters": {}, "input_artifact_ids": [long_input]}
    spoken = {"model": "fake/speech", "parameters": {"text": MORE_THAN_A_BLOCK, "voice_id": voice}}
    jobs = [armed.post("/v1/jobs", json=body).json()["id"] for body in (two_parts, spoken)]
    jobs += [armed.submit("stream"), armed.submit("metered")]
    ended = [armed.service.wait(job_id) for job_id in jobs]
    assert {"succeeded"} == {operation["state"] for operation in ended}
    armed.http.get(f"/v1/artifacts/{ended[1]['artifacts'][0]['id']}/content")
    armed.http.delete(f"/v1/artifacts/{ended[1]['artifacts'][0]['id']}")
    armed.http.post("/v1/audio/speech", json={"model": "fake/speech", "input": "A."})
    job_id = armed.submit("[fake:sleep=60] Too long.")
    armed.service.wait(job_id, states=("running",))
    armed.post(f"/v1/jobs/{job_id}/cancel")
    armed.service.wait(job_id, states=("cancelled",))
    job_id = armed.submit("[fake:sleep=3] Lost once.")
    armed.service.wait(job_id, states=("running",))
    worker = family(armed.service).worker
    armed.kill_worker()
    until(lambda: worker is None or not is_alive(worker), REACHED_S, "the worker is gone")
    armed.service.wait(job_id, states=("succeeded",))


def _files(service: RunningService) -> set[str]:
    return {path.name for path in (service.folder / "blobs").rglob("blob_*") if path.is_file()}


def _known(armed: Armed) -> set[str]:
    return {row["id"] for row in armed.rows("select id from blob")}
