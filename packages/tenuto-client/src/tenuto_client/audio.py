"""Converts recordings to what the service accepts, 16 kHz mono FLAC, and splits long ones on request.

What soundfile reads (WAV, FLAC, MP3, OGG, AIFF) is converted block by block with soxr; films and what
telephones record by ffmpeg, if it is installed. A format that cannot tell whether a file is whole is refused.
Both libraries (the extra `audio`) are loaded on first use.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tenuto_client.errors import AudioError, FFmpegFailed
from tenuto_client.sounds.containers import SECOND, missing_of
from tenuto_client.sounds.layout import sounds_of
from tenuto_client.sounds.part import DAMAGED, Sounds, told_incomplete
from tenuto_client.sounds.source import Source

RATE = 16_000
MAX_SECONDS = 7200.0
"""The longest recording that the service takes."""
PART_S = 600.0
OVERLAP_S = 8.0
"""Between 5 and 10 seconds, so that a sentence at a cut is complete in one of the two parts."""
SEARCH_S = 20.0
"""How far before the end of a part to look for the quietest moment."""

_TOLD = (
    *(
        "mov",
        "matroska",
        "asf",
        "amr",
        "aac",
        "avi",
        "flv",
        "wav",
        "w64",
        "aiff",
        "caf",
        "ogg",
        "flac",
        "mp3",
    ),
    *("mpegts", "mpeg", "ac3", "eac3", "dts", "loas", "wv"),
)
"""What ffmpeg may read, by its names: we walk these, or it tells of a frame that is cut or lost."""
_UNTOLD = (
    "{0} is not read: nothing tells whether a file of its format is whole; if it is, write it to a new file, "
    "as with `ffmpeg -i FILE NEW.flac`"
)
_BLOCK_FRAMES = 1 << 16
_STEP_S = 0.1
_MIN_OVERLAP_S, _MAX_OVERLAP_S = 5.0, 10.0


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a longer recording; pass its `start_s` as `source_offset_seconds`."""

    path: Path
    start_s: float
    end_s: float


@contextmanager
def as_flac(source: Path | bytes) -> Iterator[Path | bytes]:
    """The recording as 16 kHz mono FLAC until the `with` block ends; unchanged if it is one already.

    Raises AudioError if it cannot be read or is longer than the service takes.
    """
    head = source[:42] if isinstance(source, bytes) else _head(source)
    if _is_ready(head):
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="tenuto-") as folder:
        if isinstance(source, bytes):
            original = Path(folder, "recording")
            original.write_bytes(source)
            source = original
        target = Path(folder, "recording.flac")
        convert(source, target)
        yield target


def convert(source: Path, target: Path) -> float:
    """Write the recording as 16 kHz mono FLAC; returns its duration in seconds. Raises AudioError."""
    seconds = _convert(source, target)
    if seconds > MAX_SECONDS:
        raise AudioError(
            f"{source} lasts {seconds / 60:.0f} minutes; the service takes 120. Cut it into parts with "
            "tenuto_client.audio.split"
        )
    return seconds


def split(
    source: Path | str, folder: Path | str, *, part_s: float = PART_S, overlap_s: float = OVERLAP_S
) -> list[Part]:
    """Cut a recording into FLACs of about `part_s` seconds that overlap by `overlap_s` (5 to 10).

    Each ends at the quietest tenth of a second in its last 20 seconds. Transcribe them one by one, each with
    `source_offset_seconds=part.start_s`. Raises AudioError.
    """
    if not _MIN_OVERLAP_S <= overlap_s <= _MAX_OVERLAP_S or part_s < 2 * SEARCH_S:
        raise AudioError("parts overlap by 5 to 10 seconds and last 40 seconds or longer")
    soundfile = _soundfile()
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    parts: list[Part] = []
    with tempfile.TemporaryDirectory(prefix="tenuto-", dir=into) as temporary:
        whole = Path(temporary, "whole.flac")
        seconds = _convert(Path(source), whole)
        with soundfile.SoundFile(whole) as file:
            for index, (start_s, end_s) in enumerate(_cuts(file, seconds, part_s, overlap_s)):
                path = into / f"{Path(source).stem}-{index:03}.flac"
                file.seek(round(start_s * RATE))
                _copy(soundfile, file, path, round(end_s * RATE) - round(start_s * RATE))
                parts.append(Part(path, round(start_s, 3), round(end_s, 3)))
    return parts


def convert_to_wav(source: Path, target: Path) -> None:
    """Write a short recording as a PCM16 WAV at its own sample rate, in mono or stereo. Raises AudioError."""
    soundfile = _soundfile()
    from tenuto_client.sounds.samples import Reading

    try:
        with source.open("rb", buffering=0) as file:
            reading = Reading(Source(file))
            samples, rate = reading.as_it_is(2, partial(_check_format, source))
    except OSError as error:
        raise AudioError(f"{source} cannot be read: {error.strerror}") from error
    except soundfile.LibsndfileError as error:
        raise AudioError(f"{source} cannot be read as audio ({error.error_string})") from error
    if refusal := reading.refusal():
        raise AudioError(f"{source} is not read: {refusal}")
    soundfile.write(target, samples, rate, "PCM_16", format="WAV")


class _Unreadable(Exception):
    """soundfile does not know the format."""


def _convert(source: Path, target: Path) -> float:
    try:
        return _convert_with_soundfile(source, target)
    except _Unreadable as error:
        if shutil.which("ffmpeg") is None:
            raise AudioError(
                f"{source} cannot be read as audio ({error}); with ffmpeg on the PATH, more formats work"
            ) from error
    return _convert_with_ffmpeg(source, target)


def _convert_with_soundfile(source: Path, target: Path) -> float:
    soundfile = _soundfile()
    from tenuto_client.sounds.samples import Reading

    frames = 0
    try:
        with source.open("rb", buffering=0) as file:
            reading = Reading(Source(file))
            with soundfile.SoundFile(target, "w", RATE, 1, "PCM_16", format="FLAC") as flac:
                for samples in reading.blocks(partial(_check_format, source)):
                    frames += len(samples)
                    flac.write(samples)
    except FileNotFoundError as error:
        raise AudioError(f"{source}: no such file") from error
    except OSError as error:
        raise AudioError(f"{source} cannot be read: {error.strerror}") from error
    except soundfile.LibsndfileError as error:
        raise _Unreadable(str(error.error_string).rstrip(".")) from error
    if refusal := reading.refusal():
        raise AudioError(f"{source} is not read: {refusal}")
    if not frames:
        raise AudioError(f"{source} contains no audio")
    return frames / RATE


def _check_format(source: Path, decoder: Any, _promised: int) -> None:
    from tenuto_client.sounds.samples import FORMATS

    if decoder.format not in FORMATS:
        raise AudioError(_UNTOLD.format(source))


def _convert_with_ffmpeg(source: Path, target: Path) -> float:
    """Through a WAV with one or two channels, because ffmpeg takes a mean where two cancel each other out."""
    with source.open("rb", buffering=0) as file:
        missing = missing_of(Source(file)) or _unread(sounds_of(Source(file)))
    with tempfile.TemporaryDirectory(prefix="tenuto-") as folder:
        wav = Path(folder, "recording.wav")
        command = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-format_whitelist", ",".join(_TOLD)]
        # Without the check, a damaged FLAC is decoded without a word.
        command += ["-err_detect", "crccheck", "-i", str(source.absolute()), "-vn"]
        way = ["-af", "aformat=channel_layouts=mono|stereo", "-ar", str(RATE), "-c:a", "pcm_s16le"]
        done = subprocess.run(
            [*command, *way, str(wav)], capture_output=True, encoding="utf-8", errors="replace", check=False
        )
        if done.returncode and "not on whitelist" in done.stderr:
            raise AudioError(_UNTOLD.format(source))
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it gives no reason"]
            raise FFmpegFailed(f"{source} cannot be read, not even by ffmpeg", lines[-1])
        seconds = _convert_with_soundfile(wav, target)
    # With `-v error`, whatever it says is one: it decodes on behind damage.
    if missing := missing or (DAMAGED if done.stderr.strip() else None):
        raise AudioError(f"{source} is not read: {told_incomplete(missing, seconds)}")
    return seconds


def _unread(sounds: Sounds) -> str | None:
    """What ffmpeg would pass over: it reads the first of several files."""
    return sounds.missing or (SECOND if len(sounds.parts) > 1 else None)


def _cuts(file: Any, seconds: float, part_s: float, overlap_s: float) -> Iterator[tuple[float, float]]:
    """The start and end of each part, in seconds."""
    start_s = 0.0
    while seconds - start_s > part_s + overlap_s:
        end_s = _quietest(file, start_s + part_s - SEARCH_S, start_s + part_s)
        yield start_s, end_s
        start_s = end_s - overlap_s
    yield start_s, seconds


def _quietest(file: Any, from_s: float, to_s: float) -> float:
    """The middle of the tenth of a second with the least power."""
    file.seek(round(from_s * RATE))
    samples = file.read(round((to_s - from_s) * RATE), dtype="float32")
    step = round(_STEP_S * RATE)
    power = [float((samples[at : at + step] ** 2).sum()) for at in range(0, len(samples) - step + 1, step)]
    return from_s + (min(range(len(power)), key=power.__getitem__) + 0.5) * _STEP_S


def _copy(soundfile: Any, file: Any, path: Path, frames: int) -> None:
    with soundfile.SoundFile(path, "w", RATE, 1, "PCM_16", format="FLAC") as part:
        while frames > 0:
            block = file.read(min(frames, _BLOCK_FRAMES), dtype="int16")
            if not len(block):
                return
            part.write(block)
            frames -= len(block)


def _is_ready(head: bytes) -> bool:
    """Whether the STREAMINFO block describes 16 kHz, one channel, 16 bits."""
    if head[:4] != b"fLaC" or len(head) < 42:
        return False
    fields = int.from_bytes(head[18:26], "big")
    return (fields >> 44, (fields >> 41) & 7, (fields >> 36) & 31) == (RATE, 0, 15)


def _head(source: Path) -> bytes:
    try:
        with source.open("rb") as file:
            return file.read(42)
    except OSError as error:
        raise AudioError(f"{source} cannot be read: {error.strerror}") from error


def _soundfile() -> Any:
    try:
        import soundfile
        import soxr  # noqa: F401
    except ImportError as error:
        raise AudioError(
            "converting recordings needs soundfile and soxr; without them, pass a 16-bit mono FLAC at 16 kHz",
            remedy="pip install soundfile soxr",
        ) from error
    return soundfile
