"""Decoding a caller's sound file takes bounded memory, however long the sound is."""

import io

import numpy as np
import soundfile

from features.decoding.readers import Peak, as_pcm, converted
from servers.flacs import silence
from tenuto.features.decoding.wav import pcm16_wav

RATE, CHANNELS = 48_000, 8
MIB = 1 << 20


def test_a_bomb_takes_no_more_memory_than_a_second_of_it() -> None:
    """Ten minutes of eight channels in a few bytes, and a large file: one block is in memory at a time."""
    bomb, peaks = silent_flac(600), {}
    for name, content in (
        ("a second", silent_flac(1)),
        ("a bomb", bomb),
        ("large", pcm16_wav(bytes(64 * MIB), 44_100, 2)),
    ):
        with Peak(b"tenuto.features.recognition.to_flac") as peak:
            converted(content)
        peaks[name] = peak.bytes

    assert len(bomb) < 2 * MIB
    assert max(peaks.values()) < peaks["a second"] + 24 * MIB, peaks


def test_a_flac_bomb_ends_within_its_limits() -> None:
    """A minute of eight channels at 192 kHz in a few bytes takes no more memory than a second of it."""
    content = silence(60, rate=192_000, channels=8, bits=24)
    with Peak(b"tenuto.features.recognition.flac_child") as peak:
        duration_ms = as_pcm(content)[0].summary.duration_ms

    assert 60_000 == duration_ms
    assert len(content) < 10_000
    assert 0 < peak.bytes <= 200 << 20


def silent_flac(seconds: int) -> bytes:
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", RATE, CHANNELS, "PCM_16", format="FLAC") as sink:
        for _ in range(seconds):
            sink.write(np.zeros((RATE, CHANNELS), np.int16))
    return file.getvalue()
