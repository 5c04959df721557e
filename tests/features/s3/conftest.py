"""Every store of blobs, and a way to damage what it holds: a store added here runs the whole suite."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import obstore
import pytest

from servers.seaweedfs import ACCESS_KEY, REGION, SECRET_KEY, SeaweedServer
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location, client
from tenuto.file.blob import BlobStore
from tenuto.file.directory import DirectoryBlobs

_prefixes = itertools.count(1)


@dataclass(frozen=True)
class Stored:
    """A store under test, and hands on the bytes behind its back."""

    store: BlobStore
    # Replaces the stored bytes of a blob by what the function makes of them; None removes them.
    damage: Callable[[str, Callable[[bytes], bytes | None]], None]


def directory(request: pytest.FixtureRequest, folder: Path) -> Stored:
    """A folder of files."""

    def damage(blob_id: str, change: Callable[[bytes], bytes | None]) -> None:
        place = folder / "blobs" / blob_id[-2:] / blob_id
        changed = change(place.read_bytes())
        if changed is None:
            place.unlink()
        else:
            place.write_bytes(changed)

    return Stored(DirectoryBlobs(folder / "blobs"), damage)


def s3(request: pytest.FixtureRequest, folder: Path) -> Stored:
    """A prefix of a bucket."""
    place: S3Location = request.getfixturevalue("place")
    behind = client(place)

    def damage(blob_id: str, change: Callable[[bytes], bytes | None]) -> None:
        key = f"{blob_id[-2:]}/{blob_id}"
        changed = change(obstore.get(behind, key).bytes().to_bytes())
        if changed is None:
            obstore.delete(behind, key)
        else:
            obstore.put(behind, key, changed)

    return Stored(S3Blobs(place), damage)


@pytest.fixture(scope="session")
def bucket(seaweed: SeaweedServer) -> S3Location:
    """The bucket of the tests, which is there: SeaweedFS makes it at the first write, and of several at once
    it refuses some."""
    place = S3Location(
        bucket="blobs",
        prefix="first",
        endpoint=seaweed.endpoint,
        region=REGION,
        timeout_s=10.0,
        credentials=Credentials(ACCESS_KEY, SECRET_KEY),
    )
    obstore.put(client(place), "made", b"")
    return place


@pytest.fixture
def place(bucket: S3Location) -> S3Location:
    """A prefix of its own in the bucket of the tests."""
    return replace(bucket, prefix=f"test-{next(_prefixes)}")


@pytest.fixture(params=[directory, s3], ids=["directory", "s3"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    """An empty store of each sort."""
    made: Stored = request.param(request, tmp_path)
    return made
