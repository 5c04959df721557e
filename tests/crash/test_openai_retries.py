"""A client of OpenAI's SDK whose service is killed under its request: its own retry ends in the same job."""

import base64
import hashlib
from pathlib import Path

from crash.conftest import MakeService
from servers import checker, recordings
from servers.processes import Supervisor
from servers.proxy import Proxy, Towards
from servers.shots import Shots

TRANSCRIBING = (
    *("upload.after_bytes", "accept.before_commit", "accept.after_commit"),
    *("openai.accepted", "openai.finished"),
)
DRAWING = ("openai.accepted", "openai.finished", "openai.mid_answer")
"""Where the service is killed while it answers, for each of the two routes."""


def test_a_kill_at_any_step_costs_no_further_job(make_service: MakeService, tmp_path: Path) -> None:
    """Before a job was accepted, around that moment, after it has ended, in the middle of the answer: each
    request has its own jobs and nothing else is charged; the SDK's retry gets what they made (P1, P2, P6)."""
    import openai

    shots = Shots(tmp_path / "shots")
    running = make_service(**shots.variables)
    running.start()
    key = running.make_key(credit="100")
    supervisor = Supervisor(running)
    named: list[str] = []
    words, inputs = [], []
    try:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=20) as client:
            for place in TRANSCRIBING:
                shots.arm(place, "1:kill")
                heard = client.audio.transcriptions.with_raw_response.create(
                    model="whisper-1", file=("a.flac", recordings.recording(2))
                )
                inputs.append(heard.headers["x-service-job"])
                words.append(len(heard.parse().text.split()))
            for place in DRAWING:
                shots.arm(place, "1:kill")
                drawn = client.images.with_raw_response.generate(
                    model="dall-e-3", prompt=f"A cat, {place}.", n=2, size="256x256"
                )
                named += drawn.headers["x-service-job"].split(", ")
                images = [base64.b64decode(image.b64_json or "") for image in drawn.parse().data or []]
                sums = ", ".join(hashlib.sha256(one).hexdigest() for one in images)
                assert drawn.headers["x-service-sha256"] == sums
    finally:
        supervisor.stop()
    database = checker.open_records(running)
    jobs = checker.rows(database, "select id from job where state = 'succeeded'")
    sent = checker.rows(database, "select sent_with_job_id as job from artifact where job_id is null")
    settled = checker.rows(database, "select job_id as id from entry where type = 'settle'")
    database.close()

    assert {*TRANSCRIBING, *DRAWING} == shots.taken()
    assert [2] * len(TRANSCRIBING) == words
    assert len(set(named)) == 2 * len(DRAWING)
    assert sorted(named + inputs) == sorted(row["id"] for row in jobs)
    assert sorted(named + inputs) == sorted(row["id"] for row in settled)
    assert sorted(inputs) == sorted(row["job"] for row in sent)


def test_an_error_after_acceptance_names_the_jobs(make_service: MakeService, tmp_path: Path) -> None:
    """The service lacks descriptors once they are durable: it does not say that nothing was stored (P1)."""
    shots = Shots(tmp_path / "shots")
    running = make_service(**shots.variables)
    running.start()
    running.key = running.make_key(credit="1")
    shots.arm("openai.accepted", "1:raise=EMFILE")
    body = {"model": "dall-e-3", "prompt": "A cat.", "n": 2, "size": "256x256"}
    with running.client() as http:
        refused = http.post("/v1/images/generations", json=body)
        again = http.post("/v1/images/generations", json=body, headers={"x-stainless-retry-count": "1"})
    error = refused.json()["error"]

    assert (503, "unavailable", "2") == (refused.status_code, error["code"], refused.headers["retry-after"])
    assert f"{refused.headers['x-service-job']} cannot be read just now" in error["message"]
    assert (200, refused.headers["x-service-job"]) == (again.status_code, again.headers["x-service-job"])


def test_an_answer_that_was_sent_and_lost_is_had_again(make_service: MakeService) -> None:
    """The service has sent all of it, the link broke: the retry gets the same job's sound (P1, P2)."""
    import openai

    running = make_service()
    running.start()
    key = running.make_key(credit="1")
    proxy = Proxy(("127.0.0.1", running.port))
    proxy.cut_at(b"HTTP/1.1 200", Towards.CLIENT)
    try:
        url = f"http://127.0.0.1:{proxy.port}/v1"
        with openai.OpenAI(base_url=url, api_key=key, max_retries=20) as client:
            answer = client.audio.speech.with_raw_response.create(
                model="fake/speech",
                voice="alloy",
                input="Hold the note.",
            )
        cuts = proxy.cuts()
    finally:
        proxy.close()
    database = checker.open_records(running)
    jobs = checker.rows(database, "select id from job")
    database.close()

    assert 1 == cuts
    assert [{"id": answer.headers["x-service-job"]}] == [dict(job) for job in jobs]
    assert "true" == answer.headers["idempotent-replayed"]
