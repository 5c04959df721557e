"""Messages to webhooks while senders are killed: none is lost, and one that comes twice has the same id."""

import signal
from collections import Counter
from pathlib import Path

import httpx2
import pytest

from crash.conftest import MakeService
from servers.elsewhere import OtherWorker
from servers.processes import send, until
from servers.receiver import Receiver
from servers.service import RunningService


def webhook(service: RunningService, receiver: Receiver) -> str:
    """A webhook for all that ends."""
    with service.client() as client:
        answer: httpx2.Response = client.post(
            "/v1/webhooks", json={"url": receiver.url, "events": ["job.succeeded", "job.cancelled"]}
        )
    assert answer.status_code == 201, answer.text
    webhook_id: str = answer.json()["id"]
    return webhook_id


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


@pytest.mark.parametrize("dialect", ["postgresql"], indirect=True)
def test_of_two_that_may_send_one_does(make_service: MakeService) -> None:
    """Two worker processes: each event comes once; the one that sends is killed, the other one continues."""
    service = make_service(TENUTO_WEBHOOKS="any")
    service.start()
    service.key = service.make_key(credit="100")
    receiver = Receiver()
    webhook(service, receiver)
    other = OtherWorker(service)
    database = service.open_database()
    workers = "select id, pid from worker"
    until(lambda: len(database.read(lambda tx: tx.all(workers))) == 2, 60, "both workers are there")
    jobs = [service.submit(f"{number}") for number in range(20)]
    together = [message.id for message in receiver.wait(20)]
    sender = "select w.pid from webhook_sender s join worker w on w.id = s.holder"
    [row] = database.read(lambda tx: tx.all(sender))
    send(row["pid"], signal.SIGKILL)
    jobs += [service.submit(f"{number}") for number in range(20, 30)]
    messages = receiver.wait(30)
    for job_id in jobs:
        service.wait(job_id)
    expected = {f"{job_id}_{_sequence(service, job_id)}" for job_id in jobs}
    while not expected <= {message.id for message in messages}:
        messages = receiver.wait(len(messages) + 1)
    other.stop()
    database.close()
    receiver.close()

    assert 20 == len(set(together))
    assert expected == {message.id for message in messages}


def _sequence(service: RunningService, job_id: str) -> int:
    with service.client() as client:
        events = client.get(f"/v1/jobs/{job_id}/events").json()["data"]
    newest: int = events[-1]["sequence"]
    return newest
