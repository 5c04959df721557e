"""FLAC files, of which several may be joined, and whether their last frame is whole. Source: RFC 9639."""

from collections.abc import Iterator

from tenuto_client.sounds.part import Part, Sounds
from tenuto_client.sounds.source import Source

MARK = b"fLaC"
_FIRST_BLOCK, _ONLY_BLOCK = b"fLaC\x00\x00\x00\x22", b"fLaC\x80\x00\x00\x22"
_TOTAL_AT, _TOTAL_BYTES, _CRC_BYTES = 21, 5, 2
_MAX_BLOCKS = 1000
_TAIL_BYTES = 1 << 17
"""How far before the end the last frame is looked for; frames of common encoders have 30 KiB at most."""
_MOST_SUMMED_BYTES = 1 << 20


def find_part(source: Source, at: int, sounds: Sounds, end: int) -> int:
    """Add the FLAC that begins there, of a file whose sound ends at `end`; returns where it ends."""
    place = at + len(MARK)
    for _ in range(_MAX_BLOCKS):
        head = source.at(place, 4)
        place += 4 + int.from_bytes(head[1:4], "big")
        if len(head) < 4 or head[0] & 0x80:
            break
    end = min(end, source.find(_FIRST_BLOCK, place), source.find(_ONLY_BLOCK, place))
    begin = min(end, max(place, end - _TAIL_BYTES))
    tail = source.at(begin, end - begin)
    sound_bytes = next((size for size in _ends(tail) if _ends_whole(tail[:size])), None)
    if sound_bytes is None:
        sounds.lacks("its last frame is not whole, or is followed by what is no sound")
        sound_bytes = len(tail)
    sounds.parts.append(_part(source, at, begin + sound_bytes))
    return end


def _ends(tail: bytes) -> Iterator[int]:
    """Where the last frame may end: zeros or line ends follow some, and its checksum may end in such, too."""
    for filler in (b"\0", b"\r\n"):
        least = len(tail.rstrip(filler))
        yield from range(least, min(len(tail), least + _CRC_BYTES) + 1)


def _part(source: Source, at: int, end: int) -> Part:
    """Without the number of samples in its head: a decoder would stop there, whatever follows."""
    info = source.at(at, _TOTAL_AT + _TOTAL_BYTES)
    if not info.startswith((_FIRST_BLOCK, _ONLY_BLOCK)) or len(info) < _TOTAL_AT + _TOTAL_BYTES:
        return Part(((at, end),))
    total = int.from_bytes(info[_TOTAL_AT:], "big")
    # Its upper four bits are the lower ones of the bits per sample less one.
    bits = total >> 36 << 36
    return Part(
        ((at, at + _TOTAL_AT), bits.to_bytes(_TOTAL_BYTES, "big"), (at + _TOTAL_AT + _TOTAL_BYTES, end)),
        least_frames=total - bits,
    )


def _ends_whole(tail: bytes) -> bool:
    """Whether a frame ends at the end: from its head to its own checksum, its checksum is 0."""
    budget, at = _MOST_SUMMED_BYTES, len(tail)
    while (at := tail.rfind(b"\xff", 0, at)) >= 0:
        if tail[at + 1 : at + 2] not in (b"\xf8", b"\xf9"):
            continue
        budget -= len(tail) - at
        if budget < 0:
            return False
        if _crc16(tail[at:]) == 0:
            return True
    return False


def _table() -> tuple[int, ...]:
    values = []
    for value in range(256):
        crc = value << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
        values.append(crc)
    return tuple(values)


_CRC16 = _table()


def _crc16(content: bytes) -> int:
    crc = 0
    for byte in content:
        crc = (crc << 8 & 0xFFFF) ^ _CRC16[crc >> 8 ^ byte]
    return crc
