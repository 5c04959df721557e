"""PCM16 WAV files: written with the 44-byte header, and read strictly. Knows no text and no model."""

from __future__ import annotations

import io
import struct
import wave

HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
MIN_RATE, MAX_RATE = 8_000, 192_000
"""In Hz; the service accepts no other."""


def pcm16_wav(samples: bytes, rate: int, channels: int = 1) -> bytes:
    """A WAV file around interleaved, little-endian 16-bit samples."""
    width = 2 * channels
    sound = (b"fmt ", 16, 1, channels, rate, rate * width, width, 16)
    return HEADER.pack(b"RIFF", len(samples) + 36, b"WAVE", *sound, b"data", len(samples)) + samples


def read_pcm16_wav(content: bytes) -> tuple[bytes, int, int]:
    """The samples of a WAV file, its rate in Hz and its channels. ValueError says what is wrong with it."""
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError("it is not RIFF WAVE")
    declared = int.from_bytes(content[4:8], "little") + 8
    if declared != len(content):
        raise ValueError(f"its header declares {declared} bytes, but there are {len(content)}")
    try:
        with wave.open(io.BytesIO(content)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            count = file.getnframes()
            samples = file.readframes(count)
    except (wave.Error, EOFError) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if width != 2 or channels not in (1, 2) or not MIN_RATE <= rate <= MAX_RATE:
        form = f"{8 * width} bits, {channels} channels, {rate} Hz"
        raise ValueError(
            f"it has {form}; 16 bits, 1 or 2 channels and {MIN_RATE} to {MAX_RATE} Hz are allowed"
        )
    if len(samples) != count * 2 * channels:
        raise ValueError("its data is shorter than its header declares")
    return samples, rate, channels


def duration_ms(samples: bytes, rate: int, channels: int = 1) -> int:
    """How long 16-bit samples last, rounded to the nearest millisecond."""
    return (len(samples) // (2 * channels) * 2000 + rate) // (2 * rate)
