"""A database and a bucket get one id, however many start at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from servers.seaweedfs import ACCESS_KEY, REGION, SECRET_KEY, SeaweedServer
from tenuto.db.database import Database
from tenuto.errors import BucketMissing, StorageFailed
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location
from tenuto.file import pairing
from tenuto.ids import Ids

IDS = Ids(lambda: 1_800_000_000_000)


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
