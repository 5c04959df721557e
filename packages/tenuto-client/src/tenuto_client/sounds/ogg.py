"""The links of an Ogg file: sounds one after the other, each of which a decoder takes for the whole.

Source: RFC 3533. Of sounds that run at the same time, as in a video, the first one is taken.
"""

import zlib
from dataclasses import dataclass, field

from tenuto_client.sounds.part import Part, Sounds
from tenuto_client.sounds.source import Source

MARK = b"OggS"
_HEAD_BYTES = 27
_BEGINS, _ENDS = 2, 4
_SOUNDS = (b"\x01vorbis", b"OpusHead", b"\x7fFLAC", b"Speex   ")
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class _Page:
    start: int
    end: int
    serial: int
    number: int
    """Within its stream."""
    is_first: bool
    """Of its stream."""
    is_last: bool
    """Whether it says so; recorders often leave that out."""
    samples: int
    """How many there are up to its end; 0 if it does not say so, as those of the head."""
    is_sound: bool


@dataclass(slots=True)
class _Link:
    """Streams that run at the same time."""

    serial: int | None = None
    """Of the sound."""
    pieces: list[tuple[int, int]] = field(default_factory=list)
    last: _Page | None = None
    """Of the sound."""
    samples: int = 0
    """What the pages so far count."""
    is_captured: bool = False
    """Whether it joins a broadcast, whose beginning was not recorded: its numbers tell no length."""
    is_begun: bool = False
    """Whether pages beside the first of each stream have come."""


def find_parts(source: Source, at: int, sounds: Sounds) -> int:
    """Add the links that begin there; returns where they end."""
    link = _Link()
    while source.at(at, 4) == MARK:
        page = _page(source, at)
        if page is None:
            sounds.lacks("its last page is not whole")
            at = source.size
            break
        if not _is_intact(source.at(at, page.end - at)):
            sounds.lacks(f"the page at byte {at} is damaged")
        if page.is_first and link.is_begun:
            _add(source, link, sounds)
            link = _Link()
        link.is_begun = link.is_begun or not page.is_first
        if page.is_first and page.is_sound and link.serial is None:
            link.serial = page.serial
        if page.serial == link.serial:
            _extend(link, page, sounds)
        at = page.end
    _add(source, link, sounds)
    return at


def _page(source: Source, at: int) -> _Page | None:
    """The page that begins there; None if the file ends within it."""
    head = source.at(at, _HEAD_BYTES + 255)
    count = head[26] if len(head) >= _HEAD_BYTES else 0
    table = head[_HEAD_BYTES : _HEAD_BYTES + count]
    end = at + _HEAD_BYTES + count + sum(table)
    if len(head) < _HEAD_BYTES or len(table) < count or end > source.size:
        return None
    return _Page(
        start=at,
        end=end,
        serial=int.from_bytes(head[14:18], "little"),
        number=int.from_bytes(head[18:22], "little"),
        is_first=bool(head[5] & _BEGINS),
        is_last=bool(head[5] & _ENDS),
        samples=max(0, int.from_bytes(head[6:14], "little", signed=True)),
        is_sound=source.at(at + _HEAD_BYTES + count, 8).startswith(_SOUNDS),
    )


def _extend(link: _Link, page: _Page, sounds: Sounds) -> None:
    last, pieces = link.last, link.pieces
    if last is not None and page.number > last.number + 1:
        if link.samples:
            sounds.lacks(f"pages are missing before byte {page.start}")
        link.is_captured = True
    if pieces and pieces[-1][1] == page.start:
        pieces[-1] = (pieces[-1][0], page.end)
    else:
        pieces.append((page.start, page.end))
    link.last = page
    if 0 < page.samples < link.samples:
        sounds.lacks(f"the page at byte {page.start} counts fewer samples than one before it")
    link.samples = max(link.samples, page.samples)


def _add(source: Source, link: _Link, sounds: Sounds) -> None:
    """As a part. Its last page gets the mark of the end: without it, decoders refuse some lengths."""
    if link.last is None:
        return
    pieces: tuple[tuple[int, int] | bytes, ...] = tuple(link.pieces)
    if not link.last.is_last:
        start, _ = link.pieces[-1]
        page = bytearray(source.at(link.last.start, link.last.end - link.last.start))
        page[5] |= _ENDS
        page[22:26] = _checksum(bytes(page)).to_bytes(4, "little")
        pieces = (*link.pieces[:-1], (start, link.last.start), bytes(page))
    sounds.parts.append(Part(pieces, least_frames=0 if link.is_captured else None, is_open=True))


def _checksum(page: bytes) -> int:
    plain = page[:22] + bytes(4) + page[26:]
    # zlib's polynomial is the same, with the bits of each byte in the other order.
    crc = zlib.crc32(plain.translate(_REVERSED), 0xFFFF_FFFF) ^ 0xFFFF_FFFF
    return int(f"{crc:032b}"[::-1], 2)


def _is_intact(page: bytes) -> bool:
    """Whether its checksum is right: a decoder leaves out a page where it is not."""
    return _checksum(page) == int.from_bytes(page[22:26], "little")
