"""The campaign's own checks can fail: each fault that they look for is created, and is detected."""

import base64
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from lab.faults import check
from lab.faults.bucket import Bucket
from lab.faults.clients import Client
from lab.faults.inbox import Inbox
from lab.faults.seen import Book, see
from lab.faults.works import CANARY, Media, Work
from msgspec.structs import asdict

from servers.receiver import Message
from servers.seaweedfs import SeaweedServer
from servers.world import METERED, World
from tenuto.db.database import Database
from tenuto.features.s3.s3 import S3Blobs
from tenuto.ids import Ids

BODY = {"model": "fake/speech", "parameters": {"text": CANARY}}


@pytest.fixture
def world(broken_world: World) -> World:
    """Not audited afterwards: what is broken here is broken on purpose."""
    return broken_world


@pytest.fixture
def client() -> Client:
    """A client that has seen nothing yet."""
    return Client("http://127.0.0.1:1", "account", "tn_none", Book(Media((), ())), "seed")


def shown(state: str, attempt: int = 1, **more: Any) -> dict[str, Any]:
    """An operation as a client sees it."""
    artifacts = [{"id": "artifact"}] if state == "succeeded" else []
    return {"state": state, "attempt": attempt, "error": None, "artifacts": artifacts, **more}


def test_a_healthy_world_gives_no_finding(world: World, client: Client) -> None:
    """A job that succeeded, known to its client."""
    claim = world.running()
    world.finish(claim.attempt_id)
    client.works.append(Work("key", BODY, "", job_id=claim.job_id, operation=shown("succeeded"), sha256="0"))
    checks: list[Callable[[Database, list[Client]], Any]] = [check._accepted, check._uploaded, check._events]
    checks += [check._free_waits, check._paid_once, check._lost_often]

    assert [] == [found for each in checks for found in each(world.database, [client])]
    assert [] == list(check._rest(world.database))


def test_a_lost_job_and_a_changed_end_are_found(world: World, client: Client) -> None:
    """An accepted job that is not there, and a final one that is something else by now (P1, P8)."""
    claim = world.running()
    world.finish(claim.attempt_id)
    client.works.append(Work("key", BODY, "", job_id=claim.job_id, operation=shown("failed")))
    client.works.append(Work("other", BODY, "", job_id="job_lost"))
    found = list(check._accepted(world.database, [client]))

    assert ["P8", "P1"] == [line[:2] for line in found]


def test_a_second_job_of_a_key_is_found(world: World, client: Client) -> None:
    """A job that no key stands for (P2)."""
    claim = world.running()
    columns = "account_id, key_id, kind, model, lane, body, parameters, metadata, input_artifact_ids"
    columns += ", rerunnable, hold_micros, price_micros, price_unit, created_at, deadline_at, event_sequence"
    world.run(
        f"insert into job (id, state, {columns}) select 'job_2', 'queued', {columns} from job where id = :id",
        id=claim.job_id,
    )

    assert ["P2"] == [line[:2] for line in check._accepted(world.database, [client])]


def test_a_lost_upload_is_found(world: World, client: Client) -> None:
    """A record that its client was given is missing (P1)."""
    client.uploads["key"] = "artifact_lost"

    assert ["P1"] == [line[:2] for line in check._uploaded(world.database, [client])]


def test_an_event_after_the_end_is_found(world: World, client: Client) -> None:
    """A life that goes on after its end (P8)."""
    claim = world.running()
    world.finish(claim.attempt_id)
    world.run(
        "insert into event (job_id, sequence, type, at) select id, 9, 'running', 0 from job where id = :id",
        id=claim.job_id,
    )

    assert ["P8"] == [line[:2] for line in check._events(world.database, [client])]


def test_a_second_paid_call_is_found(world: World, client: Client) -> None:
    """Two attempts beyond their fence, and no operator who said so (P10)."""
    claim = world.running(METERED)
    world.fence(claim.attempt_id)
    world.run("update attempt set fenced_at = null")
    world.rescue(claim.attempt_id)
    again = world.claim()
    assert again is not None
    world.fence(again.attempt_id)
    world.unknown(again.attempt_id)
    world.run("update attempt set fenced_at = 1")

    assert ["P10"] == [line[:3] for line in check._paid_once(world.database, [client])]


def test_a_free_job_that_waited_for_an_operator_is_found(world: World, client: Client) -> None:
    """Whatever the operator then decided."""
    claim = world.running()
    world.unknown(claim.attempt_id)

    assert [f"P1: {claim.job_id}"] == [
        line.split(" may")[0] for line in check._free_waits(world.database, [client])
    ]


def test_what_does_not_rest_and_what_failed_too_soon_are_found(world: World, client: Client) -> None:
    """A job that still runs, its slot and its attempt; and an end for lost engines of which none was lost."""
    claim = world.running()
    busy = list(check._rest(world.database))
    world.fail(claim.attempt_id, code="engine_crashed")

    assert 3 == len(busy)
    assert [claim.job_id] == [line.split()[0] for line in check._lost_often(world.database, [client])]


def test_bytes_that_a_store_lost_or_changed_are_found(seaweed: SeaweedServer) -> None:
    """Acknowledged through the proxy, and then gone or others behind the service's back (P5, P6)."""
    bucket, ids = Bucket(seaweed), Ids(clock=lambda: 1_700_000_000_000)
    blobs = S3Blobs(bucket.place(bucket.endpoint))
    rows = [asdict(blobs.write(ids.new("blob"), content)) for content in (b"sound", b"lost", b"other")]
    rows = [{**row, "id": row["blob_id"]} for row in rows]
    whole = list(bucket.wrong(rows))
    for row, now in zip(rows[1:], (None, b"0ther"), strict=True):
        blobs.delete(row["id"])
        if now is not None:
            blobs.write(row["id"], now)
    found = list(bucket.wrong(rows))
    bucket.proxy.close()

    assert [] == whole
    assert ["P5", "P6"] == [line[:2] for line in found]


@pytest.mark.parametrize(
    ("looks", "finds"),
    [
        (
            [
                shown("queued", 0),
                shown("running"),
                shown("queued"),
                shown("running", 2),
                shown("succeeded", 2),
            ],
            "",
        ),
        ([shown("running"), shown("queued", 0)], "P8"),
        ([shown("succeeded"), shown("running")], "P8"),
        ([shown("succeeded"), shown("succeeded", note="changed")], "P8"),
        ([shown("failed", error={"code": "engine_failed"})], "ended badly"),
        ([shown("failed", error={"code": "storage_failed"})], "ended badly"),
        ([shown("failed", error={"code": "engine_crashed"})], "ended badly"),
        ([shown("recovery_required")], "ended badly"),
        ([shown("cancelled")], "ended badly"),
        ([shown("succeeded", artifacts=[])], "ended badly"),
    ],
)
def test_looks_that_may_not_be_are_noted(looks: list[dict[str, Any]], finds: str) -> None:
    """Back in its life, another end, an end that nobody caused (P8)."""
    work = Work("key", BODY, "")
    noted = [fault for operation in looks for fault in see(work, operation)]

    assert bool(finds) == bool(noted)
    assert all(fault.startswith(finds) for fault in noted)


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ('{"event": "job.succeeded"}', False),
        ('{"event": "attempt.abandoned"}', True),
        ('{"event": "http.failed status=503 request_id=req"}', False),
        ('{"event": "http.failed status=500 request_id=req"}', True),
        ('{"event": "ASGI callable returned without completing response."}', True),
        ('{"event": "http.failed", "exception": "…"}', True),
        ("Traceback (most recent call last):", True),
        ("Traceback (most recent call last):\n  File\nOSError: [Errno 24] Too many open files: 'x'", False),
        ("Traceback (most recent call last):\n  File\nKeyError: 'x'", True),
        ('Traceback (most recent call last):\n  File\n{"event": "a"}\nOSError: Too many open files', False),
        ('Traceback (most recent call last):\n  File\n{"event": "a"}\n  File\nKeyError', True),
    ],
)
def test_a_defect_in_a_log_is_found(line: str, is_found: bool) -> None:
    """Events that no fault from outside may cause, and tracebacks."""
    assert is_found == bool(list(check._defects(Path("data.log"), line)))


@dataclass
class Letterbox:
    """What a receiver has taken, as a test says."""

    secrets: dict[str, str]
    taken: list[Message]

    def messages(self) -> list[Message]:
        return self.taken


def message(account: str, job_id: str, secret: str, *, number: int = 2, **more: Any) -> Message:
    """That a job succeeded, signed as the specification says."""
    id_ = f"{job_id}_{number}"
    body = json.dumps({"type": "job.succeeded", "data": {"job_id": job_id, **more}}).encode()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = base64.b64encode(hmac.digest(key, f"{id_}.7.".encode() + body, "sha256")).decode()
    headers = {"webhook-id": id_, "webhook-timestamp": "7", "webhook-signature": f"v1,{signed}"}
    return Message(f"/{account}", headers, body)


def test_a_message_that_is_lost_forged_doubled_or_astray_is_found(world: World) -> None:
    """Each end of an informed account's jobs comes under one id, signed, and to nobody else."""
    claims = []
    for _ in range(2):
        claims.append(world.running())
        world.finish(claims[-1].attempt_id)
    one, other = (
        world.row("select a.name from account a join job j on j.account_id = a.id where j.id = :id", id=each)[
            "name"
        ]
        for each in (claims[0].job_id, claims[1].job_id)
    )
    secret, wrong = (f"whsec_{base64.b64encode(each * 24).decode()}" for each in (b"a", b"b"))
    good = message(one, claims[0].job_id, secret)
    found = [
        [line.split(")")[-1][:20] for line in check.informed(world.database, cast(Inbox, Letterbox(*each)))]
        for each in (
            ({one: secret}, [good, good]),
            ({one: secret}, []),
            ({one: secret}, [message(one, claims[0].job_id, wrong)]),
            ({one: secret}, [good, message(one, claims[0].job_id, secret, more=1)]),
            ({one: secret}, [good, message(one, claims[1].job_id, secret)]),
            ({one: secret}, [good, message(one, claims[0].job_id, secret, number=1)]),
        )
    ]

    assert one != other
    assert [] == found[0]
    assert [" has not come, job.s"] == found[1]
    assert [" is not signed by it"] == found[2]
    assert [" came with two bodie"] == found[3]
    assert [[" is no end of this a"]] * 2 == found[4:]
