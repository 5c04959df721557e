"""Blobs in a bucket: bodies in parts, what killed writes leave, memory, and a certificate of one's own."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import obstore
import pytest

from features.s3.bodies import LARGE, SMALL, chunks, left
from servers.seaweedfs import SeaweedServer
from tenuto.db.database import Database
from tenuto.errors import (
    ArtifactUnavailable,
    BucketMissing,
    StorageFailed,
    StoreUnreachable,
)
from tenuto.features.s3.s3 import PART_BYTES, Content, S3Blobs
from tenuto.features.s3.s3_client import S3Location, client
from tenuto.file import pairing
from tenuto.file.blob import BlobRecord
from tenuto.ids import Ids

NewId = Callable[[], str]
FOREVER_MS = 10**14
TIMEOUT_S = 1.5

# Writes what never ends, says so when two parts are on their way, and waits to be killed.
ENDLESS = """
import os, sys
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import S3Location, credentials_from
def content():
    for _ in range(24):
        yield os.urandom(1 << 20)
    print("writing", flush=True)
    sys.stdin.read()
place = S3Location(bucket=sys.argv[1], prefix=sys.argv[2], endpoint=sys.argv[3],
                credentials=credentials_from(os.environ))
S3Blobs(place).write(sys.argv[4], content())
"""


def test_a_large_body_goes_up_in_parts(place: S3Location, new_id: NewId) -> None:
    """Its checksums are ours, its tag is the one that we expect of its parts, and no reservation is left."""
    blobs, blob_id = S3Blobs(place), new_id()

    record = blobs.write(blob_id, chunks(LARGE, 700_001))

    passing = Content(LARGE)
    for _ in passing:
        pass
    assert hashlib.sha256(LARGE).hexdigest() == record.sha256
    assert passing.has_tag(obstore.head(client(place), f"{blob_id[-2:]}/{blob_id}")["e_tag"])
    assert LARGE == blobs.read_all(record)
    assert LARGE[PART_BYTES - 5 : PART_BYTES + 5] == b"".join(
        blobs.read(record, PART_BYTES - 5, PART_BYTES + 5)
    )
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


def test_a_large_body_that_breaks_off_leaves_nothing(place: S3Location, new_id: NewId) -> None:
    """Parts were on their way when the caller went: no object, no reservation, no upload; the id is free."""

    def broken() -> Iterator[bytes]:
        yield from chunks(LARGE)
        raise ConnectionResetError("the caller went away")

    blobs, blob_id = S3Blobs(place), new_id()

    with pytest.raises(ConnectionResetError):
        blobs.write(blob_id, broken())

    assert ([], 0) == left(place)
    assert LARGE == blobs.read_all(blobs.write(blob_id, chunks(LARGE)))


def test_of_two_large_writes_at_once_one_wins(place: S3Location, new_id: NewId) -> None:
    """While one sends its parts, another machine's write of the same id fails, and so it does after (P7)."""
    blob_id, failed = new_id(), []

    def other() -> BaseException | None:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(S3Blobs(place).write, blob_id, chunks(LARGE[::-1])).exception()

    def content() -> Iterator[bytes]:
        yield from chunks(LARGE)
        failed.append(other())

    record = S3Blobs(place).write(blob_id, content())
    failed.append(other())

    assert [StorageFailed, StorageFailed] == [type(error) for error in failed]
    assert LARGE == S3Blobs(place).read_all(record)
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


def test_a_killed_writer_leaves_what_the_sweep_finds(
    place: S3Location, seaweed: SeaweedServer, new_id: NewId
) -> None:
    """Nothing of it can be read; its id is listed, and deleting it ends the upload, which costs money."""
    blob_id = new_id()
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, place.bucket, place.prefix, seaweed.endpoint, blob_id],
        env=os.environ | seaweed.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    blobs = S3Blobs(place)

    assert ([f"{blob_id[-2:]}/{blob_id}.tmp"], 1) == left(place)
    assert [blob_id] == list(blobs.ids(FOREVER_MS))
    with pytest.raises(ArtifactUnavailable):
        blobs.read_all(BlobRecord(blob_id, 1, "", "00000000"))
    with pytest.raises(StorageFailed, match="one write"):
        blobs.write(blob_id, chunks(LARGE))
    blobs.delete(blob_id)
    blobs.delete(blob_id)
    assert ([], 0) == left(place)


def test_a_bucket_that_is_not_there_is_no_missing_blob(place: S3Location, new_id: NewId) -> None:
    """A wrong setting does not look as if the bytes were lost."""
    record = S3Blobs(place).write(new_id(), SMALL)

    with pytest.raises(StoreUnreachable, match="says NoSuchBucket"):
        S3Blobs(replace(place, bucket="no-such-bucket")).read_all(record)


def test_a_store_of_an_authority_of_its_own(place: S3Location, seaweed: SeaweedServer, new_id: NewId) -> None:
    """TLS: with the authority's certificate all requests work, without it none is sent (`s3_ca_file`)."""
    if seaweed.ca is None:
        pytest.skip("making a certificate needs openssl")
    stranger = replace(place, endpoint=f"https://127.0.0.1:{seaweed.https_port}", timeout_s=TIMEOUT_S)
    trusted = S3Blobs(replace(stranger, ca_certificates=seaweed.ca, timeout_s=place.timeout_s))

    record = trusted.write(new_id(), chunks(LARGE))

    assert LARGE == trusted.read_all(record)
    assert 0 == trusted.unfinished()
    with pytest.raises(StoreUnreachable, match=r"shows a certificate that is not trusted \(UnknownIssuer\)"):
        S3Blobs(stranger).read_all(record)
    with pytest.raises(StoreUnreachable):
        S3Blobs(stranger).unfinished()


def test_reading_ahead_holds_no_more_than_it_may(place: S3Location, new_id: NewId) -> None:
    """Readers that stop in the middle leave room for the next, and one that finds none reads all the same."""
    blobs = S3Blobs(place)
    record = blobs.write(new_id(), LARGE)
    stopped = [blobs.read(record) for _ in range(40)]
    for reader in stopped:
        next(reader)

    assert LARGE == blobs.read_all(record)
    for reader in stopped:
        reader.close()  # type: ignore[attr-defined]  # a generator
    with ThreadPoolExecutor(4) as threads:
        assert [LARGE] * 4 == list(threads.map(blobs.read_all, [record] * 4))


def test_a_bucket_that_the_store_makes_when_it_is_needed_is_paired_by_the_first_starts(
    database: Database, place: S3Location
) -> None:
    """Otherwise each of them waits for it in vain, then makes it by writing voices, which are another
    database's bytes to the one beside it. Of several first writes at once SeaweedFS refuses some.
    """
    location = replace(place, bucket=f"made-late-{time.time_ns()}")

    def start() -> bool:
        try:
            pairing.pair(database, S3Blobs(location), Ids(lambda: 1), place="there", now_ms=1)
        except StorageFailed:
            return False
        return True

    with pytest.raises(BucketMissing):
        next(S3Blobs(location).ids(pairing.ANY_AGE_MS), None)
    with ThreadPoolExecutor(4) as pool:
        paired = [each.result() for each in [pool.submit(start) for _ in range(4)]]

    assert any(paired)
    assert start()
