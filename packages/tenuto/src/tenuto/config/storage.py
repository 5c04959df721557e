"""The setting `blobs`: the data folder, or a bucket of an S3-compatible store. Knows no store."""

import re

from msgspec import Struct

DIRECTORY = "directory"
WHAT = "directory, or s3://BUCKET or s3://BUCKET/PREFIX; keys are read from AWS_ACCESS_KEY_ID and its like"
_SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]\Z")
_PREFIX = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*\Z")


class Bucket(Struct, frozen=True):
    """A bucket and our prefix in it, which may be empty."""

    name: str
    prefix: str


def bucket_of(blobs: str) -> Bucket | None:
    """The bucket that the setting names; None for the data folder. ValueError says what is allowed."""
    if blobs == DIRECTORY:
        return None
    name, _, prefix = blobs.removeprefix(_SCHEME).partition("/")
    if not blobs.startswith(_SCHEME) or not _BUCKET.match(name) or (prefix and not _PREFIX.match(prefix)):
        raise ValueError(f"write {WHAT}")
    return Bucket(name, prefix)


def is_location(blobs: str) -> bool:
    """Whether `bucket_of` can read it."""
    try:
        bucket_of(blobs)
    except ValueError:
        return False
    return True
