"""FLAC files made bit by bit, so that they can lie: heads, frames and their checksums, and what is wrong.

Written from RFC 9639, not with the code under test: verbatim and constant subframes alone.
"""

import hashlib
from dataclasses import dataclass, replace

Channels = list[list[int]]
"""Samples of each channel."""

BLOCK = 4096


@dataclass(frozen=True)
class Recipe:
    """What is in a file, and what its head says of it (None: the truth)."""

    samples: Channels
    rate: int = 16_000
    bits: int = 16
    total: int | None = None
    md5: bytes | None = None
    head_rate: int | None = None
    head_channels: int | None = None
    metadata: tuple[tuple[int, bytes], ...] = ()
    block: int = BLOCK


def made(recipe: Recipe) -> bytes:
    """The file."""
    return head(recipe) + b"".join(frames(recipe))


def of(*samples: int, **more: object) -> Recipe:
    """A recipe of one channel."""
    return replace(Recipe([list(samples)]), **more)  # type: ignore[arg-type]


def head(recipe: Recipe) -> bytes:
    """The marker and the metadata."""
    length = len(recipe.samples[0]) if recipe.total is None else recipe.total
    md5 = _md5(recipe) if recipe.md5 is None else recipe.md5
    rate = recipe.rate if recipe.head_rate is None else recipe.head_rate
    channels = recipe.head_channels or len(recipe.samples)
    packed = rate << 44 | (channels - 1) << 41 | (recipe.bits - 1) << 36 | length
    info = recipe.block.to_bytes(2, "big") * 2 + bytes(6) + packed.to_bytes(8, "big") + md5
    blocks = [(0, info), *recipe.metadata]
    coded = [
        bytes([kind | (0x80 if index == len(blocks) - 1 else 0)]) + len(content).to_bytes(3, "big") + content
        for index, (kind, content) in enumerate(blocks)
    ]
    return b"fLaC" + b"".join(coded)


def frames(recipe: Recipe) -> list[bytes]:
    """All frames of a file, one after the other."""
    length = len(recipe.samples[0])
    return [
        frame(number, [channel[at : at + recipe.block] for channel in recipe.samples], recipe)
        for number, at in enumerate(range(0, length, recipe.block))
    ]


def frame(number: int, samples: Channels, recipe: Recipe) -> bytes:
    """One frame: constant where all samples of a channel are one, else verbatim."""
    subframes = "".join(_subframe(channel, recipe.bits) for channel in samples)
    return closed(frame_head(number, len(samples[0]), len(samples)) + _bytes(subframes))


def constant_frame(number: int, length: int, channels: int, bits: int) -> bytes:
    """A frame of silence, as short as it can be."""
    subframes = ("0" * 8 + "0" * bits) * channels
    return closed(frame_head(number, length, channels) + _bytes(subframes))


def frame_head(number: int, length: int, channels: int) -> bytes:
    """Sizes do not vary; rate and bits are those of the file's head; the length stands in 16 bits."""
    content = b"\xff\xf8" + bytes([0x70, (channels - 1) << 4]) + _coded(number) + (length - 1).to_bytes(2, "big")
    return content + bytes([crc(content, 8, 0x07)])


def closed(content: bytes) -> bytes:
    """A frame with its checksum."""
    return content + crc(content, 16, 0x8005).to_bytes(2, "big")


def crc(content: bytes, bits: int, polynomial: int) -> int:
    """Bit by bit, as the standard writes it."""
    value, top, mask = 0, 1 << (bits - 1), (1 << bits) - 1
    for byte in content:
        value ^= byte << (bits - 8)
        for _ in range(8):
            value = (value << 1 ^ polynomial if value & top else value << 1) & mask
    return value


def _subframe(channel: list[int], bits: int) -> str:
    if len(set(channel)) == 1:
        return "0" * 8 + _binary(channel[0], bits)
    return "00000010" + "".join(_binary(sample, bits) for sample in channel)


def _binary(sample: int, bits: int) -> str:
    return format(sample & ((1 << bits) - 1), f"0{bits}b")


def _bytes(binary: str) -> bytes:
    padded = binary + "0" * (-len(binary) % 8)
    return int(padded, 2).to_bytes(len(padded) // 8, "big")


def _coded(number: int) -> bytes:
    """As UTF-8 codes characters; surrogates, too."""
    if number < 0x110000:
        return chr(number).encode("utf-8", "surrogatepass")
    tail = [0x80 | number >> shift & 0x3F for shift in (18, 12, 6, 0)]
    return bytes([0xF8 | number >> 24, *tail])


def _md5(recipe: Recipe) -> bytes:
    width = -(-recipe.bits // 8)
    interleaved = b"".join(
        sample.to_bytes(width, "little", signed=True) for moment in zip(*recipe.samples, strict=True) for sample in moment
    )
    return hashlib.md5(interleaved).digest()
