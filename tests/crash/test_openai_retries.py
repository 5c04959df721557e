"""A client of OpenAI's SDK whose service is killed under its request: its own retry ends in the same job."""

import base64
import hashlib
import threading
from pathlib import Path
from typing import Any

import pytest

from crash.conftest import MakeService
from servers import checker, recordings
from servers.processes import Supervisor, until
from servers.proxy import Proxy, Towards
from servers.shots import Shots


def test_a_kill_between_request_and_answer_costs_no_second_job(make_service: MakeService) -> None:
    """Without a key of its own, and settled once: the SDK declares its retry, which joins the job (P1)."""
    import openai

    running = make_service()
    running.start()
    running.key = running.make_key(credit="1")
    answers: list[Any] = []

    def speak() -> None:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key=running.key, max_retries=20) as client:
            answers.append(
                client.audio.speech.with_raw_response.create(
                    model="fake/speech", voice="alloy", input="[fake:sleep=0.5] Hold the note."
                )
            )

    caller = threading.Thread(target=speak)
    caller.start()
    database = checker.open_records(running)
    until(
        lambda: bool(checker.rows(database, "select id from job where state = 'running'")),
        20,
        "a running job",
    )
    running.kill()
    running.start()
    caller.join(60)
    jobs = checker.rows(database, "select id, state from job")
    settled = checker.rows(database, "select id from entry where type = 'settle'")
    database.close()

    [answer] = answers
    assert [{"id": answer.headers["x-service-job"], "state": "succeeded"}] == [dict(job) for job in jobs]
    assert 1 == len(settled)
    assert "true" == answer.headers["idempotent-replayed"]


@pytest.mark.parametrize("place", ["openai.accepted", "openai.finished", "openai.mid_answer"])
def test_a_kill_at_any_step_of_two_images_costs_no_third(
    make_service: MakeService, tmp_path: Path, place: str
) -> None:
    """After the jobs are durable, after they ended, in the middle of the answer: the same two (P1, P6)."""
    import openai

    shots = Shots(tmp_path / "shots")
    running = make_service(**shots.variables)
    running.start()
    key = running.make_key(credit="1")
    supervisor = Supervisor(running)
    shots.arm(place, "1:kill")
    try:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=20) as client:
            answer = client.images.with_raw_response.generate(
                model="dall-e-3", prompt="A cat.", n=2, size="256x256"
            )
    finally:
        supervisor.stop()
    database = checker.open_records(running)
    jobs = {row["id"] for row in checker.rows(database, "select id from job where state = 'succeeded'")}
    settled = checker.rows(database, "select id from entry where type = 'settle'")
    database.close()
    images = [base64.b64decode(image.b64_json or "") for image in answer.parse().data or []]

    assert place in shots.taken()
    assert jobs == set(answer.headers["x-service-job"].split(", "))
    assert 2 == len(jobs) == len(settled)
    assert answer.headers["x-service-sha256"] == ", ".join(hashlib.sha256(one).hexdigest() for one in images)


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


@pytest.mark.parametrize("form", ["mp3", "wav"])
def test_an_answer_that_was_sent_and_lost_is_had_again(make_service: MakeService, form: str) -> None:
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
                response_format=form,  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    "place",
    [
        "upload.after_bytes",
        "accept.before_commit",
        "accept.after_commit",
        "openai.accepted",
        "openai.finished",
    ],
)
def test_a_kill_while_a_recording_is_transcribed_costs_no_second_job(
    make_service: MakeService, tmp_path: Path, place: str
) -> None:
    """Before its job was accepted, around that moment, after it has ended: one job with one input, charged
    once, and the retry of the SDK has its transcript (P1, P2)."""
    import openai

    shots = Shots(tmp_path / "shots")
    running = make_service(**shots.variables)
    running.start()
    key = running.make_key(credit="100")
    supervisor = Supervisor(running)
    shots.arm(place, "1:kill")
    content = recordings.recording(2)
    try:
        with openai.OpenAI(base_url=f"{running.url}/v1", api_key=key, max_retries=20) as client:
            answer = client.audio.transcriptions.with_raw_response.create(
                model="whisper-1", file=("a.flac", content)
            )
    finally:
        supervisor.stop()
    database = checker.open_records(running)
    jobs = checker.rows(database, "select id, state from job")
    inputs = checker.rows(database, "select sent_with_job_id as job from artifact where job_id is null")
    settled = checker.rows(database, "select id from entry where type = 'settle'")
    database.close()

    assert place in shots.taken()
    assert [{"id": answer.headers["x-service-job"], "state": "succeeded"}] == [dict(job) for job in jobs]
    assert [answer.headers["x-service-job"]] == [row["job"] for row in inputs]
    assert 1 == len(settled)
    assert 2 == len(answer.parse().text.split())
