"""Bytes of two sizes for an object store, and a look at what lies in one."""

import os
from collections.abc import Iterator

import obstore

from tenuto.features.s3.s3 import PART_BYTES, S3Blobs
from tenuto.features.s3.s3_client import S3Location, client
from tenuto.file.blob import BLOCK_BYTES

SMALL = os.urandom(3 * BLOCK_BYTES + 17)
LARGE = os.urandom(2 * PART_BYTES + 12345)
"""Two whole parts and a short third."""


def chunks(content: bytes, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def left(place: S3Location) -> tuple[list[str], int]:
    """What lies under the prefix, and how many uploads were begun there and neither completed nor ended."""
    names = [found["path"] for page in obstore.list(client(place)) for found in page]
    return names, S3Blobs(place).unfinished()
