"""FLAC as bytes: its head read strictly, and its last frame found again (RFC 9639).

The samples are a library's to decode; what is here holds what it says against the bytes. A header may lie, so
nothing of it is believed before it was compared. Pure: knows neither files nor processes.
"""

from collections.abc import Callable
from dataclasses import dataclass

MAX_DURATION_S = 7200
MAX_CHANNELS = 8
MAX_SAMPLES = MAX_DURATION_S * 192_000 * 2
"""Of all channels together: two hours of the finest stereo. More is a bomb: a few bytes that take minutes."""
DECODED_BITS = (8, 16, 24)
"""What the decoder knows of the bits that a sample may have."""
STREAMINFO_BYTES = 34
# The largest frame that can be: 65,535 samples of eight channels in 32 bits, verbatim, and a little head.
MAX_FRAME_BYTES = 65_535 * 8 * 4 + 4096

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
_BITS = {1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}


class FlacInvalid(ValueError):
    """The bytes are not a FLAC that is accepted; the message says why."""


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


def read_head(read: Callable[[int], bytes]) -> tuple[StreamInfo, bytes]:
    """All metadata, read up to the first frame; gives STREAMINFO and its 34 bytes. Raises FlacInvalid.

    `read` gives exactly as many bytes as are asked for, or fewer at the end of the file.
    """
    if read(4) != b"fLaC":
        raise FlacInvalid("it does not begin as a FLAC file does")
    found = b""
    is_last = False
    while not is_last:
        head = _exactly(read, 4)
        is_last, kind, size = bool(head[0] >> 7), head[0] & 0x7F, int.from_bytes(head[1:], "big")
        if kind == _FORBIDDEN_BLOCK:
            raise FlacInvalid("it has a metadata block of the type that is forbidden")
        if (kind == 0) == bool(found):
            raise FlacInvalid("STREAMINFO must be its first metadata block, once")
        if kind == 0:
            if size != STREAMINFO_BYTES:
                raise FlacInvalid(f"its STREAMINFO has {size} bytes instead of {STREAMINFO_BYTES}")
            found = _exactly(read, size)
        else:
            _pass_over(read, size)
    return _stream_info(found), found


def with_unknown_total(stream_info: bytes) -> bytes:
    """A head of STREAMINFO alone that promises no number of samples: a decoder then reads to the very end."""
    unknown = bytearray(stream_info)
    unknown[13] &= 0xF0
    unknown[14:18] = bytes(4)
    return b"fLaC" + bytes((0x80, 0, 0, STREAMINFO_BYTES)) + bytes(unknown)


def check_first_frame(start: bytes, info: StreamInfo) -> FrameHead:
    """The first frame begins where the metadata ends, and agrees with STREAMINFO. Raises FlacInvalid."""
    if not start:
        raise FlacInvalid("it holds no audio")
    head = frame_head(start, 0)
    if head is None:
        raise FlacInvalid("no frame follows its metadata")
    _agree(head, info)
    return head


def check_length(info: StreamInfo, frames: int) -> None:
    """So many frames are allowed, whether promised or decoded already. Raises FlacInvalid."""
    if frames > MAX_DURATION_S * info.sample_rate:
        raise FlacInvalid(f"it is longer than {MAX_DURATION_S // 60} minutes")
    if frames * info.channels > MAX_SAMPLES:
        raise FlacInvalid(f"it has more than {MAX_SAMPLES} samples in its {info.channels} channels")


def check_end(tail: bytes, info: StreamInfo, first: FrameHead, frames: int) -> None:
    """The last frame that was decoded ends with the last byte of the file. Raises FlacInvalid.

    `tail` is the end of the file, at least a frame long; `frames` were decoded.
    """
    end = len(tail)
    while (at := max(tail.rfind(sync, 0, end) for sync in _SYNCS)) >= 0:
        head = frame_head(tail, at)
        if head is not None and _end_of(head, first) == frames and _crc(tail[at:], _CRC16, 16) == 0:
            _agree(head, info)
            return
        end = at + 1
    raise FlacInvalid("it is cut off, or something follows its last frame")


def frame_head(content: bytes, at: int) -> FrameHead | None:
    """The frame's head that begins there, or None when there is none whose checksum is right."""
    if content[at : at + 2] not in _SYNCS or len(content) < at + 6:
        return None
    size_code, rate_code = content[at + 2] >> 4, content[at + 2] & 0xF
    channel_code, bits_code = content[at + 3] >> 4, content[at + 3] >> 1 & 0x7
    number, position = _coded_number(content, at + 4)
    if size_code == 0 or rate_code == 15 or channel_code > 10 or bits_code == 3:
        return None
    rate_at = position + _SIZE_BYTES.get(size_code, 0)
    end = rate_at + _RATE_BYTES.get(rate_code, 0)
    if len(content) <= end or _crc(content[at : end + 1], _CRC8, 8) != 0:
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


def _end_of(head: FrameHead, first: FrameHead) -> int:
    """How many samples there are up to its end; where sizes do not vary, the first frame sets them."""
    start = head.number if head.sizes_vary else head.number * first.frames
    return start + head.frames


def _agree(head: FrameHead, info: StreamInfo) -> None:
    for what, said, promised in (
        ("channels", head.channels, info.channels),
        ("Hz", head.sample_rate, info.sample_rate),
        ("bits per sample", head.bits_per_sample, info.bits_per_sample),
    ):
        if said is not None and said != promised:
            raise FlacInvalid(f"its head promises {promised} {what}, but a frame has {said}")


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


def _exactly(read: Callable[[int], bytes], size: int) -> bytes:
    found = read(size)
    if len(found) != size:
        raise FlacInvalid("it is cut off in its metadata")
    return found


def _pass_over(read: Callable[[int], bytes], size: int) -> None:
    while size:
        size -= len(_exactly(read, min(size, 1 << 16)))


def _coded_number(content: bytes, at: int) -> tuple[int, int]:
    """A number of up to 36 bits, coded as UTF-8 codes characters, and where it ends."""
    first = content[at]
    more = 0
    while more < 7 and first >> (6 - more) & 1 and first & 0x80:
        more += 1
    number = first if more == 0 else first & (0x3F >> more)
    for byte in content[at + 1 : at + 1 + more]:
        number = number << 6 | byte & 0x3F
    return number, at + 1 + more


def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    top, mask = 1 << (bits - 1), (1 << bits) - 1
    table = []
    for byte in range(256):
        value = byte << (bits - 8)
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & mask
        table.append(value)
    return tuple(table)


def _crc(content: bytes, table: tuple[int, ...], bits: int) -> int:
    """Zero for bytes with their checksum behind them."""
    value, shift, mask = 0, bits - 8, (1 << bits) - 1
    for byte in content:
        value = (value << 8 ^ table[value >> shift ^ byte]) & mask
    return value


_CRC8, _CRC16 = _table(0x07, 8), _table(0x8005, 16)
