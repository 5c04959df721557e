"""FLAC as bytes: a file's metadata, its frames and their checksums, read strictly and not decoded (RFC 9639).

`Inspection` counts the samples of a file from its bytes as they arrive. A header may lie, so nothing it says
is used before it has been compared with the frames. What only decoding reveals (samples that do not match the
MD5 in the header, a frame whose coding is wrong) is not known here. Pure: knows neither files nor processes.
"""

import re
from typing import NoReturn

from fastcrc import crc8, crc16
from msgspec import Struct

MAX_DURATION_S = 7200
READABLE = "WAV, MP3, FLAC, Ogg (Opus, Vorbis), AIFF, AU and CAF"
"""The formats that `to_flac` reads, for people."""
MAX_CHANNELS = 8
MAX_SAMPLES = MAX_DURATION_S * 192_000 * 2
"""Of all channels together: two hours of stereo at 192 kHz. More is treated as a
decompression bomb: a few bytes that take minutes."""
DECODED_BITS = (8, 16, 24)
"""The sample sizes that the decoder reads."""
MARKER = b"fLaC"
STREAMINFO_BYTES = 34
MAX_BLOCKS = 1024
"""Files have a handful of metadata blocks; more are an attempt to waste time."""

_LONGEST_HEAD_BYTES = 16
"""The longest header of a frame."""
_TOTAL_BITS = 36
_FORBIDDEN_BLOCK = 127
# Of frames with fixed and with varying block sizes.
_SYNCS = (b"\xff\xf8", b"\xff\xf9")
# Codes in a frame's header.
_SIZES = {1: 192} | {n: 576 << (n - 2) for n in range(2, 6)} | {n: 256 << (n - 8) for n in range(8, 16)}
_SIZE_BYTES = {6: 1, 7: 2}
_RATES = dict(
    enumerate((88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000), 1)
)
_RATE_BYTES = {12: 1, 13: 2, 14: 2}
_RATE_UNITS = {12: 1000, 13: 1, 14: 10}
_MORE_BYTES = [0] * 0x80 + [-1] * 0x40 + [1] * 0x20 + [2] * 0x10 + [3] * 8 + [4] * 4 + [5, 5, 6, -1]
"""How many bytes follow the first one of a coded number; -1: none begins with it."""
_BITS = {1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}


class FlacInvalid(ValueError):
    """The bytes are not an acceptable FLAC; the message says why."""


class FlacSummary(Struct, frozen=True):
    """What a file contains, whatever its header says."""

    sample_rate: int
    channels: int
    frames: int
    """Samples per channel."""

    @property
    def duration_ms(self) -> int:
        """Rounded up: what is charged for."""
        return -(-self.frames * 1000 // self.sample_rate)


class StreamInfo(Struct, frozen=True):
    """The stream as its header describes it; only rate, channels and bits are needed to decode it."""

    sample_rate: int
    channels: int
    bits_per_sample: int
    total_frames: int
    """Samples per channel; 0 if unknown."""
    md5: bytes
    """The MD5 of the samples; zeros if unknown."""


class _FrameHead(Struct, frozen=True):
    """The header of one frame. None: the value is in STREAMINFO."""

    number: int
    """The number of its first sample if block sizes vary, else of the frame."""
    sizes_vary: bool
    frames: int
    sample_rate: int | None
    channels: int
    bits_per_sample: int | None


class Inspection:
    """Reads one file from its first byte to its last, without decoding it and in constant memory.
    `finish` returns what it contains or raises the reason for refusing it.
    """

    def __init__(self) -> None:
        self._metadata = Metadata()
        self._info: StreamInfo | None = None
        self._walk: _FrameWalk | None = None
        self._refusal: FlacInvalid | None = None
        """The first one; what comes after it is not looked at."""

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
        check_length(info, frames)
        if info.total_frames not in (0, frames):
            raise FlacInvalid(f"its head promises {info.total_frames} samples, but there are {frames}")
        return FlacSummary(info.sample_rate, info.channels, frames)

    def _inspect(self, content: bytes) -> None:
        if self._walk is None:
            rest = self._metadata.add(content)
            if rest is None:
                return
            self._info = self._metadata.stream_info()
            check_length(self._info, self._info.total_frames)
            self._walk, content = _FrameWalk(self._info), rest
        assert self._info is not None
        self._walk.add(content)
        check_length(self._info, self._walk.samples)


class Metadata:
    """The blocks before the first frame, read as they arrive; all but STREAMINFO are skipped."""

    def __init__(self) -> None:
        self.stream_info_bytes = b""
        self._rest = b""
        self._is_marked = self._is_last = False
        self._blocks = 0
        self._passing_bytes = 0
        """How many bytes of the current block are still to come."""

    def add(self, content: bytes) -> bytes | None:
        """Read the next bytes; returns those after the last block once it is complete. Raises FlacInvalid."""
        known = self._rest + content
        at = self._marker(known)
        while at is not None:
            passed = min(self._passing_bytes, len(known) - at)
            at, self._passing_bytes = at + passed, self._passing_bytes - passed
            self._rest = b""
            if self._passing_bytes:
                break
            if self._is_last:
                return known[at:]
            begun = self._block(known, at)
            if begun is None:
                self._rest = known[at:]
            at = begun
        return None

    def refuse_end(self) -> NoReturn:
        """Raise FlacInvalid: the file ends here, before its first frame."""
        if not self._is_marked:
            raise FlacInvalid("it does not begin as a FLAC file does")
        raise FlacInvalid("it is cut off in its metadata")

    def stream_info(self) -> StreamInfo:
        """The content of STREAMINFO. Raises FlacInvalid for what is not accepted."""
        return _stream_info(self.stream_info_bytes)

    def _marker(self, known: bytes) -> int | None:
        """Where the blocks continue; None while the marker is incomplete."""
        if self._is_marked:
            return 0
        if not MARKER.startswith(known[: len(MARKER)]):
            raise FlacInvalid("it does not begin as a FLAC file does")
        self._rest, self._is_marked = known, len(known) >= len(MARKER)
        return len(MARKER) if self._is_marked else None

    def _block(self, known: bytes, at: int) -> int | None:
        """Begin the block at `at`; None while its header, or STREAMINFO, is incomplete."""
        head = known[at : at + 4]
        if len(head) < 4:
            return None
        kind, size = head[0] & 0x7F, int.from_bytes(head[1:], "big")
        if kind == _FORBIDDEN_BLOCK:
            raise FlacInvalid("it has a metadata block of the type that is forbidden")
        if (kind == 0) == bool(self.stream_info_bytes):
            raise FlacInvalid("STREAMINFO must be its first metadata block, once")
        if kind == 0:
            if size != STREAMINFO_BYTES:
                raise FlacInvalid(f"its STREAMINFO has {size} bytes instead of {STREAMINFO_BYTES}")
            if len(known) < at + 4 + size:
                return None
            self.stream_info_bytes = known[at + 4 : at + 4 + size]
        self._blocks += 1
        if self._blocks > MAX_BLOCKS:
            raise FlacInvalid(f"it has more than {MAX_BLOCKS} metadata blocks")
        self._is_last, self._passing_bytes = bool(head[0] >> 7), size
        return at + 4


def _head_pattern(sync: bytes) -> re.Pattern[bytes]:
    """The first four bytes of a frame's header, without values that the format reserves or forbids."""
    sizes_and_rates = (size << 4 | rate for size in range(1, 16) for rate in range(15))
    layouts = (channels << 4 | bits << 1 for channels in range(11) for bits in range(8) if bits != 3)
    pattern = sync + b"[%b][%b]" % tuple(
        b"".join(re.escape(bytes([value])) for value in values) for values in (sizes_and_rates, layouts)
    )
    return re.compile(pattern, re.DOTALL)


_FIXED, _VARYING = _head_pattern(b"\xff\xf8"), _head_pattern(b"\xff\xf9")


class _FrameWalk:
    """Follows a stream of frames from its first byte; raises FlacInvalid as soon as one is out of place.

    A frame does not state its length. It ends where the CRC-16 of all its bytes is zero and another frame's
    header begins, or the file ends. Each byte enters one checksum once, so the cost is linear in the size of
    the file, whatever it contains.
    """

    def __init__(self, info: StreamInfo) -> None:
        self.samples = 0
        """Per channel, in the frames that have begun."""
        self._info = info
        self._first: _FrameHead | None = None
        self._last: _FrameHead | None = None
        self._pattern = _FIXED
        self._next = 0
        self._crc = 0
        """The checksum of the current frame so far; zero before the first."""
        self._rest = b""

    def add(self, content: bytes) -> None:
        """The next bytes of the stream."""
        known = self._rest + content
        if self._first is None and len(known) >= _LONGEST_HEAD_BYTES:
            self._begin_first(known)
        self._rest = known[self._walk(known, max(0, len(known) - _LONGEST_HEAD_BYTES)) :]

    def finish(self) -> int:
        """After the last byte: how many samples per channel the stream holds."""
        size, padded = len(self._rest), self._rest + bytes(_LONGEST_HEAD_BYTES)
        if self._first is None:
            if not size:
                raise FlacInvalid("it holds no audio")
            self._begin_first(padded)
        self._walk(padded, size)
        # Zeros after a frame do not change a checksum of zero, and no frame ends with so many.
        if self._crc != 0 or self._rest == bytes(_LONGEST_HEAD_BYTES):
            raise FlacInvalid("a frame is damaged or cut off, or followed by other data")
        return self.samples

    def _begin_first(self, known: bytes) -> None:
        head = _frame_head(known, 0)
        if head is None:
            raise FlacInvalid("no frame follows its metadata")
        self._first = head
        if head.sizes_vary:
            self._pattern = _VARYING

    def _walk(self, known: bytes, end: int) -> int:
        """Look at all bytes before `end`, which is a header's length or more before the end of `known`."""
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
        """Accept the start of a frame if the bytes since the last header pass the checksum of a frame."""
        head, first, last = _frame_head(known, at), self._first, self._last
        assert first is not None
        if head is None:
            return
        if head.number != self._next:
            # By chance samples may look like a header, but hardly like one of this file's frames, too.
            if head.frames == first.frames and _disagreement(head, self._info) is None:
                raise FlacInvalid("a frame is missing, or stands in the wrong place")
            return
        fault = _disagreement(head, self._info)
        if fault is not None:
            raise FlacInvalid(fault)
        if last is not None and not head.sizes_vary and last.frames != first.frames:
            raise FlacInvalid("a frame before the last has another size than the first")
        self.samples += head.frames
        self._last = head
        self._next = self.samples if head.sizes_vary else self._next + 1


def with_unknown_total(stream_info: bytes) -> bytes:
    """A header of only STREAMINFO, with an unknown number of samples: decoders then read to the very end."""
    unknown = bytearray(stream_info)
    unknown[13] &= 0xF0
    unknown[14:18] = bytes(4)
    return MARKER + bytes((0x80, 0, 0, STREAMINFO_BYTES)) + bytes(unknown)


def check_length(info: StreamInfo, frames: int) -> None:
    """Raises FlacInvalid if a stream may not have this many frames, promised or already read."""
    if frames > MAX_DURATION_S * info.sample_rate:
        raise FlacInvalid(f"it is longer than {MAX_DURATION_S // 60} minutes")
    if frames * info.channels > MAX_SAMPLES:
        raise FlacInvalid(f"it has more than {MAX_SAMPLES} samples in its {info.channels} channels")


def _frame_head(content: bytes, at: int) -> _FrameHead | None:
    """The frame header at `at`; None unless there is one whose checksum is right."""
    if content[at : at + 2] not in _SYNCS or len(content) < at + 6:
        return None
    size_code, rate_code = content[at + 2] >> 4, content[at + 2] & 0xF
    channel_code, bits_code = content[at + 3] >> 4, content[at + 3] >> 1 & 0x7
    number, position = _coded_number(content, at + 4)
    if size_code == 0 or rate_code == 15 or channel_code > 10 or bits_code == 3 or not position:
        return None
    rate_at = position + _SIZE_BYTES.get(size_code, 0)
    end = rate_at + _RATE_BYTES.get(rate_code, 0)
    if len(content) <= end or crc8.smbus(content[at : end + 1]) != 0:
        return None
    rate = _RATES.get(rate_code)
    if rate_code in _RATE_UNITS:
        rate = int.from_bytes(content[rate_at:end], "big") * _RATE_UNITS[rate_code]
    return _FrameHead(
        number=number,
        sizes_vary=bool(content[at + 1] & 1),
        frames=_SIZES.get(size_code) or int.from_bytes(content[position:rate_at], "big") + 1,
        sample_rate=rate,
        channels=channel_code + 1 if channel_code < MAX_CHANNELS else 2,
        bits_per_sample=_BITS.get(bits_code),
    )


def _disagreement(head: _FrameHead, info: StreamInfo) -> str | None:
    """How a frame differs from STREAMINFO, if it does."""
    for what, actual, promised in (
        ("channels", head.channels, info.channels),
        ("Hz", head.sample_rate, info.sample_rate),
        ("bits per sample", head.bits_per_sample, info.bits_per_sample),
    ):
        if actual is not None and actual != promised:
            return f"its head promises {promised} {what}, but a frame has {actual}"
    return None


def _stream_info(content: bytes) -> StreamInfo:
    bits = int.from_bytes(content[10:18], "big")
    info = StreamInfo(
        sample_rate=bits >> 44,
        channels=(bits >> 41 & 0x7) + 1,
        bits_per_sample=(bits >> 36 & 0x1F) + 1,
        total_frames=bits & ((1 << _TOTAL_BITS) - 1),
        md5=content[18:34],
    )
    if info.sample_rate == 0:
        raise FlacInvalid("its sample rate is 0 Hz: it holds no audio")
    if info.bits_per_sample not in DECODED_BITS:
        raise FlacInvalid(f"its samples have {info.bits_per_sample} bits; 8, 16 and 24 are read")
    return info


def _coded_number(content: bytes, at: int) -> tuple[int, int]:
    """A number of up to 36 bits, coded like a UTF-8 character, and where it ends: 0 if it is invalid."""
    first = content[at]
    more = _MORE_BYTES[first]
    if more < 0:
        return 0, 0
    number = first if more == 0 else first & (0x3F >> more)
    for byte in content[at + 1 : at + 1 + more]:
        if byte & 0xC0 != 0x80:
            return 0, 0
        number = number << 6 | byte & 0x3F
    return number, at + 1 + more
