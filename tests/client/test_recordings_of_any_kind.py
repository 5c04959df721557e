"""What the client converts with ffmpeg, and its error if ffmpeg is missing."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy
import pytest
import soundfile

from tenuto_client import AudioError
from tenuto_client.audio import RATE, convert, split

SECONDS, HERTZ, GIVEN_RATE = 3, 440, 44_100


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that soundfile cannot read: AAC of two channels, as phones make it, beside a picture."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("no ffmpeg here; install Debian's package ffmpeg")
    folder = tmp_path_factory.mktemp("spoken")
    wave = 0.5 * numpy.sin(2 * numpy.pi * HERTZ * numpy.arange(SECONDS * GIVEN_RATE) / GIVEN_RATE)
    soundfile.write(folder / "tone.wav", numpy.column_stack([wave, wave]), GIVEN_RATE)
    picture = ["-f", "lavfi", "-i", f"color=size=64x64:duration={SECONDS}"]
    made = ["-c:a", "aac", "-c:v", "mpeg4", str(folder / "-odd name.mp4")]
    subprocess.run(["ffmpeg", "-v", "error", "-i", folder / "tone.wav", *picture, *made], check=True)
    return folder / "-odd name.mp4"


def test_what_soundfile_cannot_read_is_converted_by_ffmpeg(spoken: Path, tmp_path: Path) -> None:
    """16 kHz mono FLAC of the same sound and length; the same when it is cut into parts."""
    seconds = convert(spoken, tmp_path / "tone.flac")
    samples, rate = soundfile.read(tmp_path / "tone.flac", always_2d=True)
    strength = numpy.abs(numpy.fft.rfft(samples[:, 0][RATE : 2 * RATE]))
    [part] = split(spoken, tmp_path / "parts")

    assert ("FLAC", "PCM_16", RATE, 1) == (*kind_of(tmp_path / "tone.flac"), rate, samples.shape[1])
    assert abs(seconds - SECONDS) < 0.1
    assert HERTZ == int(strength.argmax())
    assert (0.0, round(seconds, 3)) == (part.start_s, part.end_s)
    assert numpy.array_equal(samples, soundfile.read(part.path, always_2d=True)[0])


def test_what_nobody_can_read_is_said_in_one_line(spoken: Path, tmp_path: Path) -> None:
    """No sound in it, and no recording at all: which file, and ffmpeg's own last word."""
    mute = tmp_path / "mute.mp4"
    subprocess.run(["ffmpeg", "-v", "error", "-i", spoken, "-an", "-c:v", "copy", mute], check=True)
    (tmp_path / "noise.m4a").write_bytes(b"no recording" * 100)
    for file in (mute, tmp_path / "noise.m4a"):
        with pytest.raises(AudioError, match="cannot be read, not even by ffmpeg: ") as told:
            convert(file, tmp_path / "out.flac")

        assert str(file) in str(told.value)
        assert 1 == len(str(told.value).splitlines())


def test_what_ffmpeg_says_may_be_in_any_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It repeats the file's name, whose bytes may be GBK; the error is still one of the recording."""
    tool = tmp_path / "ffmpeg"
    tool.write_bytes(b"#!/bin/sh\nprintf '\\304\\343: no such stream\\n' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "x.mp4").write_bytes(b"no recording")

    with pytest.raises(AudioError, match=r"not even by ffmpeg: .*no such stream"):
        convert(tmp_path / "x.mp4", tmp_path / "out.flac")


def test_without_ffmpeg_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "odd.webm").write_bytes(b"\x1aE\xdf\xa3 and so on")

    with pytest.raises(AudioError, match="with ffmpeg on the PATH, more formats work"):
        split(tmp_path / "odd.webm", tmp_path / "out")


def kind_of(file: Path) -> tuple[str, str]:
    """Format and subformat."""
    info = soundfile.info(file)
    return info.format, info.subtype
