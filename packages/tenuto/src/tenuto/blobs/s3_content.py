"""What goes up to an S3-compatible store, summed up as it passes: our checksums, and the tag it is to get.

Most stores give an object the MD5 of its bytes as its entity tag, or one made of the MD5 of each part:
https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html. Where they encrypt with keys of their own
they do not: a tag that is another proves nothing, and one that is the same that the bytes arrived.
"""

import hashlib
from collections.abc import Iterable, Iterator

from tenuto.blobs.blob import BlobRecord, Checksums, pieces

PART_BYTES = 8 << 20
"""The size of each part but the last; what is not larger goes up as it is. S3 takes 10,000 parts."""


class Content:
    """An iterator of chunks that can be asked, at its end, what they were."""

    def __init__(self, content: bytes | Iterable[bytes]) -> None:
        self._pieces = pieces(content)
        self._checksums = Checksums()
        self._size_bytes = 0
        self._parts: list[hashlib._Hash] = []
        self.is_over = False
        self.error: BaseException | None = None
        """What the giver of the chunks raised."""

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return self

    def __next__(self) -> bytes | memoryview:
        try:
            chunk = next(self._pieces)
        except StopIteration:
            self.is_over = True
            raise
        except BaseException as error:
            self.error = error
            raise
        self._checksums.add(chunk)
        self._add(chunk)
        return chunk

    def record(self, blob_id: str) -> BlobRecord:
        """The record of all that has passed."""
        assert self.is_over
        return self._checksums.record(blob_id)

    def has_tag(self, tag: str | None) -> bool:
        """Whether the store's tag is that of these bytes."""
        digests = [part.digest() for part in self._parts]
        if len(digests) > 1:
            whole = hashlib.md5(b"".join(digests), usedforsecurity=False)
            return tag == f'"{whole.hexdigest()}-{len(digests)}"'
        alone = digests[0] if digests else hashlib.md5(usedforsecurity=False).digest()
        return tag == f'"{alone.hex()}"'

    def _add(self, chunk: bytes | memoryview) -> None:
        view = memoryview(chunk)
        while view:
            filled = self._size_bytes % PART_BYTES
            if not filled:
                self._parts.append(hashlib.md5(usedforsecurity=False))
            piece = view[: PART_BYTES - filled]
            self._parts[-1].update(piece)
            self._size_bytes += len(piece)
            view = view[len(piece) :]
