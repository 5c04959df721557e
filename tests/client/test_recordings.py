"""What is converted is read to its end, or refused; results have the form that their file's name asks for."""

import io
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import soundfile
from PIL import Image

from client.conftest import VirtualClock, accepted, sound, succeeded
from client.test_verbs import Run, run
from servers.callers import ON_ONE_DATABASE, Caller
from servers.ffmpegs import ffmpeg
from servers.scripted import Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import AudioError, ContentMismatch, InvalidSetting, ServiceUnreachable, Tenuto
from tenuto_client.audio import RATE, as_flac, convert, convert_to_wav, split

MP3 = ["-c:a", "libmp3lame", "-q:a", "4", "-write_xing", "0", "-f", "mp3"]


@pytest.fixture(scope="module")
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


@pytest.fixture
def with_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the PATH."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ffmpeg").symlink_to(ffmpeg())
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def test_any_audio_becomes_16_khz_mono_flac(tmp_path: Path) -> None:
    wav = tmp_path / "a.wav"
    wav.write_bytes(sound(seconds=2))
    with as_flac(wav) as flac:
        assert isinstance(flac, Path)
        info = soundfile.info(flac)
        content = flac.read_bytes()
        with as_flac(content) as same:
            assert same is content
    (tmp_path / "b.wav").write_bytes(b"RIFF no sound")
    for bad in ("b.wav", "missing.wav"):
        with pytest.raises(AudioError), as_flac(tmp_path / bad):
            pass

    kind = (info.format, info.samplerate, info.channels, info.subtype)
    assert ("FLAC", RATE, 1, "PCM_16", 32_000) == (*kind, info.frames)
    assert not flac.exists()


def test_all_of_an_mp3_and_of_joined_files_is_converted(wav: bytes, tmp_path: Path) -> None:
    """Variable bit rate without a length, two in one file; a chained Ogg."""
    mp3 = made(wav, tmp_path / "a.mp3", *MP3)
    ogg = made(wav, tmp_path / "a.ogg", "-c:a", "libvorbis")
    for content, seconds in ((mp3, 6), (mp3 + mp3, 12), (ogg + ogg, 12)):
        with as_flac(content) as flac:
            assert seconds == pytest.approx(soundfile.info(flac).duration, abs=0.2)


def cut(content: bytes) -> bytes:
    """Of a file that broke off."""
    return content[: len(content) // 2]


def turned(content: bytes) -> bytes:
    """Some bytes are others, near the beginning."""
    return content[:11_400] + bytes(byte ^ 0x5A for byte in content[11_400:11_464]) + content[11_464:]


def hollow(content: bytes) -> bytes:
    """A hole in the middle."""
    return cut(content) + bytes(10_000) + content[len(cut(content)) + 10_000 :]


READABLE = r"cut off or damaged: .* s of it can be read; .*ffmpeg -i"
DAMAGED: list[tuple[Callable[[bytes], bytes], list[str], str]] = [
    (cut, MP3, READABLE),
    (cut, ["-c:a", "libvorbis", "-f", "ogg"], READABLE),
    (cut, ["-f", "wav"], READABLE),
    (cut, ["-c:a", "libopus", "-f", "webm"], READABLE),
    # libsndfile gives it up, and ffmpeg decodes on, without a word.
    (turned, ["-c:a", "flac", "-f", "flac"], "cut off or damaged"),
    # ffmpeg looks for the next chunk behind the hole.
    (hollow, ["-c:a", "libmp3lame", "-f", "avi"], "is no part of it"),
    (lambda content: content * 2, ["-c:a", "alac", "-f", "caf"], "a second file was joined to it"),
    # Of a cut one, decoders read what there is.
    (cut, ["-ar", "16000", "-f", "g722"], r"nothing tells whether .* is whole; if it is, .*ffmpeg -i"),
]


@pytest.mark.usefixtures("with_ffmpeg")
@pytest.mark.parametrize(("damage", "way", "told"), DAMAGED)
def test_what_is_not_whole_is_refused_before_anything_is_sent(
    damage: Callable[[bytes], bytes], way: list[str], told: str, wav: bytes, tmp_path: Path
) -> None:
    """In one line, with the seconds that can be read and how to go on (P6)."""
    content = made(wav, tmp_path / "whole", *way)
    damaged = tmp_path / f"damaged.{way[-1]}"
    damaged.write_bytes(damage(content))
    if "g722" not in way:
        assert 6 == pytest.approx(convert(tmp_path / "whole", tmp_path / "out.flac"), abs=0.1)
    with pytest.raises(AudioError, match=told) as refused:
        convert(damaged, tmp_path / "out.flac")

    assert 1 == len(str(refused.value).splitlines())


@pytest.mark.usefixtures("with_ffmpeg")
def test_channels_that_cancel_each_other_out_are_heard(wav: bytes, tmp_path: Path) -> None:
    opposite = ("-filter_complex", "[0]pan=stereo|c0=c0|c1=-1*c0", "-c:a", "libopus", "-f", "webm")
    made(wav, tmp_path / "whole.webm", *opposite)
    convert(tmp_path / "whole.webm", tmp_path / "out.flac")
    samples, _ = soundfile.read(tmp_path / "out.flac")

    assert 0.05 < numpy.sqrt((samples[2 * RATE :] ** 2).mean())


def test_all_of_a_sample_of_a_voice_is_sent(wav: bytes, tmp_path: Path) -> None:
    content = made(wav, tmp_path / "a.mp3", *MP3)
    convert_to_wav(tmp_path / "a.mp3", tmp_path / "a.wav")
    (tmp_path / "cut.mp3").write_bytes(content[:-10])

    assert 6 == pytest.approx(soundfile.info(tmp_path / "a.wav").duration, abs=0.1)
    assert 44_100 == soundfile.info(tmp_path / "a.wav").samplerate
    with pytest.raises(AudioError, match="cut off or damaged"):
        convert_to_wav(tmp_path / "cut.mp3", tmp_path / "a.wav")


@pytest.mark.usefixtures("with_ffmpeg")
def test_the_sound_of_a_film_is_the_same_also_in_parts(tmp_path: Path) -> None:
    """AAC of two channels beside a picture, as phones make it, in a file of an odd name. A film without sound
    is refused in one line with ffmpeg's last word."""
    film, hertz = tmp_path / "-odd name.mp4", 440
    tone = 0.5 * numpy.sin(2 * numpy.pi * hertz * numpy.arange(3 * 44_100) / 44_100)
    soundfile.write(tmp_path / "tone.wav", numpy.column_stack([tone, tone]), 44_100)
    picture = ("-f", "lavfi", "-i", "color=size=64x64:duration=3", "-c:a", "aac", "-c:v", "mpeg4")
    subprocess.run([ffmpeg(), "-v", "error", "-i", tmp_path / "tone.wav", *picture, str(film)], check=True)
    subprocess.run([ffmpeg(), "-v", "error", "-i", film, "-an", "-c:v", "copy", f"{film}.mp4"], check=True)
    seconds = convert(film, tmp_path / "tone.flac")
    samples, rate = soundfile.read(tmp_path / "tone.flac", always_2d=True)
    [part] = split(film, tmp_path / "parts")
    with pytest.raises(AudioError, match="cannot be read, not even by ffmpeg: ") as told:
        convert(Path(f"{film}.mp4"), tmp_path / "out.flac")

    assert (RATE, 1) == (rate, samples.shape[1]) and abs(seconds - 3) < 0.1
    assert hertz == int(numpy.abs(numpy.fft.rfft(samples[:, 0][RATE : 2 * RATE])).argmax())
    assert numpy.array_equal(samples, soundfile.read(part.path, always_2d=True)[0])
    assert 1 == len(str(told.value).splitlines()) and film.name in str(told.value)


__all__ = ["run"]


@ON_ONE_DATABASE
def test_a_file_has_the_form_of_its_name(
    run: Run, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    at = {"url": service.url, "key": caller.key}
    names = ("a.mp3", "b.opus", "c.flac", "d.ogg")
    codes = [run("say", "Hold the note.", "-o", name, "-q", **at)[:2] for name in names]
    drawn = run("draw", "A lake.", "-o", "a.jpg", "-q", **at)[:2]
    with Tenuto(caller.key, service.url) as client:
        spoken = client.speech.create("Hold the note.", lang="en")
        client.images.create("A lake.").download(tmp_path / "sdk.webp", form="webp")
        spoken.download(tmp_path / "as-it-is.mp3")
        with pytest.raises(InvalidSetting, match="webp is not a format"):
            spoken.download(tmp_path / "x", form="webp")
    again = run("jobs", "download", spoken.id, "-o", "again.flac", "-q", **at)
    sounds = (*names, "again.flac", "as-it-is.mp3")

    assert [(0, f"{name}\n") for name in names] == codes and (0, "a.jpg\n") == drawn and 0 == again[0]
    assert ["MP3", "OGG", "FLAC", "OGG", "FLAC", "WAV"] == [
        soundfile.info(tmp_path / name).format for name in sounds
    ]
    assert ["JPEG", "WEBP"] == [Image.open(tmp_path / name).format for name in ("a.jpg", "sdk.webp")]


def test_m4a_is_made_by_ffmpeg(tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    player = tmp_path / "bin" / "ffmpeg"
    player.parent.mkdir()
    player.write_text('#!/bin/sh\nfor last; do :; done\ncat > "$last"\n')
    player.chmod(0o755)
    replies = [accepted(), succeeded(b"sound"), Reply(200, b"sound", {"Content-Type": "audio/wav"})]
    with (
        ScriptedService(replies) as service,
        Tenuto("tn_test", service.url, journal=False, clock=clock) as client,
    ):
        job = client.speech.create("Hold.", model="m").wait()
        monkeypatch.setenv("PATH", "/nowhere")
        with pytest.raises(AudioError, match="needs ffmpeg"):
            job.download(tmp_path / "x.m4a", form="m4a")
        monkeypatch.setenv("PATH", f"{player.parent}:/bin:/usr/bin")
        job.download(tmp_path / "x.m4a", form="m4a")

    assert b"sound" == (tmp_path / "x.m4a").read_bytes()
    assert ["bin", "x.m4a"] == sorted(path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(200, b"sound", {"Content-Type": "audio/mpeg"}, cut_at=2), ServiceUnreachable),
        (Reply(200, b"sound", {"Content-Type": "text/html"}), ContentMismatch),
    ],
    ids=["cut off", "another type"],
)
def test_a_rendition_is_whole_or_not_there(
    reply: Reply, error: type[Exception], tmp_path: Path, clock: VirtualClock
) -> None:
    """Cut off, of another type: it is asked for again, and then no file is left."""
    whole = Reply(200, b"sound", {"Content-Type": "audio/mpeg"})
    with (
        ScriptedService([accepted(), succeeded(), reply, whole]) as service,
        Tenuto("tn_test", service.url, journal=False, clock=clock) as client,
    ):
        job = client.speech.create("Hold.", model="m").wait()
        job.download(tmp_path / "good.mp3", form="mp3")
        service._replies = [reply]
        with pytest.raises(error):
            job.download(tmp_path / "bad.mp3", form="mp3")

    assert ["good.mp3"] == [path.name for path in tmp_path.iterdir()]
    assert b"sound" == (tmp_path / "good.mp3").read_bytes()
