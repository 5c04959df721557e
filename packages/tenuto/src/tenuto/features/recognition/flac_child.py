"""The child process that decodes one FLAC from its standard input; it confines and limits itself.

`python -m tenuto.features.recognition.flac_child FILE DURATION_MS` writes what it decodes to the open file of
that number, as 16 kHz mono PCM16, and plans where the recording is cut into chunks: at quiet places, with an
overlap. Its answer, or the reason for refusing the file, is one line of JSON on its standard output. Only
such children hand a caller's bytes to a native library.
"""

import hashlib
import json
import os
import resource
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from tenuto.features.decoding.confinement import confine
from tenuto.media import flac
from tenuto.media.flac import FlacInvalid, StreamInfo
from tenuto_client.sounds.samples import mixed

RATE = 16_000
"""In Hz, of the samples that it writes."""
START_CPU_S = 5
SAMPLES_PER_CPU_S = 10_000_000
"""Of all channels together. Measured: 45 to 150 million; a slower file was crafted to be slow."""
MEMORY_BYTES = 1 << 30
"""Of address space, most of it the libraries' own; a block of samples takes 2 MiB at most."""
OUTPUT_BYTES = (flac.MAX_DURATION_S + 60) * RATE * 2
"""The longest recording as 16 kHz mono PCM16, and a little more."""
BLOCK_BYTES = 2 << 20
_READ_BYTES = 1 << 18
_LEAST_FRONT_BYTES = 64
"""Audio needed at the start, because the decoder first probes the format."""

FRAME_S = 0.02
"""The length of the frames whose loudness is measured."""
LONGEST_WHOLE_S = 600
"""A recording no longer than this stays whole; chunks are at most about this long."""
SEARCH_S = 20.0
"""How far from its even position a cut may be moved, in either direction."""
OVERLAP_S = (5.0, 10.0)
"""By how much a chunk and the next one overlap, at least and at most."""
_QUIET_S = 0.3
_LOUDNESS_FRAMES = round(FRAME_S * RATE)
_FULL_SCALE, _WIDE_SCALE = 1 << 15, 1 << 31
_NARROW_BYTES, _WIDE_BYTES = 2, 4


class Input:
    """Standard input as a file for the decoder, which reads forwards only.

    What is put in front replaces what has been read so far, and can be read twice.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._front = memoryview(b"")
        self._chunk = memoryview(b"")
        self._chunk_at = 0
        self._read_to = 0
        self._position = 0
        self.went_back = False

    def read(self) -> bytes:
        """Some bytes from the pipe, none at the end of the file; not to be used after `put_in_front`."""
        return os.read(self._fd, _READ_BYTES)

    def put_in_front(self, content: bytes) -> None:
        """Let the file begin with this content and continue with the rest of the pipe."""
        self._front = memoryview(content)
        self._read_to = len(content)

    def readinto(self, buffer: Any) -> int:
        """Fill the decoder's buffer, or part of it; 0 at the end of the file."""
        content = self._take(len(buffer))
        buffer[0 : len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int) -> None:
        """Called to find the length, which is unknown for a pipe, and to go back after a wrong checksum."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: 1 << 50}[whence]

    def tell(self) -> int:
        return self._position

    def _take(self, size: int) -> memoryview:
        """Some bytes, none at the end of the file."""
        if self._position < len(self._front):
            content = self._front[self._position : self._position + size]
        elif self._position != self._read_to:
            self.went_back = True
            content = memoryview(b"")
        else:
            if self._chunk_at == len(self._chunk):
                # The decoder asks for a few KiB at a time; the pipe is read in larger pieces.
                self._chunk, self._chunk_at = memoryview(self.read()), 0
            content = self._chunk[self._chunk_at : self._chunk_at + size]
            self._chunk_at += len(content)
            self._read_to += len(content)
        self._position += len(content)
        return content


class Stream(soundfile.SoundFile):  # type: ignore[misc]
    """The decoder."""

    def seekable(self) -> bool:
        """False, or soundfile would seek after every read, which for FLAC is a search."""
        return False


class Digest:
    """The MD5 of decoded samples, compared at the end with the header's, if it has one.

    A block is hashed in a thread while the next one is decoded.
    """

    def __init__(self, info: StreamInfo) -> None:
        self._expected = info.md5
        self._is_wanted = any(info.md5)
        self._own_bytes = -(-info.bits_per_sample // 8)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._hashing: threading.Thread | None = None
        self.dtype = "int16" if info.bits_per_sample == 16 else "int32"
        """As soundfile names it; samples come interleaved."""
        self.sample_bytes = _NARROW_BYTES if self.dtype == "int16" else _WIDE_BYTES

    def add(self, samples: memoryview) -> None:
        """The next samples, full scale in 16 or 32 bits, of which the file's own bits are the upper ones.

        They must not change before the next call has returned.
        """
        if self._is_wanted:
            self._wait()
            self._hashing = threading.Thread(target=self._hash, args=(samples,))
            self._hashing.start()

    def finish(self) -> None:
        """Compare, after the last sample. Raises FlacInvalid."""
        self._wait()
        if self._is_wanted and self._md5.digest() != self._expected:
            raise FlacInvalid("its samples do not have the MD5 that its head promises")

    def _hash(self, samples: memoryview) -> None:
        if self.dtype == "int16":
            self._md5.update(samples)
        else:
            wide = np.frombuffer(samples, np.uint8).reshape(-1, _WIDE_BYTES)
            self._md5.update(wide[:, _WIDE_BYTES - self._own_bytes :].tobytes())

    def _wait(self) -> None:
        if self._hashing is not None:
            self._hashing.join()
            self._hashing = None


class Pcm:
    """Decoded samples as 16 kHz mono PCM16: mixed, resampled, written, and their loudness measured.

    Samples that are 16 kHz mono with 16 bits already are written unchanged.
    """

    def __init__(self, info: StreamInfo, output: int) -> None:
        self._channels = info.channels
        self._is_narrow = info.bits_per_sample == 16
        self._output = output
        self._resampler = None
        if info.sample_rate != RATE:
            self._resampler = soxr.ResampleStream(info.sample_rate, RATE, 1, dtype="float32")
        self._frames = 0
        self._rest = np.zeros(0, np.float32)
        self._loudness: list[NDArray[np.float32]] = []

    def add(self, samples: memoryview) -> None:
        """The next interleaved samples, full scale in 16 or 32 bits."""
        whole = np.frombuffer(samples, np.int16 if self._is_narrow else np.int32)
        mono = mixed(whole.reshape(-1, self._channels))
        mono /= _FULL_SCALE if self._is_narrow else _WIDE_SCALE
        if self._resampler is not None:
            mono = self._resampler.resample_chunk(mono)
        self._write(mono)

    def finish(self) -> dict[str, Any]:
        """How many samples were written, and the chunks as pairs of sample numbers."""
        if self._resampler is not None:
            self._write(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        loudness = np.concatenate(self._loudness).tolist() if self._loudness else []
        chunks = plan_chunks(loudness, self._frames / RATE)
        spans = [(round(start * RATE), round(end * RATE)) for start, end in chunks]
        return {"pcm_frames": self._frames, "chunks": spans}

    def _write(self, mono: NDArray[np.float32]) -> None:
        whole = np.rint(mono * _FULL_SCALE).clip(-_FULL_SCALE, _FULL_SCALE - 1).astype("<i2")
        left = memoryview(whole.tobytes())
        while left:
            left = left[os.write(self._output, left) :]
        self._frames += len(whole)
        self._measure(mono)

    def _measure(self, mono: NDArray[np.float32]) -> None:
        """The mean square of each 20 ms, on a grid that does not depend on how the samples arrive."""
        waiting = np.concatenate((self._rest, mono))
        used = len(waiting) // _LOUDNESS_FRAMES * _LOUDNESS_FRAMES
        squares = np.square(waiting[:used].reshape(-1, _LOUDNESS_FRAMES))
        self._loudness.append(squares.mean(axis=1, dtype=np.float32))
        self._rest = waiting[used:]


def plan_chunks(loudness: Sequence[float], duration_s: float) -> list[tuple[float, float]]:
    """Start and end of each chunk in seconds, from the mean square of every 20 ms.

    Together they cover everything, each overlaps the next, and none is longer than `LONGEST_WHOLE_S` +
    2 × `SEARCH_S` + `OVERLAP_S[1]`, 650 seconds. The same loudness gives the same chunks, so that a second
    attempt at a recording can use those of the first.
    """
    count = max(1, -(-int(duration_s * 1000) // (LONGEST_WHOLE_S * 1000)))
    if duration_s <= LONGEST_WHOLE_S:
        count = 1
    least, most = OVERLAP_S[0] / 2, OVERLAP_S[1] / 2
    starts, ends = [0.0], []
    for number in range(1, count):
        even = duration_s * number / count
        cut = _quietest(loudness, even - SEARCH_S, even + SEARCH_S)
        ends.append(_quietest(loudness, cut + least, cut + most))
        starts.append(_quietest(loudness, cut - most, cut - least))
    ends.append(duration_s)
    return list(zip(starts, ends, strict=True))


def _quietest(loudness: Sequence[float], start_s: float, end_s: float) -> float:
    """The middle of the quietest 0.3 seconds centred in this span; of several, the one nearest its middle.

    A multiple of 20 ms, so that it falls between two samples of any rate that is a multiple of 50 Hz.
    """
    reach = round(_QUIET_S / FRAME_S / 2)
    first, last = -int(-start_s // FRAME_S), int(end_s // FRAME_S)
    assert first <= last
    middle = (first + last) / 2

    def rank(at: int) -> tuple[float, float]:
        around = loudness[max(0, at - reach) : at + reach]
        return sum(around) / max(1, len(around)), abs(at - middle)

    return round(min(range(first, last + 1), key=rank) * FRAME_S, 2)


def main(arguments: list[str]) -> None:
    """Decode, and write the answer."""
    output, duration_ms = (int(argument) for argument in arguments)
    for what, limit in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    try:
        answer = decode(Input(0), output, duration_ms)
    except FlacInvalid as error:
        answer = {"refused": str(error)}
    except OSError as error:
        answer = {"failed": str(error.strerror)}
    sys.stdout.write(json.dumps(answer) + "\n")


def decode(source: Input, output: int, duration_ms: int) -> dict[str, Any]:
    """Decode to the end, write the samples to the output and plan the chunks. Raises FlacInvalid."""
    metadata = flac.Metadata()
    start = None
    while start is None:
        content = source.read()
        if not content:
            metadata.refuse_end()
        start = metadata.add(content)
    while len(start) < _LEAST_FRONT_BYTES and (content := source.read()):
        start += content
    info = metadata.stream_info()
    longest = duration_ms * info.sample_rate // 1000
    _limit_processor_time(longest * info.channels)
    # Only native code reads a caller's bytes in ways that we do not know; it has not seen any yet.
    unconfined = confine()
    source.put_in_front(flac.with_unknown_total(metadata.stream_info_bytes) + start)
    digest, pcm = Digest(info), Pcm(info, output)
    frames = _decode_frames(source, info, longest, digest, pcm)
    digest.finish()
    if info.total_frames not in (0, frames):
        raise FlacInvalid(f"its head promises {info.total_frames} samples, but there are {frames}")
    if -(-frames * 1000 // info.sample_rate) != duration_ms:
        raise FlacInvalid("its frames do not hold as many samples as they say")
    summary = {"sample_rate": info.sample_rate, "channels": info.channels, "frames": frames}
    return summary | {"unconfined": unconfined} | pcm.finish()


def _limit_processor_time(samples: int) -> None:
    """Limit the processor time to what so many samples may take, whatever the bytes are."""
    limit_s = START_CPU_S + samples // SAMPLES_PER_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))


def _decode_frames(source: Input, info: StreamInfo, longest: int, digest: Digest, pcm: Pcm) -> int:
    """Decode, digest and write all frames; returns how many there were."""
    frame_bytes = digest.sample_bytes * info.channels
    # Two in turn: the digest works on one while the next is decoded.
    blocks = [memoryview(bytearray(BLOCK_BYTES // frame_bytes * frame_bytes)) for _ in range(2)]
    frames = 0
    try:
        with Stream(source) as stream:
            if (stream.samplerate, stream.channels) != (info.sample_rate, info.channels):
                raise FlacInvalid("the decoder reads its head differently")
            while count := stream.buffer_read_into(blocks[0], digest.dtype):
                frames += count
                if frames > longest:
                    raise FlacInvalid("it is longer than its frames say")
                digest.add(blocks[0][: count * frame_bytes])
                pcm.add(blocks[0][: count * frame_bytes])
                blocks.reverse()
    except soundfile.LibsndfileError as error:
        raise FlacInvalid("a frame is damaged, or there is other data between two frames") from error
    if source.went_back:
        raise FlacInvalid("a frame does not match its checksum")
    return frames


if __name__ == "__main__":
    main(sys.argv[1:])
