"""A store that wants the bucket as the first label of its host's name, and a prefix of several parts.

The address 127.0.0.1 is such a name, too: of the bucket `127` in the domain `0.0.1`. So nothing need resolve.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import obstore
import pytest

from features.s3.bodies import LARGE, chunks, left
from servers.seaweedfs import ACCESS_KEY, REGION, SECRET_KEY, SeaweedServer, start_seaweedfs
from tenuto.errors import ArtifactUnavailable, StorageFailed
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location, client

FOREVER_MS = 10**14


@pytest.fixture
def named() -> Iterator[SeaweedServer]:
    """A server that takes the bucket from the host's name."""
    server = start_seaweedfs("-s3.domainName=0.0.1")
    yield server
    server.stop()


def test_the_bucket_is_in_the_name_of_the_host(named: SeaweedServer, new_id: Callable[[], str]) -> None:
    """Writing in parts, reading, the one write of an id, what a killed write has left, the list for the
    sweep, removing: all of it below the prefix, and in that bucket (P5, P7).
    """
    place = S3Location(
        bucket="127",
        prefix="production/of/tenuto",
        endpoint=named.endpoint,
        region=REGION,
        addressing="virtual",
        timeout_s=10.0,
        credentials=Credentials(ACCESS_KEY, SECRET_KEY),
    )
    blobs, blob_id, killed = S3Blobs(place), new_id(), new_id()
    whole = client(replace(place, prefix=""))
    obstore.put(whole, f"production/of/{new_id()}", b"a neighbour's")

    record = blobs.write(blob_id, chunks(LARGE))
    obstore.put(client(place), f"{killed[-2:]}/{killed}.tmp", b"")
    before = sorted(found["path"] for page in obstore.list(whole) for found in page)
    ids = sorted(blobs.ids(FOREVER_MS))
    content = blobs.read_all(record)
    with pytest.raises(StorageFailed, match="one write"):
        blobs.write(blob_id, chunks(LARGE[::-1]))
    blobs.delete(killed)
    blobs.delete(blob_id)

    assert LARGE == content
    assert sorted([blob_id, killed]) == ids
    assert f"production/of/tenuto/{blob_id[-2:]}/{blob_id}" in before
    assert 3 == len(before)
    assert ([], 0) == left(place)
    with pytest.raises(ArtifactUnavailable):
        blobs.read_all(record)
