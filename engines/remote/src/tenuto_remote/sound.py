"""Checks and converts audio from a server: any common format in, mono PCM16 out."""

from __future__ import annotations

import io
import struct

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.float32]

MIN_RATE, MAX_RATE = 8_000, 192_000
MAX_SECONDS = 3600
MAX_BYTES = 256 << 20
QUIET = 1e-4
"""Audio whose loudest sample is below this (-80 dB) is not speech."""
BLOCK_FRAMES = 1 << 18

_UNKNOWN = 0x7FFF0000
"""A WAV size of 0, or from this value on, was written before the size was known: servers that stream do
so."""


class SoundInvalid(ValueError):
    """The bytes are not usable audio; the message says why."""


def decoded(content: bytes) -> tuple[int, Samples]:
    """The rate and the samples, all channels mixed into one. Raises SoundInvalid."""
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(_with_sizes(content))) as file:
            rate, blocks, frames = int(file.samplerate), [], 0
            while (
                frames <= MAX_SECONDS * rate
                and (block := file.read(BLOCK_FRAMES, dtype="float32", always_2d=True)).size
            ):
                blocks.append(block.mean(axis=1, dtype=np.float32))
                frames += len(block)
    except (soundfile.LibsndfileError, ValueError, TypeError, OSError) as error:
        raise SoundInvalid("is not audio in a known format") from error
    if not MIN_RATE <= rate <= MAX_RATE:
        raise SoundInvalid(f"has {rate} samples a second")
    if frames > MAX_SECONDS * rate:
        raise SoundInvalid(f"lasts longer than {MAX_SECONDS} s")
    samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if not np.isfinite(samples).all():
        raise SoundInvalid("holds samples that are no numbers")
    if float(np.abs(samples).max(initial=0)) < QUIET:
        raise SoundInvalid("is silent" if samples.size else "is empty")
    return rate, samples


def pcm(samples: Samples) -> bytes:
    """Samples in -1..1 as little-endian 16-bit integers; what is louder is cut off."""
    return np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()


def wav(content: bytes, rate: int) -> bytes:
    """A mono 16-bit WAV file with the canonical header of 44 bytes."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * 2, 2, 16)
    chunk = struct.pack("<4sI", b"data", len(content))
    return struct.pack("<4sI4s", b"RIFF", 36 + len(content), b"WAVE") + form + chunk + content


def _with_sizes(content: bytes) -> bytes:
    """Correct the sizes in a WAV header that was written before they were known.

    A header that names a size which is not there tells of a file that was cut. Raises SoundInvalid for that.
    """
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        return content
    at = 12
    while at + 8 <= len(content):
        name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
        left = len(content) - at - 8
        if name == b"data" and (size == 0 or size >= _UNKNOWN):
            sizes = struct.pack("<I", len(content) - 8), struct.pack("<I", left)
            return b"".join((content[:4], sizes[0], content[8 : at + 4], sizes[1], content[at + 8 :]))
        if size > left:
            raise SoundInvalid("is cut short")
        at += 8 + size + size % 2
    return content
