"""PCM16 WAV files: written in one canonical form, read with nothing taken on trust.

The reader is for files from outside (uploads, engines): a header may lie, so every size is compared with the
bytes before any of them is used. Nothing here knows what the sound is for, or how long it may be.
"""

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    pass

MIN_SAMPLE_RATE = 8_000
MAX_SAMPLE_RATE = 192_000
MAX_CHANNELS = 2
BYTES_PER_SAMPLE = 2
# Files have a handful of chunks; more are there to keep us busy.
MAX_CHUNKS = 64

QUIET = 130
"""The largest absolute value of a quiet sample."""

_PCM = 0x0001
_EXTENSIBLE = 0xFFFE
# The sub-format of EXTENSIBLE that says PCM: {00000001-0000-0010-8000-00AA00389B71}.
_PCM_SUBFORMAT = bytes.fromhex("0100000000001000800000aa00389b71")
_OTHER_FORMS = {
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"ID3": "MP3",
    b"\xff\xfb": "MP3",
    b"FORM": "AIFF",
    b"RF64": "RF64",
    b"RIFX": "RIFX",
}
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
HEADER_BYTES = _HEADER.size
"""What `pcm16_wav` puts before the samples."""
_CHUNK = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")


class WavInvalid(ValueError):
    """The bytes are not a PCM16 WAV file; the message says why."""


class Wav(Struct, frozen=True):
    """A PCM16 WAV that was read: `frames` are its interleaved little-endian samples, not copied."""

    sample_rate: int
    channels: int
    frames: memoryview

    @property
    def frame_count(self) -> int:
        """Samples per channel."""
        return len(self.frames) // (self.channels * BYTES_PER_SAMPLE)

    @property
    def duration_ms(self) -> int:
        """The duration of the frames that are there, rounded to the nearest millisecond."""
        return (self.frame_count * 2000 + self.sample_rate) // (2 * self.sample_rate)


def pcm16_wav(samples: bytes, sample_rate: int, channels: int) -> bytes:
    """A WAV file with the 44-byte header around interleaved little-endian 16-bit samples."""
    frame_bytes = channels * BYTES_PER_SAMPLE
    assert 1 <= channels <= MAX_CHANNELS, channels
    assert MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE, sample_rate
    assert len(samples) % frame_bytes == 0, (len(samples), frame_bytes)
    assert len(samples) <= 2**32 - 1 - _HEADER.size, len(samples)
    header = _HEADER.pack(
        b"RIFF",
        len(samples) + _HEADER.size - 8,
        b"WAVE",
        b"fmt ",
        _FORMAT.size,
        _PCM,
        channels,
        sample_rate,
        sample_rate * frame_bytes,
        frame_bytes,
        8 * BYTES_PER_SAMPLE,
        b"data",
        len(samples),
    )
    return header + samples


def read_pcm16_wav(content: bytes) -> Wav:
    """The format and frames of a PCM16 WAV file: RIFF, 1–2 channels, 8–192 kHz, perhaps without any frame.

    Exactly one `fmt ` chunk (PCM, or EXTENSIBLE of PCM) stands before exactly one `data` chunk; others are
    skipped. All sizes must agree with the bytes. Raises WavInvalid otherwise.
    """
    sample_rate = channels = 0
    frames: memoryview | None = None
    for name, chunk in _chunks(content):
        if name == b"fmt ":
            _require(not channels, "it has more than one fmt chunk")
            sample_rate, channels = _format(chunk)
        elif name == b"data":
            _require(frames is None, "it has more than one data chunk")
            _require(bool(channels), "its data chunk stands before a fmt chunk")
            frames = chunk
    if frames is None:
        raise WavInvalid("it has no data chunk")
    frame_bytes = channels * BYTES_PER_SAMPLE
    _require(
        len(frames) % frame_bytes == 0,
        f"its data of {len(frames)} bytes is not a whole number of frames of {frame_bytes} bytes",
    )
    return Wav(sample_rate, channels, frames)


def is_quiet(wav: Wav) -> bool:
    """Whether no sample of the file is loud; a file without samples is quiet."""
    import numpy as np

    samples = np.frombuffer(wav.frames, dtype="<i2")
    return not samples.size or (int(samples.max()) <= QUIET and int(samples.min()) >= -QUIET)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise WavInvalid(reason)


def _chunks(content: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """The chunks inside the RIFF form, each whole; the form ends where the content ends."""
    is_wave = len(content) >= 12 and content[:4] == b"RIFF" and content[8:12] == b"WAVE"
    _require(is_wave, f"it is not RIFF WAVE{_other_form(content)}")
    declared = int.from_bytes(content[4:8], "little") + 8
    _require(declared == len(content), f"its header declares {declared} bytes, but there are {len(content)}")
    view = memoryview(content)
    position = 12
    for _ in range(MAX_CHUNKS):
        if position == len(content):
            return
        _require(
            len(content) - position >= _CHUNK.size, f"it has {len(content) - position} stray bytes at its end"
        )
        name, size = _CHUNK.unpack_from(content, position)
        start = position + _CHUNK.size
        _require(
            size <= len(content) - start,
            f"its {_printable(name)} chunk declares {size} bytes, but only {len(content) - start} follow",
        )
        yield name, view[start : start + size]
        # A chunk of odd size is followed by a byte of padding.
        position = start + size + size % 2
        _require(position <= len(content), f"its {_printable(name)} chunk has no padding")
    _require(position == len(content), f"it has more than {MAX_CHUNKS} chunks")


def _other_form(content: bytes) -> str:
    """What a file is instead, where its first bytes say so: files often have the wrong extension."""
    for start, form in _OTHER_FORMS.items():
        if content.startswith(start):
            return f" but {form}"
    return ""


def _format(chunk: memoryview) -> tuple[int, int]:
    """Sample rate and channels, once the whole `fmt ` chunk is consistent."""
    _require(len(chunk) >= _FORMAT.size, f"its fmt chunk has only {len(chunk)} bytes")
    tag, channels, sample_rate, byte_rate, block_align, bits = _FORMAT.unpack_from(chunk)
    _require_pcm(tag, chunk)
    _require(bits == 8 * BYTES_PER_SAMPLE, f"it has {bits} bits per sample; 16 are needed")
    _require(1 <= channels <= MAX_CHANNELS, f"it has {channels} channels; 1 or 2 are allowed")
    _require(
        MIN_SAMPLE_RATE <= sample_rate <= MAX_SAMPLE_RATE,
        f"its sample rate is {sample_rate} Hz; from {MIN_SAMPLE_RATE} to {MAX_SAMPLE_RATE} Hz are allowed",
    )
    frame_bytes = channels * BYTES_PER_SAMPLE
    _require(block_align == frame_bytes, f"its block align is {block_align}; {frame_bytes} is right")
    expected = sample_rate * frame_bytes
    _require(byte_rate == expected, f"its byte rate is {byte_rate}; {expected} is right")
    return sample_rate, channels


def _require_pcm(tag: int, chunk: memoryview) -> None:
    if tag == _PCM:
        # Some writers add an empty extension; one that holds something belongs to another format.
        plain = len(chunk) == _FORMAT.size or bytes(chunk[_FORMAT.size :]) == b"\0\0"
        _require(plain, "its fmt chunk is too long for PCM")
    elif tag == _EXTENSIBLE:
        _require(len(chunk) == 40 and bytes(chunk[16:18]) == b"\x16\0", "its EXTENSIBLE format is incomplete")
        _require(bytes(chunk[24:40]) == _PCM_SUBFORMAT, "its EXTENSIBLE format is not PCM")
        valid_bits = int.from_bytes(chunk[18:20], "little")
        _require(valid_bits == 16, f"it has {valid_bits} valid bits per sample; 16 are needed")
    else:
        raise WavInvalid(f"its format is 0x{tag:04x}; PCM is needed")


def _printable(name: bytes) -> str:
    text = name.decode("latin-1").strip()
    return text if text.isascii() and text.isalnum() else name.hex()
