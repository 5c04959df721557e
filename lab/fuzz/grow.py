"""Inputs grown from seeds: a file of a corpus with a few of its bytes changed. Knows no parser."""

import random
from collections.abc import Sequence

MOST_CHANGES = 6
LONGEST_BYTES = 1 << 16
_NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def grown(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds, or two spliced, changed at up to six places; a tenth of them is noise alone."""
    if draw.random() < 0.1:
        return draw.randbytes(draw.randrange(200))
    content = bytearray(draw.choice(seeds))
    if draw.random() < 0.1:
        other = draw.choice(seeds)
        content = content[: draw.randrange(len(content) + 1)] + other[draw.randrange(len(other) + 1) :]
    for _ in range(draw.randint(1, MOST_CHANGES)):
        _change(draw, content)
    return bytes(content[:LONGEST_BYTES])


def _change(draw: random.Random, content: bytearray) -> None:
    """One change at one place, mostly near the beginning, where the heads are."""
    place = min(draw.randrange(len(content) + 1), draw.randrange(len(content) + 1))
    match draw.randrange(6):
        case 0 if place < len(content):
            content[place] ^= 1 << draw.randrange(8)
        case 1 if place < len(content):
            content[place] = draw.randrange(256)
        case 2:
            del content[place : place + draw.choice((1, 1, 2, 4, 64, 5000))]
        case 3:
            content[place:place] = draw.randbytes(draw.choice((1, 1, 2, 4, 16)))
        case 4:
            size = draw.choice((1, 2, 4, 8))
            number = draw.choice(_NUMBERS) & ((1 << 8 * size) - 1)
            content[place : place + size] = number.to_bytes(size, draw.choice(("big", "little")))
        case _:
            piece = content[place : place + draw.choice((1, 4, 32))]
            content[place:place] = piece * draw.choice((1, 2, 50))
