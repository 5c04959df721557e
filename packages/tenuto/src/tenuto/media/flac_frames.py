"""The frames of a FLAC, found one behind the other by their heads and checksums, without decoding (RFC 9639).

A frame does not say how long it is. It ends where the CRC-16 of all its bytes is zero and another frame's
head begins, or the file ends. Each byte enters one checksum once, so the cost is linear in the size of the
file, whatever it contains. Pure: knows bytes alone, no decoder.
"""

import re

from fastcrc import crc16

from tenuto.media.flac import LONGEST_HEAD_BYTES, FlacInvalid, FrameHead, StreamInfo, agree, frame_head


def _head_pattern(sync: bytes) -> re.Pattern[bytes]:
    """The first four bytes of a head, without the values that the format reserves or forbids."""
    sizes_and_rates = (size << 4 | rate for size in range(1, 16) for rate in range(15))
    layouts = (channels << 4 | bits << 1 for channels in range(11) for bits in range(8) if bits != 3)
    pattern = sync + b"[%b][%b]" % tuple(
        b"".join(re.escape(bytes([value])) for value in values) for values in (sizes_and_rates, layouts)
    )
    return re.compile(pattern, re.DOTALL)


_FIXED, _VARYING = _head_pattern(b"\xff\xf8"), _head_pattern(b"\xff\xf9")


class FrameWalk:
    """Follows a stream of frames from its first byte; raises FlacInvalid as soon as one is out of place."""

    def __init__(self, info: StreamInfo) -> None:
        self.samples = 0
        """Per channel, in the frames that have begun."""
        self._info = info
        self._first: FrameHead | None = None
        self._last: FrameHead | None = None
        self._pattern = _FIXED
        self._next = 0
        self._crc = 0
        """Of the bytes of the current frame that were looked at; zero before the first."""
        self._rest = b""

    def add(self, content: bytes) -> None:
        """The next bytes of the stream."""
        known = self._rest + content
        if self._first is None and len(known) >= LONGEST_HEAD_BYTES:
            self._begin_first(known)
        self._rest = known[self._walk(known, max(0, len(known) - LONGEST_HEAD_BYTES)) :]

    def finish(self) -> int:
        """All bytes have come: how many samples per channel they hold."""
        size, padded = len(self._rest), self._rest + bytes(LONGEST_HEAD_BYTES)
        if self._first is None:
            if not size:
                raise FlacInvalid("it holds no audio")
            self._begin_first(padded)
        self._walk(padded, size)
        # Zeros behind a frame do not change a checksum of zero, and no frame ends with so many.
        if self._crc != 0 or self._rest == bytes(LONGEST_HEAD_BYTES):
            raise FlacInvalid("a frame is damaged or cut off, or something stands behind it")
        return self.samples

    def _begin_first(self, known: bytes) -> None:
        head = frame_head(known, 0)
        if head is None:
            raise FlacInvalid("no frame follows its metadata")
        self._first = head
        if head.sizes_vary:
            self._pattern = _VARYING

    def _walk(self, known: bytes, end: int) -> int:
        """Look at all bytes before `end`, which lies a head's length or more before the end of `known`."""
        if self._first is None:
            return 0
        at = 0
        for match in self._pattern.finditer(known):
            start = match.start()
            if start >= end:
                break
            self._crc = crc16.umts(known[at:start], self._crc)
            at = start
            if self._crc == 0:
                self._begin(known, start)
        self._crc = crc16.umts(known[at:end], self._crc)
        return end

    def _begin(self, known: bytes, at: int) -> None:
        """A frame may begin here: all that came since the last head has the checksum of a whole frame."""
        head, first, last = frame_head(known, at), self._first, self._last
        assert first is not None
        if head is None:
            return
        if head.number != self._next:
            # By chance samples may look like this, but hardly so and also like the frames of this file.
            if head.frames == first.frames and agree(head, self._info) is None:
                raise FlacInvalid("a frame is missing, or stands in the wrong place")
            return
        fault = agree(head, self._info)
        if fault is not None:
            raise FlacInvalid(fault)
        if last is not None and not head.sizes_vary and last.frames != first.frames:
            raise FlacInvalid("a frame before the last has another size than the first")
        self.samples += head.frames
        self._last = head
        self._next = self.samples if head.sizes_vary else self._next + 1
