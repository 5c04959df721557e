"""Formats that libsndfile lacks, through an ffmpeg that the operator installed: M4A, WebM and others; AAC.

We ship no part of ffmpeg. It runs as a child without privileges (`confinement`): it reads one open file and
the libraries that it is linked with, writes one other file, and has no network and no other processes. We
name the format, so that no playlist is opened; memory, output and time are bounded. The command
`python -m tenuto.features.renditions.ffmpeg FILE PROGRAM …` drops its privileges and becomes ffmpeg.
"""

import os
import resource
import subprocess
import sys
from contextlib import suppress
from typing import BinaryIO

from tenuto.features.decoding.confinement import confine
from tenuto.features.decoding.decoder_child import (
    DecoderEnded,
    DecoderFailed,
    NotReadable,
    read_answer,
    start_child,
)
from tenuto.media.flac import MAX_DURATION_S
from tenuto_client.sounds.containers import missing_of
from tenuto_client.sounds.part import DAMAGED, told_incomplete
from tenuto_client.sounds.source import Source, after_id3

RATE = 16_000
"""In Hz, of the recordings it decodes."""
AAC_BITS = 64_000
"""Bits per second of what it encodes."""
LIMIT_S = 900.0
"""After this long it is killed. Two hours of AAC take a core 20 s to decode, and 60 s to encode."""
ENDING_S = 10.0
"""How long it may take to end once it has closed its standard output."""
CPU_S = 600
MEMORY_BYTES = 2 << 30
"""Of address space, most of it for libraries that are not used."""
OUTPUT_BYTES = 512 << 20
"""Two hours of samples of two channels take 440 MiB."""

CONFINED = b"confined\n"
_MISSING, _NOT_STARTED = "missing: ", "ffmpeg could not be started"

FORMATS = {"mov": "M4A, MP4 or MOV", "matroska": "WebM or Matroska", "asf": "WMA", "amr": "AMR", "aac": "AAC"}
"""The formats it reads: ffmpeg's names for them, and those for people."""
START_BYTES = 64
"""How many of a file's first bytes `format_of` looks at."""
_MARKS = (
    (4, b"ftyp", "mov"),
    (0, b"\x1aE\xdf\xa3", "matroska"),
    (0, b"0&\xb2u\x8ef\xcf\x11", "asf"),
    (0, b"#!AMR", "amr"),
)
_LIBRARIES = (
    *(
        "/lib",
        "/lib32",
        "/lib64",
        "/usr/lib",
        "/usr/lib32",
        "/usr/lib64",
        "/usr/local/lib",
        "/etc/ld.so.cache",
    ),
    *("/nix/store", "/gnu/store"),
)
"""Where programs find the libraries that they are linked with."""


def format_of(start: bytes) -> str | None:
    """Which of `FORMATS` a file has, by its first bytes; None if none of them."""
    if start[:1] == b"\xff" and len(start) > 1 and start[1] & 0xF6 == 0xF0:
        return "aac"  # ADTS; MP3 has the same first 12 bits, but its layer is not 0.
    return next((name for at, mark, name in _MARKS if start[at:].startswith(mark)), None)


def format_in(file: BinaryIO) -> str | None:
    """As `format_of`, of an open file, which a tag may precede."""
    source = Source(file)
    return format_of(source.at(after_id3(source, 0), START_BYTES))


def to_wav(program: str, form: str, source: BinaryIO, target: BinaryIO) -> str | None:
    """Decode the first sound in `source`, one of `FORMATS`, into the empty file `target`: PCM16 at 16 kHz.

    With one or two channels, because ffmpeg takes the mean of channels that cancel each other out. At most
    a second more than the longest recording. Returns what is missing of the file; None: nothing. Raises
    NotReadable, DecoderEnded and DecoderFailed.
    """
    sound = [
        "-map",
        "0:a:0",
        "-t",
        str(MAX_DURATION_S + 1),
        "-af",
        "aformat=channel_layouts=mono|stereo",
        "-ar",
        str(RATE),
        "-c:a",
        "pcm_s16le",
    ]
    has_failed, missing = _run(program, ["-f", form], [*sound, "-f", "wav"], source, target)
    if has_failed and os.fstatvfs(target.fileno()).f_bavail == 0:
        raise DecoderFailed("the disk has no space left for the decoded audio")
    if has_failed or not target.seek(0, 2):
        raise NotReadable(f"it is damaged, or not the {FORMATS[form]} that it begins as, or holds no sound")
    target.seek(0)
    return missing or None


def refuse_incomplete(missing: str | None, frames: int) -> None:
    """NotReadable: something is missing of a file of which so many frames could be read."""
    if missing:
        raise NotReadable(told_incomplete(missing, frames / RATE))


def to_aac(program: str, source: BinaryIO, target: BinaryIO) -> None:
    """Encode the WAV `source` as AAC in ADTS. Raises DecoderEnded and DecoderFailed."""
    way = ["-c:a", "aac", "-b:a", str(AAC_BITS), "-f", "adts"]
    if _run(program, ["-f", "wav"], way, source, target)[0]:
        raise DecoderFailed("ffmpeg could not write AAC")


def version(program: str) -> str:
    """The first line of its version. DecoderFailed: it does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise DecoderFailed(f"{program} does not run") from error
    return done.stdout.decode(errors="replace").partition("\n")[0][:100]


def _run(
    program: str, before: list[str], after: list[str], source: BinaryIO, target: BinaryIO
) -> tuple[int, str]:
    """Run it; returns its exit status, and what is missing of `source`, which is read from its start.

    Both are real, open files.
    """
    source.seek(0)
    child = start_child(
        "tenuto.features.renditions.ffmpeg",
        program,
        *before,
        "--",
        *after,
        source=source,
        output=target.fileno(),
    )
    status = None
    with child:
        try:
            answer = read_answer(child, LIMIT_S, is_cut=True)
            with suppress(subprocess.TimeoutExpired):
                status = child.wait(ENDING_S) if answer else None
        finally:
            child.kill()
    said = answer.removeprefix(CONFINED).decode(errors="replace").strip()
    if said and (not answer.startswith(CONFINED) or said.startswith(_NOT_STARTED)):
        raise DecoderFailed(said[:300])
    if status is None or status < 0:
        raise DecoderEnded("it takes ffmpeg too much time or memory")
    if said.startswith(_MISSING):
        return status, said.removeprefix(_MISSING).partition("\n")[0][:300]
    return status, DAMAGED if said else ""


def main(arguments: list[str]) -> None:
    """Drop all privileges, write `CONFINED` and become ffmpeg; or write why not."""
    output, program, *way = arguments
    at = way.index("--")
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    command = [program, "-nostdin", "-hide_banner", "-loglevel", "error", "-threads", "1"]
    command += ["-protocol_whitelist", "file,pipe", *way[:at], "-i", "/dev/fd/0", "-vn", "-sn", "-dn"]
    command += ["-threads", "1", *way[at + 1 :], f"pipe:{output}"]
    readable = [0]
    for path in (os.path.realpath(program), *_LIBRARIES):
        with suppress(OSError):
            readable.append(os.open(path, os.O_PATH))
    os.set_inheritable(int(output), True)
    # Without Landlock it could open whatever we can: our own records, other callers' recordings.
    if missing := confine(readable):
        sys.stdout.write(f"ffmpeg is not run where it cannot be confined: {'; '.join(missing)}\n")
        return
    sys.stdout.write(CONFINED.decode())
    with open(0, "rb", buffering=0, closefd=False) as file:
        if lacking := missing_of(Source(file)):
            sys.stdout.write(f"{_MISSING}{lacking}\n")
    sys.stdout.flush()
    # Whatever it says is an error: it decodes on behind damage, and ends as if nothing were missing.
    os.dup2(1, 2)
    try:
        os.execv(program, command)
    except OSError as error:
        sys.stdout.write(f"{_NOT_STARTED}: {error.strerror}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
