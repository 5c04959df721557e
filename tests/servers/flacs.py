"""FLAC files made bit by bit, so that they can lie: heads, frames and their checksums; and a corpus of liars.

Written from RFC 9639, not with the code under test: verbatim and constant subframes alone.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from fastcrc import crc16

from tenuto.media.flac import FlacSummary, Inspection

Channels = list[list[int]]
"""Samples of each channel."""

BLOCK = 4096
MAX_BLOCK = 65_535
NO_MD5 = bytes(16)


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


def noise(count: int, seed: int = 1, bits: int = 16) -> list[int]:
    """Samples that are never all the same."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    numbers = random.Random(seed)
    return [numbers.randint(low, high) for _ in range(count)]


def silence(
    seconds: float, *, rate: int, channels: int = 1, bits: int = 16, total: int | None = None
) -> bytes:
    """A long file of few bytes: nothing but constant frames, and no MD5."""
    count = round(seconds * rate)
    sizes = [MAX_BLOCK] * (count // MAX_BLOCK) + ([count % MAX_BLOCK] if count % MAX_BLOCK else [])
    recipe = Recipe(
        [[0]] * channels, rate, bits, total=count if total is None else total, md5=NO_MD5, block=MAX_BLOCK
    )
    coded = (constant_frame(number, size, channels, bits) for number, size in enumerate(sizes))
    return head(recipe) + b"".join(coded)


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
    fixed = b"\xff\xf8" + bytes([0x70, (channels - 1) << 4])
    content = fixed + _coded(number) + (length - 1).to_bytes(2, "big")
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
        sample.to_bytes(width, "little", signed=True)
        for moment in zip(*recipe.samples, strict=True)
        for sample in moment
    )
    return hashlib.md5(interleaved).digest()


def _changed(content: bytes, at: int, value: int) -> bytes:
    return content[:at] + bytes([value]) + content[at + 1 :]


def _hiding() -> bytes:
    """One frame of 64 samples, among whose bytes it seems to end and another of 64 samples to begin."""
    whole = closed(frame_head(0, 64, 1) + b"\x02" + bytes(range(40)))
    inner = frame_head(1, 64, 1) + b"\x02"
    rest = bytes(range(128 - 40 - 2 - len(inner)))
    return head(replace(_UNSAID, block=64)) + closed(whole + inner + rest)


def _uneven() -> bytes:
    """A frame in the middle is shorter than the first."""
    sizes = (256, 128, 256)
    sound = b"".join(frame(number, [noise(size)], _UNSAID) for number, size in enumerate(sizes))
    return head(_UNSAID) + sound


_SOUND = Recipe([noise(10_000)])
_UNSAID = replace(_SOUND, total=0, md5=NO_MD5)

REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "an empty file": (lambda: b"", "begin"),
    "a WAV under another name": (lambda: b"RIFF\x24\0\0\0WAVEfmt " + bytes(40), "begin"),
    "an MP3's tag before the marker": (lambda: b"ID3\4" + bytes(6) + made(_SOUND), "begin"),
    "FLAC inside Ogg": (lambda: b"OggS" + made(_SOUND), "begin"),
    "the marker alone": (lambda: b"fLaC", "metadata"),
    "cut off in its metadata": (lambda: made(_SOUND)[:30], "metadata"),
    "metadata without STREAMINFO": (lambda: b"fLaC\x81\0\0\0" + frames(_SOUND)[0], "STREAMINFO"),
    "two STREAMINFO blocks": (lambda: made(replace(_SOUND, metadata=((0, bytes(34)),))), "STREAMINFO"),
    "a STREAMINFO of a wrong size": (lambda: b"fLaC\x80\0\0\x21" + bytes(33), "STREAMINFO"),
    "a metadata block of the forbidden type": (
        lambda: made(replace(_SOUND, metadata=((127, b"x"),))),
        "forbidden",
    ),
    "a metadata block longer than the file": (
        lambda: made(_SOUND)[:4] + b"\x04\xff\xff\xff" + b"x",
        "STREAMINFO",
    ),
    "a head and no frame": (lambda: head(_SOUND), "no audio"),
    "a head that promises no frames, and has none": (lambda: head(_UNSAID), "no audio"),
    "a sample rate of 0": (lambda: made(replace(_SOUND, head_rate=0)), "0 Hz"),
    "samples of 20 bits": (lambda: made(Recipe([noise(5000, bits=20)], bits=20)), "20 bits"),
    "two channels promised, one there": (lambda: made(replace(_SOUND, head_channels=2)), "channels"),
    "one channel promised, two there": (
        lambda: made(replace(_SOUND, samples=[noise(5000), noise(5000, 2)], head_channels=1)),
        "channels",
    ),
    "a frame fewer than promised": (lambda: head(_SOUND) + b"".join(frames(_SOUND)[:-1]), "promises 10000"),
    "a sample fewer promised than there are": (lambda: made(replace(_SOUND, total=9_999)), "promises 9999"),
    "a sample more promised than there are": (lambda: made(replace(_SOUND, total=10_001)), "promises 10001"),
    "cut off by one byte": (lambda: made(_SOUND)[:-1], "cut off"),
    "cut off by one byte, no length promised": (lambda: made(_UNSAID)[:-1], "cut off"),
    "cut off in its first frame": (lambda: made(_UNSAID)[:500], "cut off"),
    "a text behind its last frame": (lambda: made(_SOUND) + b"TAG", "damaged"),
    "a byte behind its last frame that could begin one": (lambda: made(_SOUND) + b"\xff", "followed"),
    "two files, one behind the other": (lambda: made(_SOUND) * 2, "damaged"),
    "a bit turned in a frame": (lambda: _changed(made(_SOUND), 9000, made(_SOUND)[9000] ^ 1), "damaged"),
    "zeros for a frame's head": (lambda: head(_SOUND) + bytes(8) + b"".join(frames(_SOUND)), "no frame"),
    "garbage between two frames": (
        lambda: head(_SOUND) + frames(_SOUND)[0] + b"garbage" + b"".join(frames(_SOUND)[1:]),
        "damaged",
    ),
    "a frame twice, a length and MD5 unsaid": (
        lambda: head(_UNSAID) + frames(_UNSAID)[0] * 2,
        "missing",
    ),
    "120 minutes and one sample": (lambda: silence(7200 + 1 / 8000, rate=8000), "120 minutes"),
    "120 minutes and one sample, no length promised": (
        lambda: silence(7200 + 1 / 8000, rate=8000, total=0),
        "120 minutes",
    ),
    "120 minutes and one sample, one minute promised": (
        lambda: silence(7200 + 1 / 8000, rate=8000, total=480_000),
        "120 minutes",
    ),
    "two hours of 192 kHz in eight channels": (
        lambda: silence(7200, rate=192_000, channels=8, bits=24),
        "more than",
    ),
    "more metadata blocks than any file has": (
        lambda: made(replace(_SOUND, metadata=((1, b""),) * 2000)),
        "1024 metadata blocks",
    ),
    "zeros behind its last frame": (lambda: made(_SOUND) + bytes(4096), "followed by"),
    "a frame of half the size before another": (_uneven, "another size"),
}
"""What is wrong with each, how it is made, and a word of the reason that is given."""

ONLY_DECODED: dict[str, tuple[Callable[[], bytes], str]] = {
    "a MD5 of other samples": (lambda: made(replace(_SOUND, md5=b"x" * 16)), "MD5"),
    "a reserved kind of subframe": (
        lambda: (
            head(replace(_UNSAID, samples=[[0] * 16])) + closed(frame_head(0, 16, 1) + b"\x04" + bytes(2))
        ),
        "damaged",
    ),
    "a frame hidden in another": (_hiding, "as many samples"),
}
"""What no checksum shows: admitted, and refused when it is decoded."""

ADMITTED: dict[str, tuple[Callable[[], bytes], tuple[int, int, int]]] = {
    "16 kHz, mono, 16 bit": (lambda: made(_SOUND), (10_000, 16_000, 1)),
    "no length and no MD5 promised": (lambda: made(_UNSAID), (10_000, 16_000, 1)),
    "one sample": (lambda: made(of(1)), (1, 16_000, 1)),
    "stereo of 24 bits": (
        lambda: made(Recipe([noise(9000, 1, 24), noise(9000, 2, 24)], 96_000, 24)),
        (9000, 96_000, 2),
    ),
    "eight channels of 8 bits": (
        lambda: made(Recipe([noise(5000, seed, 8) for seed in range(8)], 44_100, 8)),
        (5000, 44_100, 8),
    ),
    "a rate that nobody uses": (lambda: made(Recipe([noise(5000)], 123_457)), (5000, 123_457, 1)),
    "frames numbered with two bytes": (
        lambda: made(replace(_SOUND, block=16, samples=[noise(4000)])),
        (4000, 16_000, 1),
    ),
    "pictures and padding in its metadata": (
        lambda: made(replace(_SOUND, metadata=((6, bytes(1 << 20)), (1, bytes(8192))))),
        (10_000, 16_000, 1),
    ),
    "silence that looks like the beginning of a frame": (
        lambda: made(of(*[-8] * 3000, *noise(1000), *[-8] * 96)),
        (4096, 16_000, 1),
    ),
    "120 minutes to the sample": (lambda: silence(7200, rate=8000), (57_600_000, 8_000, 1)),
}
"""What is right with each, how it is made, and its frames, rate and channels."""


def tiny_frames(size: int) -> bytes:
    """Frames as short as they can be."""
    count = size // 15
    recipe = Recipe([[0]], total=0, md5=NO_MD5, block=16)
    frames = (with_checksum(frame_head(number, 16, 1) + b"\0\0\0") for number in range(count))
    return head(recipe) + b"".join(frames)


def with_checksum(content: bytes) -> bytes:
    """A frame with its checksum; `closed` is the same and takes seconds for a MiB."""
    return content + crc16.umts(content).to_bytes(2, "big")


def inspected(content: bytes, piece_bytes: int = 1 << 20) -> FlacSummary:
    """What admission knows of it."""
    inspection = Inspection()
    for at in range(0, len(content), piece_bytes):
        inspection.add(content[at : at + piece_bytes])
    return inspection.finish()
