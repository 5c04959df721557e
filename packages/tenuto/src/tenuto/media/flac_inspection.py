"""What a FLAC contains, known from its metadata, the heads of its frames and their checksums.

Nothing is decoded. Bytes come in as they arrive; memory stays the same however many there are. What only
decoding reveals (samples that do not match the MD5 of the head, a frame whose coding is wrong) is not known
here. Pure.
"""

from tenuto.media import flac
from tenuto.media.flac import FlacInvalid, FlacSummary, StreamInfo
from tenuto.media.flac_frames import FrameWalk


class Inspection:
    """Reads one file from its first byte to its last; `finish` says what it contains or why it is refused."""

    def __init__(self) -> None:
        self._metadata = flac.Metadata()
        self._info: StreamInfo | None = None
        self._walk: FrameWalk | None = None
        self._refusal: FlacInvalid | None = None
        """The first one; what comes behind it is not looked at."""

    def add(self, content: bytes) -> None:
        """The next bytes."""
        if self._refusal is None:
            try:
                self._inspect(content)
            except FlacInvalid as error:
                self._refusal = error

    def finish(self) -> FlacSummary:
        """What the whole file contains. Raises FlacInvalid."""
        if self._refusal is not None:
            raise self._refusal
        if self._walk is None or self._info is None:
            self._metadata.refuse_end()
        info, frames = self._info, self._walk.finish()
        flac.check_length(info, frames)
        if info.total_frames not in (0, frames):
            raise FlacInvalid(f"its head promises {info.total_frames} samples, but there are {frames}")
        return FlacSummary(info.sample_rate, info.channels, frames)

    def _inspect(self, content: bytes) -> None:
        if self._walk is None:
            rest = self._metadata.add(content)
            if rest is None:
                return
            self._info = self._metadata.stream_info()
            flac.check_length(self._info, self._info.total_frames)
            self._walk, content = FrameWalk(self._info), rest
        assert self._info is not None
        self._walk.add(content)
        flac.check_length(self._info, self._walk.samples)
