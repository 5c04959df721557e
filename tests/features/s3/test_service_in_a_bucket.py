"""The whole service on PostgreSQL and an S3 server: bytes go and come whole, and an outage loses nothing."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from servers import recordings
from servers.callers import Caller, Operator
from servers.postgres import PostgresServer
from servers.proxy import Proxy
from servers.seaweedfs import SECRET_KEY, SeaweedServer
from servers.service import RunningService
from tenuto.features.s3.s3 import PART_BYTES

WAIT_S = 120.0


@pytest.fixture(scope="module")
def link(seaweed: SeaweedServer) -> Iterator[Proxy]:
    """What the service reaches the store through."""
    made = Proxy(("127.0.0.1", seaweed.port))
    yield made
    made.close()


@pytest.fixture(scope="module")
def in_bucket(
    postgres_server: PostgresServer,
    seaweed: SeaweedServer,
    link: Proxy,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningService]:
    """`tenuto serve` on an empty database and an empty prefix."""
    postgres_server.run("create database in_a_bucket")
    settings = {
        "TENUTO_BLOBS": "s3://service/of-the-tests",
        "TENUTO_S3_ENDPOINT": f"http://127.0.0.1:{link.port}",
        "TENUTO_S3_TIMEOUT_S": "1",
    }
    running = RunningService(
        tmp_path_factory.mktemp("bucket") / "data",
        postgres_server.url("in_a_bucket"),
        variables=settings | seaweed.variables,
    )
    running.start()
    running.key = running.make_key(credit="1000")
    yield running
    running.stop()


@pytest.fixture
def caller(in_bucket: RunningService) -> Iterator[Caller]:
    """Somebody with credit."""
    operator = Operator(in_bucket)
    yield operator.caller(credit="1000")
    operator.close()


def noise(size_bytes: int) -> bytes:
    """A FLAC at least so large: what has no pattern cannot be made smaller."""
    samples = np.random.default_rng(8).integers(-(1 << 15), 1 << 15, size_bytes // 2, np.int16)
    return recordings.encoded(samples)


def logged(service: RunningService, event: str) -> None:
    """Waits until the service has said so once more."""
    before, until = service.log_path.read_text().count(event), time.monotonic() + WAIT_S
    while service.log_path.read_text().count(event) == before:
        assert time.monotonic() < until, event
        time.sleep(0.02)


def test_bytes_go_into_the_bucket_and_come_back(in_bucket: RunningService, caller: Caller) -> None:
    """Speech, an upload in parts and its recognition: what is read is what is recorded (P5, P6)."""
    large = noise(PART_BYTES + (1 << 20))

    spoken = caller.wait(caller.submit("Hold the note for its full value."))
    uploaded = recordings.upload(caller, large)
    heard = caller.wait(recordings.recognise(caller))

    assert ("succeeded", "succeeded") == (spoken["state"], heard["state"])
    assert large == caller.get(f"/v1/artifacts/{uploaded}/content").content
    part = caller.get(f"/v1/artifacts/{uploaded}/content", {"Range": "bytes=1048570-1048581"})
    assert (206, large[1048570:1048582]) == (part.status_code, part.content)
    for artifact in (*spoken["artifacts"], *heard["artifacts"]):
        content = caller.get(f"/v1/artifacts/{artifact['id']}/content").content
        assert artifact["sha256"] == hashlib.sha256(content).hexdigest()
    assert not (in_bucket.folder / "blobs").exists()


def test_the_doctor_says_what_a_bucket_lacks(in_bucket: RunningService) -> None:
    """Wrong keys are told in a line with its remedy, and without their secret (P16)."""
    wrong = replace(
        in_bucket, variables={**in_bucket.variables, "AWS_SECRET_ACCESS_KEY": "not-" + SECRET_KEY}
    )

    told = wrong.command("admin", "doctor", check=False)

    assert told.returncode != 0
    assert "FAIL  blobs: s3://service/of-the-tests: a blob could not be written" in told.stdout
    assert SECRET_KEY not in told.stdout + told.stderr


def test_an_outage_of_the_store_loses_nothing(in_bucket: RunningService, caller: Caller, link: Proxy) -> None:
    """Uploads and downloads are told 503; jobs wait with what they have, and end once (P1, P3)."""
    artifact = caller.wait(caller.submit("Before."))["artifacts"][0]
    where = f"/v1/artifacts/{artifact['id']}/content"
    known = recordings.upload(caller)
    slow = caller.submit("[fake:sleep=1] In between.")
    link.refuse()
    link.cut()

    refused = recordings.post(caller, recordings.recording())
    unread = caller.get(where)
    heard = caller.post_job(recordings.body(known))
    logged(in_bucket, "blob.not_stored")
    logged(in_bucket, "store.away")
    audit = in_bucket.command("admin", "audit", "--deep", check=False)
    waiting = [caller.read(job_id)["state"] for job_id in (slow, heard.json()["id"])]
    link.pass_on()

    assert (503, 503, 202) == (refused.status_code, unread.status_code, heard.status_code)
    assert refused.headers["retry-after"].isdigit()
    assert ["running", "running"] == waiting
    assert 1 == audit.returncode
    assert "the store does not answer" in audit.stderr.splitlines()[-1]
    ended = [caller.wait(job_id) for job_id in (slow, heard.json()["id"])]
    assert [("succeeded", 1), ("succeeded", 1)] == [(job["state"], job["attempt"]) for job in ended]
    assert artifact["sha256"] == hashlib.sha256(caller.get(where).content).hexdigest()
    assert 0 == in_bucket.command("admin", "audit", "--deep").returncode
    log = in_bucket.log_path.read_text()
    assert '"reason": "the store does not answer: Connection re' in log
    assert SECRET_KEY not in log
