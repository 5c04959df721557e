"""PCM16 WAV: what is written is read back, and what lies is refused."""

import io
import wave

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servers.wavs import DATA, PCM_SUBFORMAT, SOUND, chunk, extensible, fmt, riff
from tenuto.features.decoding.wav import MAX_CHUNKS, WavInvalid, pcm16_wav, read_pcm16_wav

RATES = st.sampled_from([8_000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000, 192_000])


@given(st.binary(max_size=200), RATES, st.integers(1, 2))
@example(b"", 8_000, 1)
def test_round_trip(noise: bytes, rate: int, channels: int) -> None:
    samples = noise[: len(noise) // (2 * channels) * 2 * channels]
    written = pcm16_wav(samples, rate, channels)
    theirs = io.BytesIO()
    with wave.open(theirs, "wb") as writer:
        writer.setparams((channels, 2, rate, 0, "NONE", ""))
        writer.writeframes(samples)
    with wave.open(io.BytesIO(written)) as reader:
        seen = (reader.getframerate(), reader.getnchannels(), reader.getsampwidth(), reader.readframes(200))
    read = read_pcm16_wav(written)

    assert theirs.getvalue() == written
    assert (rate, channels, 2, samples) == seen
    assert (rate, channels, samples) == (read.sample_rate, read.channels, bytes(read.frames))
    assert len(samples) // (2 * channels) == read.frame_count


@pytest.mark.parametrize(
    ("frames", "rate", "expected_ms"),
    [
        (0, 8_000, 0),
        (11, 24_000, 0),
        (8_004, 8_000, 1001),
        (44_100 * 15, 44_100, 15_000),
    ],
)
def test_duration(frames: int, rate: int, expected_ms: int) -> None:
    read = read_pcm16_wav(pcm16_wav(bytes(2 * 2 * frames), rate, 2))

    assert expected_ms == read.duration_ms


@pytest.mark.parametrize(
    "content",
    [
        riff(fmt(), DATA),
        riff(fmt(extension=b"\0\0"), DATA),
        riff(extensible(), DATA),
        riff(chunk(b"LIST", b"odd"), fmt(), chunk(b"fact", b"1234"), DATA, chunk(b"id3 ", b"x")),
        riff(fmt(), chunk(b"\xff\0\n\x7f", b""), DATA),
        riff(fmt(), DATA, *[chunk(b"junk", b"")] * (MAX_CHUNKS - 2)),
    ],
)
def test_accepted(content: bytes) -> None:
    read = read_pcm16_wav(content)

    assert (16_000, 1, SOUND) == (read.sample_rate, read.channels, bytes(read.frames))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not RIFF WAVE"),
        (b"RIFF", "it is not RIFF WAVE"),
        (b"RIFX" + riff(fmt(), DATA)[4:], "it is not RIFF WAVE but RIFX"),
        (b"fLaC" + bytes(100), "it is not RIFF WAVE but FLAC"),
        (b"OggS" + bytes(100), "it is not RIFF WAVE but Ogg"),
        (b"ID3\4" + bytes(100), "it is not RIFF WAVE but MP3"),
        (b"RIFF\x04\0\0\0AVI ", "it is not RIFF WAVE"),
        (riff(), "it has no data chunk"),
        (riff(fmt()), "it has no data chunk"),
        (riff(DATA, fmt()), "its data chunk stands before a fmt chunk"),
        (riff(fmt(), fmt(), DATA), "it has more than one fmt chunk"),
        (riff(fmt(), DATA, DATA), "it has more than one data chunk"),
        (riff(fmt(), DATA, fmt()), "it has more than one fmt chunk"),
        (riff(fmt(), DATA) + b"x", "its header declares 60 bytes, but there are 61"),
        (riff(fmt(), DATA)[:-1], "its header declares 60 bytes, but there are 59"),
        (riff(fmt(), DATA, size=0xFFFFFFFF), "its header declares 4294967303 bytes, but there are 60"),
        (riff(fmt(), DATA, size=0), "its header declares 8 bytes, but there are 60"),
        (riff(fmt(), DATA, b"abc"), "it has 3 stray bytes at its end"),
        (riff(fmt(), chunk(b"data", SOUND, 17)), "its data chunk declares 17 bytes, but only 16 follow"),
        (
            riff(fmt(), chunk(b"data", SOUND, 0xFFFFFFFF)),
            "its data chunk declares 4294967295 bytes, but only 16 follow",
        ),
        (
            riff(fmt(), DATA, chunk(b"a\0\xffb", b"", 9)),
            "its 6100ff62 chunk declares 9 bytes, but only 0 follow",
        ),
        (riff(fmt(), DATA, b"id3 \x01\0\0\0x"), "its id3 chunk has no padding"),
        (
            riff(fmt(), chunk(b"data", SOUND[:-1])),
            "its data of 15 bytes is not a whole number of frames of 2 bytes",
        ),
        (
            riff(fmt(channels=2), chunk(b"data", SOUND[:-2])),
            "its data of 14 bytes is not a whole number of frames of 4 bytes",
        ),
        (riff(fmt(), DATA, *[chunk(b"junk", b"")] * (MAX_CHUNKS - 1)), "it has more than 64 chunks"),
        (riff(chunk(b"fmt ", b"\1\0"), DATA), "its fmt chunk has only 2 bytes"),
        (riff(fmt(tag=3), DATA), "its format is 0x0003; PCM is needed"),
        (riff(fmt(bits=8), DATA), "it has 8 bits per sample; 16 are needed"),
        (riff(fmt(channels=3), DATA), "it has 3 channels; 1 or 2 are allowed"),
        (riff(fmt(rate=7_999), DATA), "its sample rate is 7999 Hz; from 8000 to 192000 Hz are allowed"),
        (riff(fmt(rate=192_001), DATA), "its sample rate is 192001 Hz; from 8000 to 192000 Hz are allowed"),
        (riff(fmt(align=4), DATA), "its block align is 4; 2 is right"),
        (riff(fmt(byte_rate=0), DATA), "its byte rate is 0; 32000 is right"),
        (riff(fmt(extension=b"\2\0ab"), DATA), "its fmt chunk is too long for PCM"),
        (riff(fmt(tag=0xFFFE), DATA), "its EXTENSIBLE format is incomplete"),
        (riff(extensible(size=0), DATA), "its EXTENSIBLE format is incomplete"),
        (riff(extensible(valid_bits=12), DATA), "it has 12 valid bits per sample; 16 are needed"),
        (riff(extensible(subformat=b"\3" + PCM_SUBFORMAT[1:]), DATA), "its EXTENSIBLE format is not PCM"),
    ],
)
def test_liars(content: bytes, reason: str) -> None:
    with pytest.raises(WavInvalid) as refused:
        read_pcm16_wav(content)

    assert reason == str(refused.value)


@given(st.integers(0, 43), st.integers(1, 255))
def test_any_changed_header_byte(position: int, change: int) -> None:
    content = bytearray(pcm16_wav(SOUND, 16_000, 1))
    content[position] ^= change

    with pytest.raises(WavInvalid):
        read_pcm16_wav(bytes(content))
