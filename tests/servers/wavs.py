"""Builders of WAV files, right ones and every sort of wrong one, chunk by chunk."""

import struct

SOUND = struct.pack("<8h", 0, 1, -1, 32_767, -32_768, 100, -100, 7)
PCM_SUBFORMAT = bytes.fromhex("0100000000001000800000aa00389b71")


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    declared = len(content) if size is None else size
    return name + struct.pack("<I", declared) + content + b"\0" * (len(content) % 2)


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


def fmt(
    *,
    tag: int = 1,
    channels: int = 1,
    rate: int = 16_000,
    byte_rate: int | None = None,
    align: int | None = None,
    bits: int = 16,
    extension: bytes = b"",
) -> bytes:
    align = channels * 2 if align is None else align
    byte_rate = min(rate * channels * 2, 2**32 - 1) if byte_rate is None else byte_rate
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, rate, byte_rate, align, bits) + extension)


def extensible(valid_bits: int = 16, subformat: bytes = PCM_SUBFORMAT, size: int = 22) -> bytes:
    return fmt(tag=0xFFFE, extension=struct.pack("<HHI", size, valid_bits, 4) + subformat)


DATA = chunk(b"data", SOUND)
