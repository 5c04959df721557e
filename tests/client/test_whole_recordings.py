"""What the commands, the SDK and an assistant's tools convert is read to its end, or refused."""

import io
import os
import subprocess
from pathlib import Path

import numpy
import pytest
import soundfile

from servers.ffmpegs import ffmpeg
from tenuto_client import AudioError
from tenuto_client.audio import RATE, as_flac, convert, convert_to_wav

MP3 = ["-c:a", "libmp3lame", "-q:a", "4", "-write_xing", "0", "-f", "mp3"]


@pytest.fixture
def wav() -> bytes:
    """Six seconds: silence, then noise, so that an MP3's first frame tells nothing of its length."""
    noise = numpy.random.default_rng(1).standard_normal(5 * 44_100) * 0.1
    file = io.BytesIO()
    soundfile.write(file, numpy.concatenate((numpy.zeros(44_100), noise)), 44_100, format="WAV")
    return file.getvalue()


def made(wav: bytes, target: Path, *way: str) -> bytes:
    command = [ffmpeg(), "-v", "error", "-y", "-f", "wav", "-i", "pipe:0", *way, str(target)]
    subprocess.run(command, input=wav, check=True)
    return target.read_bytes()


def test_all_of_an_mp3_and_of_joined_files_is_converted(wav: bytes, tmp_path: Path) -> None:
    """Variable bit rate without a length, two in one file; a chained Ogg."""
    mp3 = made(wav, tmp_path / "a.mp3", *MP3)
    ogg = made(wav, tmp_path / "a.ogg", "-c:a", "libvorbis")
    for content, seconds in ((mp3, 6), (mp3 + mp3, 12), (ogg + ogg, 12)):
        with as_flac(content) as flac:
            assert seconds == pytest.approx(soundfile.info(flac).duration, abs=0.2)


@pytest.mark.parametrize("way", [MP3, ["-c:a", "libvorbis", "-f", "ogg"], ["-f", "wav"], ["-f", "au"]])
def test_what_is_cut_off_is_refused_before_anything_is_sent(
    wav: bytes, way: list[str], tmp_path: Path
) -> None:
    """In one line, with the seconds that can be read and how to go on."""
    file = tmp_path / "cut"
    file.write_bytes(made(wav, tmp_path / "whole", *way)[:-4001])
    with pytest.raises(AudioError, match=r"cut off or damaged: .* s of it can be read; .*ffmpeg -i") as told:
        convert(file, tmp_path / "out.flac")

    assert 1 == len(str(told.value).splitlines())


def test_all_of_a_sample_of_a_voice_is_sent(wav: bytes, tmp_path: Path) -> None:
    """At its own rate; what is cut off is refused."""
    content = made(wav, tmp_path / "a.mp3", *MP3)
    convert_to_wav(tmp_path / "a.mp3", tmp_path / "a.wav")
    (tmp_path / "cut.mp3").write_bytes(content[:-10])

    assert 6 == pytest.approx(soundfile.info(tmp_path / "a.wav").duration, abs=0.1)
    assert 44_100 == soundfile.info(tmp_path / "a.wav").samplerate
    with pytest.raises(AudioError, match="cut off or damaged"):
        convert_to_wav(tmp_path / "cut.mp3", tmp_path / "a.wav")


def test_what_ffmpeg_converts_is_whole_too(
    wav: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut film is refused, and channels that cancel each other out are heard."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ffmpeg").symlink_to(ffmpeg())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    opposite = ("-filter_complex", "[0]pan=stereo|c0=c0|c1=-1*c0", "-c:a", "libopus", "-f", "webm")
    content = made(wav, tmp_path / "whole.webm", *opposite)
    convert(tmp_path / "whole.webm", tmp_path / "out.flac")
    samples, _ = soundfile.read(tmp_path / "out.flac")
    (tmp_path / "cut.webm").write_bytes(content[: len(content) // 2])

    assert 6 == pytest.approx(len(samples) / RATE, abs=0.1)
    assert 0.05 < numpy.sqrt((samples[2 * RATE :] ** 2).mean())
    with pytest.raises(AudioError, match=r"cut off or damaged: .* s of it can be read"):
        convert(tmp_path / "cut.webm", tmp_path / "out.flac")
