"""Followers of events while the service is killed again and again: each event once, in order."""

import signal
import threading
from collections import defaultdict

from crash.conftest import MakeService
from servers.processes import family, send
from servers.service import RunningService
from tenuto_client import LiveEvent, ServiceUnreachable, Tenuto

RESTARTS = 10


class Reader(threading.Thread):
    """A program that follows an account's events with the SDK, and what it has received."""

    def __init__(self, service: RunningService, *, job_id: str | None = None) -> None:
        super().__init__(daemon=True)
        self._client = Tenuto(service.key, service.url, journal=False)
        self._job_id = job_id
        self.received: list[LiveEvent] = []
        self.last_job = ""
        self.is_done = threading.Event()

    def run(self) -> None:
        """Until it has seen the end of `last_job`; a service that is away for long is asked again."""
        while not self.is_done.is_set():
            after = self.received[-1].id if self.received else None
            try:
                for event in self._client.events(job_id=self._job_id, after=after):
                    self.received.append(event)
                    if event.job_id == self.last_job and event.state == "succeeded":
                        self.is_done.set()
                        break
                else:
                    self.is_done.set()
            except ServiceUnreachable:
                continue


def test_a_reader_sees_each_event_once_and_in_order(make_service: MakeService) -> None:
    """Through ten kills of everything: what the account's stream gave is what the jobs' histories say."""
    service = make_service()
    service.start()
    service.key = service.make_key(credit="100")
    early = [service.submit("Before anybody follows.")]
    service.wait(early[0])
    reader = Reader(service)
    reader.start()
    while not reader.received:
        # A stream begins where it is opened, and that takes a moment.
        assert len(early) < 100
        early.append(service.submit("Is anybody there?"))
        service.wait(early[-1])
    jobs = []
    for number in range(RESTARTS):
        jobs += [service.submit(f"[fake:sleep=0.2] {number}.{copy}") for copy in range(3)]
        if number % 2:
            service.wait(jobs[-3])
        for pid in family(service).living():
            send(pid, signal.SIGKILL)
        service.kill()
        service.start()
    for job_id in jobs:
        service.wait(job_id)
    reader.last_job = service.submit("[fake:sleep=1] The last one.")
    jobs.append(reader.last_job)
    assert reader.is_done.wait(60), reader.received[-1:]
    seen = defaultdict(list)
    for event in reader.received:
        seen[event.job_id].append((event.sequence, event.type))
    with service.client() as client:
        told = {
            job_id: [
                (event["sequence"], event["type"])
                for event in client.get(f"/v1/jobs/{job_id}/events").json()["data"]
            ]
            for job_id in jobs
        }

    assert told == {job_id: events for job_id, events in seen.items() if job_id not in early}
    assert len(reader.received) == len({event.id for event in reader.received})
