"""WAV, RF64, W64, AIFF, CAF and AU: where their samples end, by their heads, and whether all have arrived."""

from collections.abc import Callable

from tenuto_client.sounds.part import Part, Sounds
from tenuto_client.sounds.source import Source

MAX_CHUNKS = 1000
WAV_MARKS = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"FORM")
WAV_FORMS = (b"WAVE", b"AIFF", b"AIFC")
_WIDE_MARKS = (b"RF64", b"BW64")
_OPEN_BYTES = 0xFFFF_FFFF
_WIDE_BYTES = 8
_SAMPLES = (b"data", b"SSND")
_TWICE = "samples stand in it twice, and only the first can be read"
UNKNOWN_BYTES = 0x7F00_0000
"""From this length on, a 32-bit length that is too long is that of a stream: its writer could not go back."""
_TOLERATED_BYTES = 44
"""Some writers count the head as samples."""
_W64_LIST = b"list\x2f\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00"
_W64_DATA = b"data\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"


def find_wav(source: Source, at: int, sounds: Sounds) -> int:
    """Add the WAV, RF64 or AIFF that begins there; returns where it ends."""
    mark, order = source.at(at, 4), "little"
    if mark in (b"RIFX", b"FORM"):
        order = "big"
    place, wide = at + 12, None
    for _ in range(MAX_CHUNKS):
        head = source.at(place, 8)
        if len(head) < 8:
            break
        name, length = head[:4], int.from_bytes(head[4:], order)  # type: ignore[arg-type]
        if name == b"ds64":
            wide = int.from_bytes(source.at(place + 16, 8), "little", signed=True)
        if name in (b"data", b"SSND"):
            if mark in _WIDE_MARKS and length == _OPEN_BYTES and wide is not None:
                length = _OPEN_BYTES if wide < 0 else wide
            return _wav_end(source, sounds, (at, place + 8, length), order)
        place += 8 + length + length % 2
    sounds.lacks("its head is not whole")
    sounds.parts.append(Part(((at, source.size),)))
    return source.size


def _wav_end(source: Source, sounds: Sounds, span: tuple[int, int, int], order: str) -> int:
    """Add a file by its own start, that of its samples, and their length; more may follow."""
    at, start, length = span
    there = source.size - start
    is_left_out = length == 0 and there > 0 and not _is_chunk(source, start, order)
    if is_left_out or (there < length and UNKNOWN_BYTES <= length <= _OPEN_BYTES):
        end = _next_file(source, start)
        told = (end - start).to_bytes(4, order)  # type: ignore[arg-type]
        # A WAV, even if it says RF64: its length would be read from the head of that.
        first = (b"RIFF",) if source.at(at, 4) in _WIDE_MARKS else ((at, at + 4),)
        sounds.parts.append(Part((*first, (at + 4, start - 4), told, (start, end))))
        return end
    if length > there:
        if length - there > _TOLERATED_BYTES:
            sounds.lacks(f"its head promises {length} bytes of samples, and {there} have arrived")
        sounds.parts.append(_whole(source, at, source.size))
        return source.size
    return _trailing_end(source, at, start + length, order, sounds)


def _whole(source: Source, at: int, end: int) -> Part:
    """The file as it is; decoders know BW64 by its older name alone."""
    return Part((b"RF64", (at + 4, end)) if source.at(at, 4) == b"BW64" else ((at, end),))


def _next_file(source: Source, at: int) -> int:
    """Where another WAV begins, in samples whose length nobody knows; the end of the file if none does."""
    while (at := source.find(b"WAVEfmt ", at)) < source.size:
        if source.at(at - 8, 4) in WAV_MARKS:
            return at - 8
        at += 1
    return source.size


def _trailing_end(source: Source, at: int, end: int, order: str, sounds: Sounds) -> int:
    for _ in range(MAX_CHUNKS):
        place = end + (end - at) % 2
        if not _is_chunk(source, place, order):
            # An odd length without the byte that makes it even is a common fault.
            if place == end or not _is_chunk(source, end, order):
                break
            place = end
        if source.at(place, 4) in _SAMPLES:
            sounds.lacks(_TWICE)
        end = place + 8 + int.from_bytes(source.at(place + 4, 4), order)  # type: ignore[arg-type]
    sounds.parts.append(_whole(source, at, min(end, source.size)))
    padded = end + (end - at) % 2
    return padded if source.at(end, 1) == b"\0" else end


def _is_chunk(source: Source, at: int, order: str) -> bool:
    """Whether a chunk stands there, and not another file."""
    head = source.at(at, 8)
    name, length = head[:4], int.from_bytes(head[4:8], order)  # type: ignore[arg-type]
    is_name = len(head) == 8 and name.isascii() and name.decode().isprintable() and name.strip() != b""
    return is_name and name not in WAV_MARKS and at + 8 + length <= source.size


def find_w64(source: Source, at: int, sounds: Sounds) -> int:
    """Add the W64 that begins there; returns where it ends."""
    return _walked(source, at, at + 40, _w64_chunk, sounds)


def find_caf(source: Source, at: int, sounds: Sounds) -> int:
    """Add the CAF that begins there; returns where it ends."""
    return _walked(source, at, at + 8, _caf_chunk, sounds)


def _w64_chunk(source: Source, at: int) -> tuple[bool, int, int] | None:
    """Whether a chunk holds the samples, where its content begins and where it ends; None: there is none."""
    head = source.at(at, 24)
    length = int.from_bytes(head[16:], "little")
    if length < len(head) or head[4:16] not in (_W64_DATA[4:], _W64_LIST[4:]):
        return None
    return head[:16] == _W64_DATA, at + 24, at + -(-length // 8) * 8


def _caf_chunk(source: Source, at: int) -> tuple[bool, int, int] | None:
    head = source.at(at, 12)
    length = int.from_bytes(head[4:], "big")
    if len(head) < 12 or head[:4] == b"caff" or not (head[:4].isascii() and head[:4].decode().isprintable()):
        return None
    if length == 0xFFFF_FFFF_FFFF_FFFF:
        return head[:4] == b"data", at + 12, source.size
    return head[:4] == b"data", at + 12, at + 12 + length


def _walked(
    source: Source,
    at: int,
    place: int,
    chunk_at: Callable[[Source, int], tuple[bool, int, int] | None],
    sounds: Sounds,
) -> int:
    has_samples, told_at = False, 0
    for _ in range(MAX_CHUNKS):
        chunk = chunk_at(source, place)
        if chunk is None or (has_samples and chunk[2] > source.size):
            break
        is_samples, start, place = chunk
        if has_samples and is_samples:
            sounds.lacks(_TWICE)
        has_samples = has_samples or is_samples
        if is_samples and place >= source.size:
            told_at = start - _WIDE_BYTES
        if is_samples and place > source.size + _TOLERATED_BYTES:
            there = source.size - start
            sounds.lacks(f"its head promises {place - start} bytes of samples, and {there} have arrived")
    if not has_samples:
        sounds.lacks("its head is not whole")
    end = min(place, source.size) if has_samples else source.size
    if told_at and chunk_at is _caf_chunk:
        # Its decoder reads nothing if the samples do not end where its head says, which a stream's cannot.
        told = (source.size - told_at - _WIDE_BYTES).to_bytes(_WIDE_BYTES, "big")
        sounds.parts.append(Part(((at, told_at), told, (told_at + _WIDE_BYTES, source.size))))
    else:
        sounds.parts.append(Part(((at, end),)))
    return end


def find_au(source: Source, at: int, sounds: Sounds) -> int:
    """Add the AU that begins there; returns where it ends."""
    order = "big" if source.at(at, 1) == b"." else "little"
    head = source.at(at, 12)
    start, length = at + int.from_bytes(head[4:8], order), int.from_bytes(head[8:12], order)  # type: ignore[arg-type]
    there = max(0, source.size - start)
    if length >= UNKNOWN_BYTES or length == 0:
        length = there
    if length > there + _TOLERATED_BYTES or len(head) < 12:
        sounds.lacks(f"its head promises {length} bytes of samples, and {there} have arrived")
    end = min(start + length, source.size)
    sounds.parts.append(Part(((at, end),)))
    return end
