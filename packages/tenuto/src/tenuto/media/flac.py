"""FLAC as bytes: the head of a file and the heads of its frames, read strictly (RFC 9639).

The samples are a library's to decode; what is here holds what it says against the bytes. A header may lie, so
nothing of it is believed before it was compared. Pure: knows neither files nor processes.
"""

from dataclasses import dataclass
from typing import NoReturn

from fastcrc import crc8

MAX_DURATION_S = 7200
MAX_CHANNELS = 8
MAX_SAMPLES = MAX_DURATION_S * 192_000 * 2
"""Of all channels together: two hours of the finest stereo. More is a bomb: a few bytes that take minutes."""
DECODED_BITS = (8, 16, 24)
"""What the decoder knows of the bits that a sample may have."""
MARKER = b"fLaC"
STREAMINFO_BYTES = 34
MAX_BLOCKS = 1024
"""Files have a handful of metadata blocks; more are there to keep us busy."""
LONGEST_HEAD_BYTES = 16
"""Of a frame."""

_TOTAL_BITS = 36
_FORBIDDEN_BLOCK = 127
# Fixed and varying sizes of blocks.
_SYNCS = (b"\xff\xf8", b"\xff\xf9")
# Codes of a frame's head.
_SIZES = {1: 192} | {n: 576 << (n - 2) for n in range(2, 6)} | {n: 256 << (n - 8) for n in range(8, 16)}
_SIZE_BYTES = {6: 1, 7: 2}
_RATES = dict(
    enumerate((88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000), 1)
)
_RATE_BYTES = {12: 1, 13: 2, 14: 2}
_RATE_UNITS = {12: 1000, 13: 1, 14: 10}
_MORE_BYTES = [0] * 0x80 + [-1] * 0x40 + [1] * 0x20 + [2] * 0x10 + [3] * 8 + [4] * 4 + [5, 5, 6, -1]
"""Of a coded number, by its first byte; -1: none begins so."""
_BITS = {1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}


class FlacInvalid(ValueError):
    """The bytes are not a FLAC that is accepted; the message says why."""


@dataclass(frozen=True, slots=True)
class FlacSummary:
    """What a file contains, whatever its head says."""

    sample_rate: int
    channels: int
    frames: int
    """Samples per channel."""

    @property
    def duration_ms(self) -> int:
        """Rounded up: what is charged for."""
        return -(-self.frames * 1000 // self.sample_rate)


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What the head says of the stream; only rate, channels and bits are needed to decode it."""

    sample_rate: int
    channels: int
    bits_per_sample: int
    total_frames: int
    """Samples per channel; 0: the head does not say."""
    md5: bytes
    """Of the samples; sixteen zeros: the head does not say."""


@dataclass(frozen=True, slots=True)
class FrameHead:
    """The head of one frame; what stands in STREAMINFO instead is None."""

    number: int
    """Of its first sample where sizes vary, else of the frame."""
    sizes_vary: bool
    frames: int
    sample_rate: int | None
    channels: int
    bits_per_sample: int | None


class Metadata:
    """The blocks before the first frame, read as they arrive; all but STREAMINFO are passed over."""

    def __init__(self) -> None:
        self.stream_info_bytes = b""
        self._rest = b""
        self._is_marked = self._is_last = False
        self._blocks = 0
        self._passing_bytes = 0
        """Of a block, still to come."""

    def add(self, content: bytes) -> bytes | None:
        """The next bytes; gives those behind the last block once it has come. Raises FlacInvalid."""
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
        """The file ends here, before its first frame. Raises FlacInvalid."""
        if not self._is_marked:
            raise FlacInvalid("it does not begin as a FLAC file does")
        raise FlacInvalid("it is cut off in its metadata")

    def stream_info(self) -> StreamInfo:
        """What STREAMINFO says. Raises FlacInvalid for what is not accepted."""
        return _stream_info(self.stream_info_bytes)

    def _marker(self, known: bytes) -> int | None:
        """Where the blocks go on; None while the marker is not complete."""
        if self._is_marked:
            return 0
        if not MARKER.startswith(known[: len(MARKER)]):
            raise FlacInvalid("it does not begin as a FLAC file does")
        self._rest, self._is_marked = known, len(known) >= len(MARKER)
        return len(MARKER) if self._is_marked else None

    def _block(self, known: bytes, at: int) -> int | None:
        """Begin the block that stands there; None while its head, or STREAMINFO, is not complete."""
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


def with_unknown_total(stream_info: bytes) -> bytes:
    """A head of STREAMINFO alone that promises no number of samples: a decoder then reads to the very end."""
    unknown = bytearray(stream_info)
    unknown[13] &= 0xF0
    unknown[14:18] = bytes(4)
    return MARKER + bytes((0x80, 0, 0, STREAMINFO_BYTES)) + bytes(unknown)


def check_length(info: StreamInfo, frames: int) -> None:
    """So many frames are allowed, whether promised or decoded already. Raises FlacInvalid."""
    if frames > MAX_DURATION_S * info.sample_rate:
        raise FlacInvalid(f"it is longer than {MAX_DURATION_S // 60} minutes")
    if frames * info.channels > MAX_SAMPLES:
        raise FlacInvalid(f"it has more than {MAX_SAMPLES} samples in its {info.channels} channels")


def frame_head(content: bytes, at: int) -> FrameHead | None:
    """The frame's head that begins there, or None when there is none whose checksum is right."""
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
    return FrameHead(
        number=number,
        sizes_vary=bool(content[at + 1] & 1),
        frames=_SIZES.get(size_code) or int.from_bytes(content[position:rate_at], "big") + 1,
        sample_rate=rate,
        channels=channel_code + 1 if channel_code < MAX_CHANNELS else 2,
        bits_per_sample=_BITS.get(bits_code),
    )


def agree(head: FrameHead, info: StreamInfo) -> str | None:
    """What a frame says otherwise than STREAMINFO, if anything."""
    for what, said, promised in (
        ("channels", head.channels, info.channels),
        ("Hz", head.sample_rate, info.sample_rate),
        ("bits per sample", head.bits_per_sample, info.bits_per_sample),
    ):
        if said is not None and said != promised:
            return f"its head promises {promised} {what}, but a frame has {said}"
    return None


def _stream_info(found: bytes) -> StreamInfo:
    bits = int.from_bytes(found[10:18], "big")
    info = StreamInfo(
        sample_rate=bits >> 44,
        channels=(bits >> 41 & 0x7) + 1,
        bits_per_sample=(bits >> 36 & 0x1F) + 1,
        total_frames=bits & ((1 << _TOTAL_BITS) - 1),
        md5=found[18:34],
    )
    if info.sample_rate == 0:
        raise FlacInvalid("its sample rate is 0 Hz: it holds no audio")
    if info.bits_per_sample not in DECODED_BITS:
        raise FlacInvalid(f"its samples have {info.bits_per_sample} bits; 8, 16 and 24 are read")
    return info


def _coded_number(content: bytes, at: int) -> tuple[int, int]:
    """A number of up to 36 bits, coded as UTF-8 codes characters, and where it ends; 0: it is not one."""
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
