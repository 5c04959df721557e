"""Sound files of callers as FLAC: what is read keeps its length, what is not says why, nothing costs much."""

import io
import struct
import tempfile
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pytest
import soundfile

from features.decoding.readers import converted
from servers.flacs import silence
from tenuto.features.decoding.decoder_child import DecoderEnded, DecoderFailed, NotReadable, start_child
from tenuto.features.recognition import to_flac as module
from tenuto.features.recognition.sound_files import to_flac

RATE = 44_100


def tone(seconds: float, channels: int = 1, *, rate: int = RATE, form: str = "WAV", **more: Any) -> bytes:
    samples = 0.4 * np.sin(2 * np.pi * 300 * np.arange(round(seconds * rate)) / rate)
    file = io.BytesIO()
    soundfile.write(file, np.repeat(samples[:, None], channels, axis=1), rate, format=form, **more)
    return file.getvalue()


def wav(
    frames: bytes, *, channels: int = 1, rate: int = RATE, bits: int = 16, promised: int | None = None
) -> bytes:
    """A WAV whose head says what it is told to say."""
    size = len(frames) if promised is None else promised
    block = channels * bits // 8
    about = struct.pack("<HHIIHH", 1, channels, rate, rate * block % 2**32, block, bits)
    return (
        b"RIFF"
        + struct.pack("<I", (36 + size) % 2**32)
        + b"WAVEfmt \x10\0\0\0"
        + about
        + b"data"
        + struct.pack("<I", size)
        + frames
    )


@pytest.mark.parametrize(
    ("rate", "channels"), [(8_000, 1), (16_000, 2), (22_050, 8), (48_000, 1), (192_000, 8)]
)
def test_every_rate_and_number_of_channels_keeps_its_length_and_loudness(rate: int, channels: int) -> None:
    samples, frames = converted(tone(1, channels, rate=rate))

    assert 16_000 == pytest.approx(frames, abs=2)
    assert frames == len(samples)
    assert 0.4 / np.sqrt(2) == pytest.approx(np.sqrt(np.mean((samples / 32768) ** 2)), rel=0.02)


def test_a_streamed_wav_without_a_length_is_read_to_its_end() -> None:
    content = wav(bytes(RATE * 2), promised=0)
    extensible = tone(1, 8, subtype="PCM_24", form="WAVEX")
    at = extensible.index(b"data") + 4

    for each in (
        content,
        content[:4] + bytes(4) + content[8:],
        extensible[:at] + bytes(4) + extensible[at + 4 :],
    ):
        assert 16_000 == pytest.approx(converted(each)[1], abs=2)


def test_floats_beyond_full_scale_and_numbers_that_are_none_are_clipped() -> None:
    wild = np.array([2.0, -2.0, np.inf, -np.inf, np.nan, 0.5] * 100, np.float32)
    file = io.BytesIO()
    soundfile.write(file, wild, 16_000, format="WAV", subtype="FLOAT")
    samples, _ = converted(file.getvalue())

    assert [32767, -32768, 32767, -32768, 0, 16384] == samples[:6].tolist()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (wav(bytes(4000), channels=9), "9 channels; at most 8"),
        (wav(bytes(4000), rate=10), "10 Hz; 1000 to 384000 Hz"),
        (wav(b""), "no sound"),
        (wav(bytes(7201 * 1000), rate=1000, bits=8), "longer than 120 minutes"),
        (b"OggS" + bytes(500), "damaged"),
        (b"caff\0\1\0\0" + bytes(500), "damaged"),
        (b"\xff\xfb" + bytes(50_000), "damaged|no sound"),
        (b"", "does not begin like a sound file; WAV, MP3"),
        (b"%PDF-1.7", "does not begin like a sound file"),
    ],
)
def test_what_is_not_read_says_why(content: bytes, why: str) -> None:
    with pytest.raises(NotReadable, match=why):
        converted(content)


def test_more_samples_than_an_upload_may_have_are_refused_before_they_are_decoded() -> None:
    """An hour of eight channels at 192 kHz fits into some hundred KiB; the header promises it."""
    with pytest.raises(NotReadable, match="more than 2764800000 samples"):
        converted(silence(1, rate=192_000, channels=8, total=3600 * 192_000))


def test_decoding_that_makes_no_progress_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child watches its own processor time; so it ends, and a refusal says why."""
    slow = Path(module.__file__).read_text("utf-8").replace("START_CPU_S = 10.0", "START_CPU_S = 0.0")
    slow = slow.replace("SAMPLES_PER_CPU_S = 2_000_000", "SAMPLES_PER_CPU_S = 1e15").replace(
        "WATCH_S = 0.2", "WATCH_S = 0"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "slow_to_flac.py").write_text(slow)
        monkeypatch.setenv("PYTHONPATH", folder)
        monkeypatch.setattr(
            "tenuto.features.recognition.sound_files.start_child",
            lambda _, **files: start_child("slow_to_flac", **files),
        )

        with pytest.raises(DecoderEnded, match="too much time or memory"):
            converted(tone(1))


def test_a_full_disk_is_not_the_callers_fault() -> None:
    """What is decoded cannot be written: the file may be sent again."""
    with tempfile.TemporaryFile(buffering=0) as source, Path("/dev/full").open("r+b", buffering=0) as full:
        source.write(tone(60))

        with pytest.raises((DecoderFailed, DecoderEnded)):
            to_flac(cast(BinaryIO, source), cast(BinaryIO, full))
