"""The child process that makes a 16 kHz mono FLAC of any common sound file; it confines and limits itself.

`python -m tenuto.features.recognition.to_flac FILE` decodes its standard input, a file, into the open file of
that number, and answers with one line of JSON. Its format is recognised by its content, never by its name.
Memory does not grow with the file, and time only with the sound in it. `sound_files` is the parent.
"""

import json
import os
import resource
import sys
import threading
import time
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from tenuto.features.decoding.confinement import confine
from tenuto.media.flac import MAX_CHANNELS, MAX_DURATION_S, MAX_SAMPLES, READABLE
from tenuto_client.sounds.samples import FORMATS, Reading
from tenuto_client.sounds.source import Source

RATE = 16_000
"""In Hz, of what it writes."""
RATES = (1_000, 384_000)
"""In Hz, the lowest and the highest that it reads."""
MEMORY_BYTES = 1 << 30
"""Of address space, most of it the libraries' own; a block of samples takes 2 MiB at most."""
OUTPUT_BYTES = 256 << 20
"""Two hours of incompressible samples take 220 MiB."""
START_CPU_S = 10.0
"""For a file's head, and for counting the frames of an MP3."""
SAMPLES_PER_CPU_S = 2_000_000
"""Of all channels together, of what was decoded so far. A slower file was crafted to be slow."""
MAX_CPU_S = 600
WATCH_S = 0.2

_UNKNOWN_FRAMES = 0x7FFF_FFFF_FFFF_FFFF
"""What libsndfile says of a stream without a length."""
_BEGINNINGS = (
    *(b"RIFF", b"RIFX", b"RF64", b"BW64", b"riff", b"FORM"),
    *(b"fLaC", b"OggS", b"ID3", b".snd", b"dns.", b"caff"),
    *(bytes((0xFF, second)) for second in range(0xE0, 0x100)),
)
"""The first bytes of files that are given to libsndfile; it knows more formats, which nobody sends."""


class _Refused(Exception):
    """The file cannot be read; the message says why, and what can."""


class _Full(Exception):
    """There is no space for the decoded audio."""


class _Watch:
    """Ends the process when decoding takes longer than the sound decoded so far explains."""

    def __init__(self) -> None:
        self.samples = 0

    def add(self, samples: int) -> None:
        """That many more were decoded."""
        self.samples += samples

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while time.process_time() < START_CPU_S + self.samples / SAMPLES_PER_CPU_S:
            time.sleep(WATCH_S)
        os._exit(1)


def main(arguments: list[str]) -> None:
    """Decode, and write the answer."""
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CPU, MAX_CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    try:
        answer = _convert(int(arguments[0]))
    except _Refused as error:
        answer = {"refused": str(error)}
    except _Full as error:
        answer = {"failed": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")


def _convert(output: int) -> dict[str, Any]:
    _check_beginning(os.pread(0, 64, 0))
    watch = _Watch()
    sink = soundfile.SoundFile(output, "w", RATE, 1, "PCM_16", format="FLAC", closefd=False)
    watch.start()
    # libsndfile reads a caller's bytes in ways that we do not know; it has not seen any yet.
    unconfined = confine()
    try:
        with open(0, "rb", buffering=0, closefd=False) as file:
            reading = Reading(Source(file))
            written = _copy(reading, sink, watch)
    except soundfile.LibsndfileError as error:
        raise _Refused(f"it is damaged, or not what it begins as: {error.error_string}") from error
    if refusal := reading.refusal():
        raise _Refused(refusal)
    if not written:
        raise _Refused("it holds no sound")
    sink.close()
    return {"frames": written, "unconfined": unconfined}


def _check_beginning(content: bytes) -> None:
    if not content.startswith(_BEGINNINGS):
        raise _Refused(f"it does not begin like a sound file; {READABLE} are read")


def _check_head(stream: soundfile.SoundFile, promised: int) -> None:
    if stream.format not in FORMATS:
        raise _Refused(f"it is {stream.format}, which is not read here; {READABLE} are")
    if stream.channels > MAX_CHANNELS:
        raise _Refused(f"it has {stream.channels} channels; at most {MAX_CHANNELS} are read")
    if not RATES[0] <= stream.samplerate <= RATES[1]:
        raise _Refused(f"its rate is {stream.samplerate} Hz; {RATES[0]} to {RATES[1]} Hz are read")
    # What stands for the length of an MP3 is an estimate, and may be far too long.
    if stream.format != "MP3" and promised != _UNKNOWN_FRAMES:
        _refuse_beyond(promised / stream.samplerate, promised * stream.channels)


def _refuse_beyond(seconds: float, samples: int) -> None:
    """Refuse a recording that may not have this much, promised or already read."""
    if seconds > MAX_DURATION_S:
        raise _Refused(f"it is longer than {MAX_DURATION_S // 60} minutes")
    if samples > MAX_SAMPLES:
        raise _Refused(f"it has more than {MAX_SAMPLES} samples in all channels together")


def _copy(reading: Reading, sink: soundfile.SoundFile, watch: _Watch) -> int:
    """Write all samples; returns how many."""
    written = 0
    for mono in reading.blocks(_check_head, watch.add):
        _refuse_beyond(reading.seconds, watch.samples)
        # Floats in a file need not be sound: they may be NaN, or beyond full scale.
        whole = np.nan_to_num(mono, posinf=1, neginf=-1).clip(-1, 1) * (1 << 15)
        written += _write(sink, np.rint(whole).clip(-(1 << 15), (1 << 15) - 1).astype(np.int16))
    return written


def _write(sink: soundfile.SoundFile, samples: NDArray[np.int16]) -> int:
    try:
        sink.write(samples)
    except (soundfile.LibsndfileError, AssertionError) as error:
        raise _Full("the disk has no space left for the decoded audio") from error
    return len(samples)


if __name__ == "__main__":
    main(sys.argv[1:])
