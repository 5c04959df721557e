"""PNG files, read with nothing taken on trust.

They come from engines: every chunk's checksum is verified, the image data are unpacked within the size that
the header declares, and nothing may follow the end. Pixel values are not checked. Decision 0038 says why
this is not Pillow.
"""

import struct
import zlib
from collections.abc import Iterator

from msgspec import Struct

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MAX_SIDE = 2048
MAX_FILE_BYTES = 64 * 1024 * 1024
# Files have a handful of chunks; more are there to keep us busy.
MAX_CHUNKS = 4096

_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}
"""Channels of the colour types with 8 bits a channel; no engine makes palettes."""

_HEADER = struct.Struct(">IIBBBBB")
_CHUNK = struct.Struct(">I4s")
_CHECKSUM = struct.Struct(">I")
_LAST_FILTER = 4


class PngInvalid(ValueError):
    """The bytes are not a valid PNG file; the message says why."""


class Png(Struct, frozen=True):
    """A PNG that was read."""

    width: int
    height: int
    channels: int


def read_png(content: bytes) -> Png:
    """The size of a valid PNG with 8 bits a channel, no palette, not interlaced. Raises PngInvalid."""
    _require(len(content) <= MAX_FILE_BYTES, f"it has {len(content)} bytes; {MAX_FILE_BYTES} are allowed")
    _require(content.startswith(SIGNATURE), "it does not begin with PNG's signature")
    png: Png | None = None
    packed: list[memoryview] = []
    ended = data_over = False
    for name, chunk in _chunks(content):
        _require(not ended, "something follows its end")
        _require((png is None) == (name == b"IHDR"), "its header is not its first chunk, or not the only one")
        if name == b"IHDR":
            png = _header(chunk)
        elif name == b"IDAT":
            _require(not data_over, "its image data are interrupted")
            packed.append(chunk)
        elif name == b"IEND":
            _require(not len(chunk), "its end holds something")
            ended = True
        else:
            # A capital first letter marks a chunk that must be understood to show the file.
            _require(not name[:1].isupper(), f"its chunk {name.decode('ascii')} is not understood")
        data_over = bool(packed) and name != b"IDAT"
    _require(ended, "it has no end")
    assert png is not None, "the end is not the first chunk"
    _check_data(png, packed)
    return png


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise PngInvalid(reason)


def _chunks(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    view, position = memoryview(content), len(SIGNATURE)
    for _ in range(MAX_CHUNKS):
        if position == len(content):
            return
        _require(len(content) - position >= _CHUNK.size + _CHECKSUM.size, "it breaks off inside a chunk")
        size, name = _CHUNK.unpack_from(content, position)
        end = position + _CHUNK.size + size
        _require(end + _CHECKSUM.size <= len(content), "it breaks off inside a chunk")
        _require(name.isalpha() and name.isascii(), "a chunk's name is not made of letters")
        declared = _CHECKSUM.unpack_from(content, end)[0]
        actual = zlib.crc32(view[position + 4 : end])
        _require(declared == actual, f"its chunk {name.decode('ascii')} does not match its checksum")
        yield name, view[position + _CHUNK.size : end]
        position = end + _CHECKSUM.size
    raise PngInvalid(f"it has more than {MAX_CHUNKS} chunks")


def _header(chunk: memoryview) -> Png:
    _require(len(chunk) == _HEADER.size, f"its header has {len(chunk)} bytes")
    width, height, depth, colour, compression, filtering, interlace = _HEADER.unpack(chunk)
    _require(1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE, f"it is {width} × {height} pixels")
    _require(depth == 8 and colour in _CHANNELS, f"it has {depth} bits in colour type {colour}")
    _require((compression, filtering, interlace) == (0, 0, 0), "it is interlaced or packed in another way")
    return Png(width, height, _CHANNELS[colour])


def _check_data(png: Png, packed: list[memoryview]) -> None:
    """Unpack the data: exactly the bytes that the header says, with valid filters. Raises PngInvalid."""
    row_bytes = 1 + png.width * png.channels
    expected = row_bytes * png.height
    unpacker = zlib.decompressobj()
    rows = bytearray()
    try:
        for piece in packed:
            rows += unpacker.decompress(piece, expected + 1 - len(rows))
            is_within = len(rows) <= expected and not unpacker.unconsumed_tail
            _require(is_within, "its image data are larger than its header says")
    except zlib.error as error:
        raise PngInvalid("its image data cannot be unpacked") from error
    _require(unpacker.eof and not unpacker.unused_data, "its image data don't end where they should")
    _require(len(rows) == expected, "its image data are smaller than its header says")
    _require(max(rows[::row_bytes]) <= _LAST_FILTER, "a row has an unknown filter")
