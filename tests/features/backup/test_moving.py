"""A service moves to the other database and into a bucket, and back, as `docs/operations/moving.md` says."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import obstore
import pytest

from features.backup.conftest import MakeService, Origin
from features.backup.test_backup import OTHER, everything, told_last
from servers import checker
from servers.seaweedfs import ACCESS_KEY, SECRET_KEY, SeaweedServer
from servers.service import RunningService
from tenuto.db import schema
from tenuto.features.s3.s3_client import Credentials, S3Location, client
from tenuto.file import store

_numbers = itertools.count(1)

Put = Callable[[str, bytes], None]

# The way to the other database and back is one over both.
pytestmark = pytest.mark.parametrize("origin", ["sqlite"], indirect=True)


@pytest.fixture
def bucket(seaweed: SeaweedServer) -> tuple[dict[str, str], Put]:
    """The settings of an empty prefix of a bucket, and a function that puts an object below it."""
    place = S3Location(
        bucket="moved",
        prefix=f"place-{next(_numbers)}",
        endpoint=seaweed.endpoint,
        credentials=Credentials(ACCESS_KEY, SECRET_KEY),
    )
    behind = client(place)
    # The bucket is made by the first object in it.
    obstore.put(behind, "made", b"")
    variables = {
        "TENUTO_BLOBS": f"s3://{place.bucket}/{place.prefix}",
        "TENUTO_S3_ENDPOINT": seaweed.endpoint,
    }
    return variables | seaweed.variables, lambda key, content: obstore.put(behind, key, content) and None


def test_a_service_moves_into_a_bucket_and_back(
    origin: Origin, make_place: MakeService, bucket: tuple[dict[str, str], Put], tmp_path: Path
) -> None:
    """All rows, bytes, money and what waits for an operator are there, either way (P21)."""
    here = "postgresql" if origin.place.database_url else "sqlite"
    there, back = make_place(OTHER[here], **bucket[0]), make_place(here)
    there.key = back.key = origin.place.key

    there.command("admin", "restore", str(origin.kept))
    arrived, audit = everything(there), there.command("admin", "audit", "--deep")
    there.start()
    newest = there.wait(there.submit("And on."))
    results_there = results(there)
    there.stop()
    there.command("admin", "backup", str(tmp_path / "kept"))
    back.command("admin", "restore", str(tmp_path / "kept"))
    came_back, audit_back = everything(back), back.command("admin", "audit", "--deep")
    back.start()
    results_back = results(back)
    back.stop()

    assert everything(origin.place) == arrived
    assert everything(there) == came_back
    assert all("agrees with the ledger" in done.stdout for done in (audit, audit_back))
    assert "fake/metered-speech" in back.command("admin", "recover", "list").stdout
    assert "succeeded" == newest["state"]
    assert results_there == results_back
    assert 4 == len(results_back["contents"])
    assert 3 == len({store_id(place) for place in (origin.place, there, back)} - {None})


@pytest.mark.parametrize("key", ["v2/blob_01m80pvn5r1f38djbjeemsc8v2", "store.json"])
def test_nothing_is_restored_among_the_bytes_of_another_service(
    origin: Origin, make_place: MakeService, bucket: tuple[dict[str, str], Put], key: str
) -> None:
    """The refusal leaves the folder and the database empty (P21)."""
    variables, put = bucket
    put(key, b'{"store_id": "store_01m80pvn5r1f38djbjeemsc8v2"}')
    dialect = "sqlite" if origin.place.database_url else "postgresql"
    other = make_place(dialect, **variables)
    refused = other.command("admin", "restore", str(origin.kept), check=False)
    left = list(other.folder.iterdir())
    database = checker.open_records(other)
    tables = database.read(lambda tx: schema.tables(tx, database.dialect))
    database.close()

    assert 1 == refused.returncode
    assert "the store of bytes is not empty" in told_last(refused)
    assert ([], []) == (left, tables)


def results(place: RunningService) -> dict[str, Any]:
    """What its callers read: every operation, and the bytes of every artifact."""
    authorized = {"Authorization": f"Bearer {place.key}"}
    with httpx2.Client(base_url=place.url, headers=authorized, timeout=120) as http:
        jobs = http.get("/v1/jobs?limit=100").json()["data"]
        artifacts = [artifact["id"] for job in jobs for artifact in job["artifacts"]]
        contents = {each: http.get(f"/v1/artifacts/{each}/content").content for each in artifacts}
        balance = http.get("/v1/account/balance").json()
    return {"jobs": jobs, "contents": contents, "balance": balance}


def store_id(place: RunningService) -> str | None:
    database = checker.open_records(place)
    try:
        return database.read(store.paired)
    finally:
        database.close()
