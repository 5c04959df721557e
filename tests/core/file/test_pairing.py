"""A database and its store of bytes get one id, whoever starts first and however many start at once."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servers.seaweedfs import ACCESS_KEY, REGION, SECRET_KEY, SeaweedServer
from tenuto.db.database import Database
from tenuto.errors import BucketMissing, OperatorError, StorageFailed
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location
from tenuto.file import pairing
from tenuto.file.directory import DirectoryBlobs
from tenuto.ids import Ids

IDS = Ids(lambda: 1_800_000_000_000)


class Overtaken(DirectoryBlobs):
    """A store into which another process, having paired it, writes just before it is listed."""

    def __init__(self, root: Path, database: Database) -> None:
        super().__init__(root)
        self._database = database

    def ids(self, older_than_ms: int) -> Iterator[str]:
        other = DirectoryBlobs(self._root)
        pairing.pair(self._database, other, IDS, place="there", now_ms=1)
        other.write(IDS.new("blob"), b"a voice that has no row yet")
        yield from super().ids(older_than_ms)


def test_bytes_of_a_process_that_was_quicker_are_not_strange(database: Database, tmp_path: Path) -> None:
    """Of two first starts the slower one finds bytes that no row names yet, and the id that explains them."""
    pairing.pair(database, Overtaken(tmp_path / "blobs", database), IDS, place="here", now_ms=1)

    pairing.check(database, DirectoryBlobs(tmp_path / "blobs"), place="here")


def test_bytes_written_since_a_start_whose_store_was_away_are_its_own(
    database: Database, tmp_path: Path
) -> None:
    """A store that answers late finds the voices of this process, whose rows are not there yet; bytes from
    before its start are another database's all the same.
    """
    blobs = DirectoryBlobs(tmp_path / "blobs")
    blobs.write(IDS.new("blob"), b"a voice that has no row yet")
    now_ms = time.time_ns() // 1_000_000
    with pytest.raises(OperatorError, match="bytes of another database"):
        pairing.pair(database, blobs, IDS, place="here", now_ms=1, before_ms=now_ms + 1000)
    pairing.pair(database, blobs, IDS, place="here", now_ms=1, before_ms=now_ms - 60_000)

    pairing.check(database, blobs, place="here")


def test_a_bucket_that_the_store_makes_when_it_is_needed_is_paired_by_the_first_starts(
    database: Database, seaweed: SeaweedServer
) -> None:
    """Otherwise each of them waits for it in vain, then makes it by writing voices, which are another
    database's bytes to the one beside it. Of several first writes at once SeaweedFS refuses some.
    """
    location = S3Location(
        bucket=f"made-late-{time.time_ns()}",
        prefix="tenuto",
        endpoint=seaweed.endpoint,
        region=REGION,
        timeout_s=10.0,
        credentials=Credentials(ACCESS_KEY, SECRET_KEY),
    )

    def start() -> bool:
        try:
            pairing.pair(database, S3Blobs(location), IDS, place="there", now_ms=1)
        except StorageFailed:
            return False
        return True

    with pytest.raises(BucketMissing):
        next(S3Blobs(location).ids(pairing.ANY_AGE_MS), None)
    with ThreadPoolExecutor(4) as pool:
        paired = [each.result() for each in [pool.submit(start) for _ in range(4)]]

    assert any(paired)
    assert start()
