"""The frames of a FLAC as a chain: each says where it begins, so that one that is missing shows.

A decoder fills a gap with silence and says nothing; a file without an MD5 and a length would then be taken
with a hole in it. Pure: knows bytes alone, no decoder.
"""

import re

from tenuto.media.flac import FlacInvalid, frame_head

LONGEST_HEAD_BYTES = 16
_SYNC = re.compile(rb"\xff[\xf8\xf9]")


class FrameChain:
    """Follows a stream of frames, from the first one on, by their heads; `end` samples are accounted for."""

    def __init__(self) -> None:
        self.end = 0
        self._next = 0
        self._rest = b""

    def add(self, content: bytes) -> None:
        """The next bytes of the stream."""
        known = self._rest + content
        at = 0
        while (found := _SYNC.search(known, at)) is not None:
            at = found.start()
            if at + LONGEST_HEAD_BYTES > len(known):
                break
            head = frame_head(known, at)
            # What only looks like a head, within samples, has not just the number that comes next.
            if head is not None and head.number == self._next:
                self.end += head.frames
                self._next = self.end if head.sizes_vary else self._next + 1
            at += 2
        else:
            at = max(at, len(known) - 1)
        self._rest = known[at:]

    def finish(self, frames: int) -> None:
        """All bytes have come, and so many frames were decoded. Raises FlacInvalid when one was missing."""
        self.add(bytes(LONGEST_HEAD_BYTES))
        if self.end != frames:
            raise FlacInvalid("a frame is missing, or stands in the wrong place")
