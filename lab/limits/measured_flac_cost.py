"""What a hostile FLAC costs: processor time of admission and of decoding, by the size of the file."""

import os
import random
import time
from contextlib import suppress

import pytest

from features.decoding.readers import as_pcm
from servers.flacs import NO_MD5, Recipe, frame_head, head, inspected, tiny_frames, with_checksum
from tenuto.media.flac import FlacInvalid

MIB = 1 << 20
INSPECT_S_PER_MIB = 1.0
"""Measured: 0.001 for recordings, 0.2 for frames of a few samples each; what was quadratic took 68 s."""
START_S, DECODE_S_PER_MIB = 2.0, 1.0
"""Measured: 0.3 and 0.05."""
CHANNELS = 8
LONGEST_BYTES = 2 * 65_535
"""Of a channel in one frame."""


def verbatim(content: bytes) -> bytes:
    """A sound file of eight channels whose samples are these bytes, in frames as large as they can be."""
    frames = []
    for number, at in enumerate(range(0, len(content), CHANNELS * LONGEST_BYTES)):
        samples = content[at : at + CHANNELS * LONGEST_BYTES]
        size = len(samples) // CHANNELS & ~1
        subframes = (b"\x02" + samples[first : first + size] for first in range(0, CHANNELS * size, size))
        frames.append(with_checksum(frame_head(number, size // 2, CHANNELS) + b"".join(subframes)))
    return head(Recipe([[0]] * CHANNELS, total=0, md5=NO_MD5, block=65_535)) + b"".join(frames)


def blocks(size: int) -> bytes:
    """Metadata blocks without content, and no frame."""
    return head(Recipe([[0]], total=0, md5=NO_MD5, metadata=((1, b""),) * (size // 4)))


WORST = {
    "samples that look like a sync": lambda size: verbatim(b"\xff\xf8" * (size // 2)),
    "samples that look like a sync of varying sizes": lambda size: verbatim(b"\xff\xf9" * (size // 2)),
    "syncs and other bytes in turns": lambda size: verbatim(b"\xff\xf8\0\0\xff\xf9\0\0" * (size // 8)),
    "samples that look like the beginning of a head": lambda size: verbatim(
        b"\xff\xf8\xc9\x08" * (size // 4)
    ),
    "samples that look like the head of the last frame": lambda size: verbatim(
        frame_head(1, 65_535, CHANNELS)[:8] * (size // 8)
    ),
    "samples that look like whole frames": lambda size: verbatim(
        with_checksum(frame_head(1, 16, 1) + b"\0\0\0") * (size // 28) * 2
    ),
    "random samples": lambda size: verbatim(random.Random(1).randbytes(size)),
    "frames of a few samples each": tiny_frames,
    "metadata blocks without content": blocks,
}
"""Files made to be slow, by about how many bytes they have."""


@pytest.mark.parametrize("what", WORST)
def test_to_inspect_a_hostile_flac_costs_no_more_than_its_size(what: str) -> None:
    """Half a MiB and four times as much: each within a fixed processor time for each MiB (A2, P14)."""
    for size in (MIB // 2, 2 * MIB):
        content = WORST[what](size)

        assert inspection_s(content) < 0.05 + INSPECT_S_PER_MIB * size / MIB


@pytest.mark.parametrize("what", [what for what in WORST if what != "metadata blocks without content"])
def test_to_decode_a_hostile_flac_costs_no_more_than_its_size(what: str) -> None:
    """The same of the decoding child, whose time is limited by the length of the sound besides (A2, P14)."""
    for size in (MIB // 2, 2 * MIB):
        content = WORST[what](size)

        assert decoding_s(content) < START_S + DECODE_S_PER_MIB * size / MIB


def inspection_s(content: bytes) -> float:
    """Processor time of this thread; whether the file is admitted does not matter."""
    began_s = time.thread_time()
    with suppress(FlacInvalid):
        inspected(content)
    return time.thread_time() - began_s


def decoding_s(content: bytes) -> float:
    """Processor time of the decoding child, its start included."""
    before = sum(os.times()[2:4])
    with suppress(FlacInvalid):
        as_pcm(content, 7_200_000)
    return sum(os.times()[2:4]) - before
