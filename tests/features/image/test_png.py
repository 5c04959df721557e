"""PNG files: whole ones are measured, and everything else is refused for a reason that can be read."""

import struct
import zlib

import pytest

from tenuto.features.image.png import Png, PngInvalid, read_png

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def header(width: int = 3, height: int = 2, *rest: int) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, *(rest or (8, 2, 0, 0, 0))))


ROWS = (b"\0" + b"rgbrgbrgb") * 2
DATA = zlib.compress(ROWS)
END = chunk(b"IEND")


def png(*chunks: bytes) -> bytes:
    return SIGNATURE + b"".join(chunks)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(header(), chunk(b"IDAT", DATA), END), Png(3, 2, 3)),
        (png(header(), chunk(b"IDAT", DATA[:5]), chunk(b"IDAT", DATA[5:]), END), Png(3, 2, 3)),
        (
            png(header(), chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", DATA), chunk(b"tIME", b"x"), END),
            Png(3, 2, 3),
        ),
        (
            png(header(2, 1, 8, 6, 0, 0, 0), chunk(b"IDAT", zlib.compress(b"\4" + b"rgba" * 2)), END),
            Png(2, 1, 4),
        ),
        (png(header(1, 1, 8, 0, 0, 0, 0), chunk(b"IDAT", zlib.compress(b"\0g")), END), Png(1, 1, 1)),
        (png(header(1, 1, 8, 4, 0, 0, 0), chunk(b"IDAT", zlib.compress(b"\0ga")), END), Png(1, 1, 2)),
    ],
)
def test_a_sound_file_is_measured(content: bytes, expected: Png) -> None:
    assert expected == read_png(content)


BROKEN = {
    "nothing": b"",
    "another file": b"GIF89a",
    "only a signature": SIGNATURE,
    "no header": png(chunk(b"IDAT", DATA), END),
    "two headers": png(header(), header(), chunk(b"IDAT", DATA), END),
    "a note before the header": png(chunk(b"tEXt", b"a"), header(), chunk(b"IDAT", DATA), END),
    "no data": png(header(), END),
    "no end": png(header(), chunk(b"IDAT", DATA)),
    "an end with something in it": png(header(), chunk(b"IDAT", DATA), chunk(b"IEND", b"x")),
    "trailing bytes": png(header(), chunk(b"IDAT", DATA), END) + b"\0",
    "a second end": png(header(), chunk(b"IDAT", DATA), END, END),
    "interrupted data": png(
        header(), chunk(b"IDAT", DATA[:5]), chunk(b"tEXt"), chunk(b"IDAT", DATA[5:]), END
    ),
    "a critical chunk that is not known": png(header(), chunk(b"PLTE", b"rgb"), chunk(b"IDAT", DATA), END),
    "a name that is none": png(header(), chunk(b"ID\0T", DATA), END),
    "a wrong checksum": png(header(), chunk(b"IDAT", DATA)[:-1] + b"\0", END),
    "a chunk that declares too much": png(header(), struct.pack(">I", 2**31) + b"IDAT" + DATA),
    "a short header": png(chunk(b"IHDR", b"\0\0\0\1"), chunk(b"IDAT", DATA), END),
    "no width": png(header(0, 2), chunk(b"IDAT", DATA), END),
    "a giant": png(header(2**31, 2**31), chunk(b"IDAT", DATA), END),
    "16 bits": png(header(3, 2, 16, 2, 0, 0, 0), chunk(b"IDAT", DATA), END),
    "a palette": png(header(3, 2, 8, 3, 0, 0, 0), chunk(b"IDAT", DATA), END),
    "interlaced": png(header(3, 2, 8, 2, 0, 0, 1), chunk(b"IDAT", DATA), END),
    "too few rows": png(header(3, 3), chunk(b"IDAT", DATA), END),
    "too many rows": png(header(3, 1), chunk(b"IDAT", DATA), END),
    "a bomb": png(header(), chunk(b"IDAT", zlib.compress(bytes(50_000_000))), END),
    "data that break off": png(header(), chunk(b"IDAT", DATA[:-1]), END),
    "data with something behind": png(header(), chunk(b"IDAT", DATA + b"x"), END),
    "data that are none": png(header(), chunk(b"IDAT", b"not packed"), END),
    "a wrong sum of the data": png(header(), chunk(b"IDAT", DATA[:-1] + bytes([DATA[-1] ^ 1])), END),
    "a filter that there is not": png(header(), chunk(b"IDAT", zlib.compress(b"\5" + ROWS[1:])), END),
    "too many chunks": png(header(), *[chunk(b"tEXt")] * 5000, chunk(b"IDAT", DATA), END),
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_everything_else_is_refused(content: bytes) -> None:
    with pytest.raises(PngInvalid) as caught:
        read_png(content)

    assert str(caught.value)


def test_every_cut_and_every_flipped_bit_is_found() -> None:
    whole = png(header(), chunk(b"IDAT", DATA), END)
    damaged = [whole[:size] for size in range(len(whole))]
    damaged += [
        bytes(byte ^ (1 << bit) if at == place else byte for at, byte in enumerate(whole))
        for place in range(len(whole))
        for bit in range(8)
    ]

    for content in damaged:
        with pytest.raises(PngInvalid):
            read_png(content)
