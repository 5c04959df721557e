"""A real ffmpeg, confined: what libsndfile lacks is decoded, AAC is written, and nothing else can be done."""

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile

from servers.ffmpegs import ffmpeg
from tenuto.features.decoding.confinement import missing_here
from tenuto.features.decoding.decoder_child import DecoderEnded, DecoderFailed, NotReadable
from tenuto.features.renditions import ffmpeg as module

pytestmark = pytest.mark.skipif(bool(missing_here()), reason="this kernel lacks Landlock or seccomp")

KINDS = {
    "mov": ["-c:a", "aac", "-f", "ipod"],
    "matroska": ["-c:a", "libopus", "-f", "webm"],
    "asf": ["-c:a", "wmav2", "-f", "asf"],
    "aac": ["-c:a", "aac", "-f", "adts"],
}
"""How each is made; AMR needs an encoder that few builds have."""
AMR = b"#!AMR\n" + (b"\x3c" + bytes(31)) * 100
"""Two seconds of silence, 12.2 kbit/s: a byte of head and 31 of content for 20 ms."""


@pytest.fixture
def files() -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """A file to read and an empty one to write, as the service has them."""
    with tempfile.TemporaryFile(buffering=0) as source, tempfile.TemporaryFile(buffering=0) as target:
        yield cast(BinaryIO, source), cast(BinaryIO, target)


def wav(seconds: float) -> bytes:
    samples = np.sin(2 * np.pi * 300 * np.arange(round(seconds * 24_000)) / 24_000) * 12_000
    file = io.BytesIO()
    soundfile.write(file, samples.astype("<i2"), 24_000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def encoded(way: str | list[str], seconds: float, folder: Path) -> bytes:
    """A tone in a format, or made in another way. Through a file: the head of M4A is written last."""
    path = folder / "sound"
    command = [ffmpeg(), "-loglevel", "error", "-y", "-f", "wav", "-i", "pipe:0"]
    command += [*(KINDS[way] if isinstance(way, str) else way), str(path)]
    subprocess.run(command, input=wav(seconds), check=True)
    return path.read_bytes()


def duration(file: BinaryIO) -> float:
    with soundfile.SoundFile(file.fileno(), closefd=False) as sound:
        return float(sound.frames / sound.samplerate)


@pytest.mark.parametrize("form", KINDS)
def test_what_libsndfile_lacks_is_decoded(
    form: str, files: tuple[BinaryIO, BinaryIO], tmp_path: Path
) -> None:
    source, target = files
    source.write(content := encoded(form, 2, tmp_path))
    module.to_wav(ffmpeg(), form, source, target)
    samples, rate = soundfile.read(target.fileno(), closefd=False)

    assert form == module.format_of(content[: module.START_BYTES])
    assert (16_000, 1) == (rate, samples.ndim)
    assert 2 == pytest.approx(len(samples) / rate, abs=0.1)
    assert 12_000 / 32_768 / np.sqrt(2) == pytest.approx(np.sqrt((samples**2).mean()), rel=0.1)


@pytest.mark.parametrize("form", KINDS)
def test_a_hole_in_the_middle_is_told(form: str, files: tuple[BinaryIO, BinaryIO], tmp_path: Path) -> None:
    """ffmpeg decodes on behind damage, ends as if all were well, and says so only in words (P6)."""
    source, target = files
    content = bytearray(encoded(form, 20, tmp_path))
    middle = len(content) // 2
    content[middle : middle + len(content) // 4] = bytes(len(content) // 4)
    source.write(content)
    try:
        missing = module.to_wav(ffmpeg(), form, source, target)
    except NotReadable:
        missing = "it could not be read at all"

    assert missing


def test_a_film_without_sound_is_refused(files: tuple[BinaryIO, BinaryIO], tmp_path: Path) -> None:
    path = tmp_path / "silent.mp4"
    way = ["-f", "rawvideo", "-pix_fmt", "gray", "-s", "16x16", "-i", "pipe:0", "-c:v", "mpeg4", str(path)]
    subprocess.run([ffmpeg(), "-loglevel", "error", *way], input=bytes(2560), check=True)
    source, target = files
    source.write(path.read_bytes())

    with pytest.raises(NotReadable, match="holds no sound"):
        module.to_wav(ffmpeg(), "mov", source, target)


@pytest.mark.parametrize(
    "what", [["-f", "wav", "{folder}/made"], ["-f", "wav", "tcp://127.0.0.1:9"], ["-i", "{folder}/there"]]
)
def test_it_can_open_nothing_else(what: list[str], files: tuple[BinaryIO, BinaryIO], tmp_path: Path) -> None:
    """No file made or read, no connection; without its confinement it makes and reads files (B4)."""
    there = tmp_path / "there"
    there.write_bytes(wav(1))
    source, target = files
    source.write(wav(1))
    words = [word.format(folder=tmp_path) for word in what]

    assert module._run(ffmpeg(), ["-f", "wav"], ["-f", "wav"], source, target)[0] == 0
    assert module._run(ffmpeg(), ["-f", "wav"], [*words, "-f", "wav"], source, target)[0] != 0
    assert not (tmp_path / "made").exists()
    if "tcp" not in words[-1]:
        free = [ffmpeg(), "-i", str(there), *words, "-f", "wav", "pipe:1"]
        assert (
            subprocess.run(free, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
        )


def test_it_is_not_run_where_it_cannot_be_confined(tmp_path: Path) -> None:
    """Here the child is made to believe that its kernel lacks Landlock."""
    code = "\n".join(
        (
            "from tenuto.features.renditions import ffmpeg",
            "ffmpeg.confine = lambda readable: ['Landlock: not here']",
            f"ffmpeg.main(['2', {ffmpeg()!r}, '--', {str(tmp_path / 'made.wav')!r}])",
        )
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "ffmpeg is not run where it cannot be confined: Landlock: not here\n" == done.stdout
    assert not (tmp_path / "made.wav").exists()


def test_a_program_that_is_none_is_the_operators_fault(
    files: tuple[BinaryIO, BinaryIO], tmp_path: Path
) -> None:
    source, target = files
    source.write(AMR)
    plain = tmp_path / "plain"
    plain.write_text("no program")
    for program in (tmp_path / "missing", plain):
        with pytest.raises(DecoderFailed, match="could not be started"):
            module.to_wav(str(program), "amr", source, target)
        with pytest.raises(DecoderFailed, match="does not run"):
            module.version(str(program))


def test_decoding_that_does_not_end_is_ended(
    files: tuple[BinaryIO, BinaryIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here one that reads a minute of sound as slowly as it is spoken."""
    monkeypatch.setattr(module, "LIMIT_S", 1.0)
    source, target = files
    source.write(wav(60))

    with pytest.raises(DecoderEnded, match="too much time"):
        module._run(ffmpeg(), ["-re", "-f", "wav"], ["-f", "wav"], source, target)


@pytest.mark.variant("depth")
@pytest.mark.parametrize("form", [*KINDS, "fragmented", "live", "amr"])
def test_what_is_missing_of_a_file_is_told(
    form: str, files: tuple[BinaryIO, BinaryIO], tmp_path: Path
) -> None:
    """ffmpeg decodes a cut file without a word; a browser's live recording, which has no length, is whole."""
    source, target = files
    more = {
        "fragmented": ["-c:a", "aac", "-movflags", "empty_moov+default_base_moof", "-f", "mp4"],
        "live": ["-c:a", "libopus", "-live", "1", "-f", "webm"],
        "mov": ["-c:a", "aac", "-movflags", "faststart", "-f", "ipod"],
    }
    name = {"fragmented": "mov", "live": "matroska"}.get(form, form)
    content = AMR if form == "amr" else encoded(more.get(form) or KINDS[form], 4, tmp_path)
    told = []
    for each in (content, content[: round(len(content) * 0.7) | 1], content[:-1], content + content):
        source.truncate(0)
        source.seek(0)
        source.write(each)
        target.truncate(0)
        target.seek(0)
        told.append(module.to_wav(ffmpeg(), name, source, target))

    assert [form not in ("aac",), True, True] == [
        told[3] is not None,
        told[1] is not None,
        told[2] is not None,
    ]
    assert told[0] is None
