"""Workers and APIs that stop while what they call hangs: it neither answers nor refuses.

A store, a database, a webhook's receiver and an engine at once: the worst moment for a deploy.
"""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from servers.callers import Caller
from servers.elsewhere import OtherWorker
from servers.media_upstream import MediaUpstream
from servers.postgres import PostgresServer
from servers.processes import is_alive, until
from servers.proxy import Proxy
from servers.recordings import long_recording, recognise
from servers.seaweedfs import SeaweedServer
from servers.service import RunningService

METERED = "fake/metered-speech"
PAID_TRANSCRIPTS = "there/paid-whisper"
SETTINGS = f"""
[models."{PAID_TRANSCRIPTS}"]
adapter = "openai-transcription"
upstream = "{{url}}"
metered = true
"""
GONE_S = 180.0
"""Only a process that never ends takes longer."""
SOON_S = 60.0


class Outside:
    """An API on PostgreSQL and a bucket, through links that stall, and a webhook that nobody answers."""

    def __init__(self, server: PostgresServer, seaweed: SeaweedServer, folder: Path, name: str) -> None:
        server.run(f"create database {name}")
        self.database = Proxy(server.address)
        self.store = Proxy((seaweed.address, seaweed.port))
        self.upstream = MediaUpstream()
        self._deaf = socket.create_server(("127.0.0.1", 0))
        (folder / "tenuto.toml").write_text(SETTINGS.format(url=self.upstream.url))
        options = "sslmode=disable&gssencmode=disable"
        settings = {
            "TENUTO_CONFIG": str(folder / "tenuto.toml"),
            "TENUTO_BLOBS": f"s3://hanging/{name}",
            "TENUTO_S3_ENDPOINT": f"http://127.0.0.1:{self.store.port}",
            # Only a call that is not waited for ends before that.
            "TENUTO_S3_TIMEOUT_S": "600",
            "TENUTO_REQUESTS_PER_SECOND": "0",
            "TENUTO_SPEECH_SLOTS": "12",
            "TENUTO_DRAIN_S": "1",
            "TENUTO_HOST_GRACE_S": "0.5",
            "TENUTO_HEARTBEAT_S": "0.4",
            "TENUTO_SILENCE_S": "3",
            "TENUTO_WEBHOOKS": "any",
        }
        self.service = RunningService(
            folder / "data",
            f"postgresql://postgres@127.0.0.1:{self.database.port}/{name}?{options}",
            variables=settings | seaweed.variables,
            verb="api",
        )
        self.service.start()
        self.service.key = self.service.make_key(credit="10")
        with self.service.client() as client:
            url = f"http://127.0.0.1:{self._deaf.getsockname()[1]}/"
            assert (
                client.post("/v1/webhooks", json={"url": url, "events": ["job.succeeded"]}).status_code == 201
            )

    def pass_on(self) -> None:
        """Nothing hangs any more."""
        self.store.pass_on()
        self.database.pass_on()

    def close(self) -> None:
        self.pass_on()
        self.service.stop()
        self.upstream.close()
        self._deaf.close()
        self.store.close()
        self.database.close()


@pytest.fixture
def outside(
    request: pytest.FixtureRequest, mortal_postgres: PostgresServer, seaweed: SeaweedServer, tmp_path: Path
) -> Iterator[Outside]:
    """The API and what is around it, sound."""
    made = Outside(mortal_postgres, seaweed, tmp_path, f"hanging_{abs(hash(request.node.name))}")
    yield made
    made.close()


def ended(pid: int) -> None:
    """SIGTERM, and its end."""
    os.kill(pid, signal.SIGTERM)
    until(lambda: not is_alive(pid), GONE_S, "the process has ended")


def rescued(worker: OtherWorker) -> list[Path]:
    """The files of results that nothing else took."""
    return [*(worker.log_path.with_name("elsewhere") / "rescued").glob("*")]


def test_a_worker_ends_in_order_while_all_that_it_calls_hangs(outside: Outside) -> None:
    """What is free goes back to the queue and is run again; what was paid for is in the database, and the
    next worker stores it; what the engine still has is its operator's if it is paid (P1, P3, P10, P14)."""
    service = outside.service
    # A free job that shares a process with the deaf one leaves it when that has been silent for so long.
    service.variables = {**service.variables, "TENUTO_ENGINE_SILENCE_S": "60"}
    worker = OtherWorker(service, is_kept=True)
    until(lambda: "worker.started" in worker.log_path.read_text(), SOON_S, "the worker runs")
    first = service.wait(service.submit("All is well."))
    outside.store.stall()
    free = [service.submit(f"Free, {number}.") for number in range(3)]
    paid = [service.submit(f"Paid, {number}.", model=METERED) for number in range(2)]
    deaf = service.submit("[fake:hang_gil] Deaf.")
    asked = service.submit("[fake:sleep=900] Upstream.", model=METERED)
    for job_id in (deaf, asked):
        service.wait(job_id, states=("running",))
    until(lambda: worker.log_path.read_text().count('result.kept"') == 2, SOON_S, "both are kept")
    with service.client() as client:
        ended(worker.pid)
        states = {job_id: client.get(f"/v1/jobs/{job_id}").json()["state"] for job_id in [*free, *paid]}
    until(lambda: service.wait(asked)["state"] == "recovery_required", SOON_S, "nobody knows of the call")
    with service.client() as client:
        client.post(f"/v1/jobs/{deaf}/cancel")
    outside.pass_on()
    ends = [service.wait(job_id, timeout_s=GONE_S)["state"] for job_id in [*free, *paid]]
    database = service.open_database()
    with closing(database):
        calls = database.read(
            lambda tx: tx.all("select attempts from job where model = :model", model=METERED)
        )
        kept = database.read(lambda tx: tx.all("select job_id from kept_result"))
    worker.stop()

    assert "succeeded" == first["state"]
    assert not {"recovery_required", "failed"} & set(states.values())
    assert ["running", "running"] == [states[job_id] for job_id in paid]
    assert ["succeeded"] * 5 == ends
    assert [1, 1, 1] == [row["attempts"] for row in calls]
    assert [] == kept
    assert [] == rescued(worker)


def test_a_paid_result_is_in_a_file_if_the_database_hangs_as_well(outside: Outside) -> None:
    """Before the worker ends, which it does in time; the job can be completed with it (P10, P14)."""
    service = outside.service
    worker = OtherWorker(service)
    until(lambda: "worker.started" in worker.log_path.read_text(), SOON_S, "the worker runs")
    outside.store.stall()
    job_id = service.submit("[fake:sleep=1] Paid.", model=METERED)
    service.wait(job_id, states=("running",))
    database = service.open_database()
    with closing(database):
        until(
            lambda: bool(
                database.read(lambda tx: tx.all("select 1 from attempt where fenced_at is not null"))
            ),
            SOON_S,
            "the call is made",
        )
    outside.database.stall()
    ended(worker.pid)
    [file] = rescued(worker)
    content = file.read_bytes()
    outside.pass_on()

    assert content.startswith(b"RIFF")
    assert "result.kept_aside" in worker.log_path.read_text()


def test_a_paid_chunk_outlives_its_worker_while_the_database_hangs(outside: Outside) -> None:
    """A worker with the same data folder gives it to its job, and it is not paid for again (P10, P14)."""
    service, upstream = outside.service, outside.upstream
    worker = OtherWorker(service, is_kept=True)
    until(lambda: "worker.started" in worker.log_path.read_text(), SOON_S, "the worker runs")
    upstream.faults += ["wait", "hang=900"]
    with service.client() as client:
        job_id = recognise(Caller(client, "", "", service.key), long_recording(11)[0], model=PAID_TRANSCRIPTS)
    until(lambda: len(upstream.asked) == 1, SOON_S, "the first chunk is with the upstream")
    outside.database.stall()
    upstream.answers.set()
    until(lambda: len(upstream.asked) == 2, SOON_S, "the second chunk is, too")
    ended(worker.pid)
    outside.pass_on()
    waits = service.wait(job_id)["state"]
    until(lambda: not rescued(worker), SOON_S, "the worker has taken what the other left")
    service.command("admin", "recover", "requeue", job_id)
    end = service.wait(job_id, timeout_s=GONE_S)["state"]
    worker.stop()

    assert ("recovery_required", "succeeded") == (waits, end)
    assert 3 == len(upstream.asked)


def test_an_api_ends_in_order_while_its_store_hangs(outside: Outside) -> None:
    """A download ends without an answer or with an error (P6, P14)."""
    service = outside.service
    worker = OtherWorker(service)
    until(lambda: "worker.started" in worker.log_path.read_text(), SOON_S, "the worker runs")
    job = service.wait(service.submit("Hold."))
    worker.stop()
    outside.store.stall()
    answers: list[int | str] = []

    def ask(method: str, path: str, content: bytes | None = None) -> None:
        try:
            with service.client() as client:
                answers.append(client.request(method, path, content=content, timeout=GONE_S).status_code)
        except httpx2.TransportError:
            answers.append("none")

    read = f"/v1/artifacts/{job['artifacts'][0]['id']}/content"
    threads = [threading.Thread(target=ask, args=("GET", read))]
    for thread in threads:
        thread.start()
    assert service.process is not None
    service.process.send_signal(signal.SIGTERM)
    code = service.process.wait(GONE_S)
    for thread in threads:
        thread.join(GONE_S)
    outside.pass_on()
    service.start()

    assert 0 == code
    assert 200 not in answers
