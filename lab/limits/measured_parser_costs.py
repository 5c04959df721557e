"""What hostile bytes cost our own parsers: processor time by size, and a bound on it.

FLAC has a test of its own (`measured_flac_cost.py`), the texts of speech another.
"""

import gc
import struct
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tenuto import strict_json
from tenuto.api.json_body import decode_name
from tenuto.errors import TenutoError
from tenuto.features.decoding import wav
from tenuto.features.http_guard.framing import framing_fault
from tenuto.features.image import png
from tenuto.features.recognition import recognise_chunk
from tenuto.features.voices import rules as voices
from tenuto_kokoro import emotion_text
from tenuto_pictograms.prompt import Reader

MIB = 1 << 20
SLACK_S = 0.05
TRIES = 3
"""A loaded machine slows one of two readings now and then, not each time."""
EMOTIONS = ("happy", "angry", "sad", "fear", "disgust", "low", "surprise", "calm")

Parse = Callable[[Any], object]


def wav_chunks(size: int) -> bytes:
    chunks = b"LIST\0\0\0\0" * (size // 8)
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


def png_chunk(name: bytes, content: bytes = b"") -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum


def png_file(chunks: bytes, side: int = 1) -> bytes:
    return png.SIGNATURE + png_chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + chunks


def png_bomb(size: int) -> bytes:
    """Unpacks to as many bytes as it may and one more, in as many chunks as there may be."""
    packed = zlib.compress(bytes((1 + 3 * 2048) * 2048 + 1))
    step = -(-len(packed) * 64 // size)
    return png_file(
        b"".join(png_chunk(b"IDAT", packed[at : at + step]) for at in range(0, len(packed), step)), 2048
    )


def repeated(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * size)[: size // len(unit[0].encode())]


def read_strengths(text: str) -> object:
    return emotion_text.strengths(text, EMOTIONS)


def read_prompt(text: str) -> object:
    return Reader().read(text)


def find_circles(text: str) -> object:
    return recognise_chunk._repetitions([{"text": text, "start": 0.0}])


WORST: dict[str, tuple[Parse, Callable[[int], Any], int, float]] = {
    "WAV: chunks without content": (wav.read_pcm16_wav, wav_chunks, MIB, 0.1),
    "PNG: chunks without content": (
        png.read_png,
        lambda n: png_file(png_chunk(b"teXt") * (n // 12)),
        MIB,
        0.2,
    ),
    "PNG: a bomb in small pieces": (png.read_png, png_bomb, MIB // 4, 0.5),
    "JSON: brackets": (strict_json.parse, lambda n: b"[" * n, MIB, 0.2),
    "JSON: objects without members": (
        strict_json.parse,
        lambda n: b"[" + b"{}," * (n // 3) + b"1]",
        MIB,
        3.0,
    ),
    "JSON: digits": (strict_json.parse, lambda n: b"1" * n, MIB, 0.2),
    "JSON: an exponent of digits": (strict_json.parse, lambda n: b"1e" + b"1" * n, MIB, 0.2),
    "JSON: escapes": (strict_json.parse, lambda n: b'"' + b"\\u0041" * (n // 6) + b'"', MIB, 0.2),
    "JSON: many names": (
        strict_json.parse,
        lambda n: b"{" + b",".join(b'"%d":1' % one for one in range(n // 10)) + b"}",
        MIB,
        1.5,
    ),
    "a voice's name in percents": (decode_name, lambda n: b"%E5%A3%B0" * (n // 9), MIB // 16, 0.2),
    "a voice's name of marks": (
        lambda text: voices.name_fault("name", text),
        repeated("e\N{COMBINING ACUTE ACCENT}"),
        MIB // 16,
        0.2,
    ),
    "transfer codings": (
        lambda value: framing_fault("1.1", [(b"transfer-encoding", value)]),
        lambda n: b"chunked," * (n // 8),
        MIB // 16,
        0.1,
    ),
    "an emotion's text of one word": (read_strengths, repeated("not "), 2048, 0.2),
    "an emotion's text of marks": (read_strengths, repeated("!"), 2048, 0.2),
    "an emotion's text in Chinese": (read_strengths, repeated("哈"), 2048, 0.2),
    "a prompt of one word": (read_prompt, repeated("a"), 20_000, 0.5),
    "a prompt of relations": (read_prompt, repeated("cat left of "), 20_000, 0.5),
    "a prompt of things": (read_prompt, repeated("a cat and "), 20_000, 0.5),
    "a prompt in Chinese": (read_prompt, repeated("红色的太阳，"), 20_000, 0.5),
    "a transcript in circles of almost the same words": (
        find_circles,
        repeated("abababababababababababababababc"),
        20_000,
        0.5,
    ),
}
"""What parses, what makes the input, how large it may be, and the processor seconds that it may take then.

Each bound is some ten times what was measured.
"""


@pytest.mark.parametrize("what", WORST)
def test_hostile_bytes_cost_no_more_than_their_size(what: str) -> None:
    """Four times the bytes take about four times as long, and the most that may come has a bound (P14)."""
    parse, make, size, limit_s = WORST[what]
    parse_s(parse, make(size // 16))
    gc.collect()
    gc.freeze()  # or the collector would look at what all other tests have left, for each object that is made
    try:
        assert any(is_linear(parse, make, size, limit_s) for _ in range(TRIES))
    finally:
        gc.unfreeze()


def is_linear(parse: Parse, make: Callable[[int], Any], size: int, limit_s: float) -> bool:
    quarter_s, whole_s = (parse_s(parse, make(share)) for share in (size // 4, size))
    return whole_s < min(limit_s, 8 * quarter_s + SLACK_S)


def parse_s(parse: Parse, content: Any) -> float:
    """Processor time of the quicker of two readings; whether it is refused does not matter."""
    took = []
    for _ in range(2):
        began_s = time.thread_time()
        with suppress(ValueError, TenutoError):
            parse(content)
        took.append(time.thread_time() - began_s)
    return min(took)
