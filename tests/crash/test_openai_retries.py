"""A client of OpenAI's SDK whose service is killed under its request: its own retry ends in the same job."""

import threading
from typing import Any

from crash.conftest import MakeService
from servers import checker
from servers.processes import until


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
