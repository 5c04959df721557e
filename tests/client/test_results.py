"""Results in the form that the name of their file asks for."""

from pathlib import Path

import pytest
import soundfile
from PIL import Image

from client.conftest import VirtualClock, accepted, succeeded
from client.test_verbs import Run, run
from servers.callers import ON_ONE_DATABASE, Caller
from servers.scripted import Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import AudioError, ContentMismatch, InvalidSetting, ServiceUnreachable, Tenuto

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
