"""Messages to webhooks while senders are killed: none is lost, and one that comes twice has the same id."""

import json
import signal
from collections import Counter
from pathlib import Path

import httpx2

from crash.conftest import MakeService
from servers.processes import family, send
from servers.receiver import Receiver, plainly
from servers.service import RunningService

KILLS = 4


def webhook(service: RunningService, receiver: Receiver) -> str:
    """A webhook for all that ends."""
    with service.client() as client:
        answer: httpx2.Response = client.post(
            "/v1/webhooks", json={"url": receiver.url, "events": ["job.succeeded", "job.cancelled"]}
        )
    assert answer.status_code == 201, answer.text
    webhook_id: str = answer.json()["id"]
    return webhook_id


def ids(receiver: Receiver) -> Counter[str]:
    return Counter(message.id for message in receiver.messages)


def test_a_sender_killed_before_its_record_sends_the_same_again(
    make_service: MakeService, tmp_path: Path
) -> None:
    """The receiver has the message and nobody has noted it: it comes once more, under its id."""
    points = tmp_path / "points"
    points.mkdir()
    (points / "webhook.sent").write_text("1:kill")
    service = make_service(TENUTO_WEBHOOKS="any", TENUTO_FAILPOINT=str(points))
    service.start()
    service.key = service.make_key(credit="100")
    receiver = Receiver()
    webhook(service, receiver)
    job_id = service.submit("Once.")
    messages = receiver.wait(2)
    receiver.close()

    assert {f"{job_id}_2": 2} == Counter(message.id for message in messages[:2])
    assert 1 == len({message.body for message in messages})


def test_no_message_is_lost_and_none_comes_under_two_ids(make_service: MakeService) -> None:
    """Worker, service and receiver are killed in turns: every job that succeeded has just one message id."""
    service = make_service(TENUTO_WEBHOOKS="any")
    service.start()
    service.key = service.make_key(credit="100")
    receiver = Receiver()
    webhook(service, receiver)
    jobs = []
    for number in range(KILLS):
        jobs += [service.submit(f"[fake:sleep=0.1] {number}.{copy}") for copy in range(3)]
        receiver.answering = plainly(503 if number == 1 else 204)
        killed = family(service)
        if number % 2:
            assert killed.worker is not None
            send(killed.worker, signal.SIGKILL)
        else:
            service.kill()
            service.start()
        for job_id in jobs:
            service.wait(job_id)
    receiver.answering = plainly(204)
    expected = {f"{job_id}_{_sequence(service, job_id)}" for job_id in jobs}
    while not expected <= set(ids(receiver)):
        receiver.wait(len(receiver.messages) + 1)
    bodies: dict[str, set[bytes]] = {message.id: set() for message in receiver.messages}
    for message in receiver.messages:
        bodies[message.id].add(message.body)
    receiver.close()

    assert expected == set(bodies)
    assert {1} == {len(each) for each in bodies.values()}
    assert {"job.succeeded"} == {json.loads(body)["type"] for each in bodies.values() for body in each}


def _sequence(service: RunningService, job_id: str) -> int:
    with service.client() as client:
        events = client.get(f"/v1/jobs/{job_id}/events").json()["data"]
    newest: int = events[-1]["sequence"]
    return newest
