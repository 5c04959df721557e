"""The child process that decodes one FLAC from its standard input, confined and limited by itself.

`python -m tenuto.media.flac_child FILE DURATION_MS` writes what it decodes to the open file with that number,
as 16 kHz mono PCM16, and plans the parts. One line of JSON on its standard output says what was found, or why
the file is refused. Nothing else hands a caller's bytes to a native library.
"""

import json
import os
import resource
import sys
from typing import Any

import soundfile

from tenuto.media import flac
from tenuto.media.confinement import confine
from tenuto.media.flac import FlacInvalid, StreamInfo
from tenuto.media.flac_digest import Digest
from tenuto.media.flac_pcm import Pcm

START_CPU_S = 5
SAMPLES_PER_CPU_S = 10_000_000
"""Of all channels together. Measured: 45 to 150 million; a file that takes longer is made to."""
MEMORY_BYTES = 1 << 30
"""Of address space, most of it the libraries' own; a block of samples takes 2 MiB at most."""
OUTPUT_BYTES = (flac.MAX_DURATION_S + 60) * 16_000 * 2
"""The longest recording as 16 kHz mono PCM16, and a little more."""
BLOCK_BYTES = 2 << 20
_READ_BYTES = 1 << 18
_LEAST_FRONT_BYTES = 64
"""Of audio that the decoder may read twice, once to see what the file is."""


class Input:
    """Standard input as a file for the decoder, which reads on and on: going back is not possible.

    What is put in front replaces what was read before; that can be read again.
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
        """Some bytes from the pipe, none at the end of the file; not to be used once a front was put."""
        return os.read(self._fd, _READ_BYTES)

    def put_in_front(self, content: bytes) -> None:
        """A file seems to begin with it, and to go on with what the pipe holds."""
        self._front = memoryview(content)
        self._read_to = len(content)

    def readinto(self, buffer: Any) -> int:
        """Fill the decoder's buffer, or part of it; 0 at the end of the file."""
        found = self._take(len(buffer))
        buffer[0 : len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int) -> None:
        """Only asks how long the file is (nobody knows), or goes back when a frame's checksum is wrong."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: 1 << 50}[whence]

    def tell(self) -> int:
        return self._position

    def _take(self, size: int) -> memoryview:
        """Some bytes, none at the end of the file."""
        if self._position < len(self._front):
            found = self._front[self._position : self._position + size]
        elif self._position != self._read_to:
            self.went_back = True
            found = memoryview(b"")
        else:
            if self._chunk_at == len(self._chunk):
                # The decoder asks for a few KiB at a time; the pipe is read in larger pieces.
                self._chunk, self._chunk_at = memoryview(self.read()), 0
            found = self._chunk[self._chunk_at : self._chunk_at + size]
            self._chunk_at += len(found)
            self._read_to += len(found)
        self._position += len(found)
        return found


class Stream(soundfile.SoundFile):  # type: ignore[misc]
    """The decoder."""

    def seekable(self) -> bool:
        """Or soundfile would seek after every read, which for FLAC is a search."""
        return False


def main(arguments: list[str]) -> None:
    """Decode, and say what was found."""
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
    """Decode to the end, write the samples to the output and plan the parts. Raises FlacInvalid."""
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
    # Only what is native reads a caller's bytes in ways that we do not know; it has not seen any yet.
    unconfined = confine()
    source.put_in_front(flac.with_unknown_total(metadata.stream_info_bytes) + start)
    digest, pcm = Digest(info), Pcm(info, output)
    frames = _decode_frames(source, info, longest, digest, pcm)
    digest.finish()
    if info.total_frames not in (0, frames):
        raise FlacInvalid(f"its head promises {info.total_frames} samples, but there are {frames}")
    if -(-frames * 1000 // info.sample_rate) != duration_ms:
        raise FlacInvalid("its frames do not hold as many samples as they say")
    found = {"sample_rate": info.sample_rate, "channels": info.channels, "frames": frames}
    return found | {"unconfined": unconfined} | pcm.finish()


def _limit_processor_time(samples: int) -> None:
    """Whatever the bytes are, a second of sound costs so much at most."""
    limit_s = START_CPU_S + samples // SAMPLES_PER_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))


def _decode_frames(source: Input, info: StreamInfo, longest: int, digest: Digest, pcm: Pcm) -> int:
    """How many frames were decoded; all were digested and written."""
    frame_bytes = digest.sample_bytes * info.channels
    # Two, in turns: the digest works on one while the next is decoded.
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
        raise FlacInvalid("a frame is damaged, or something stands between two frames") from error
    if source.went_back:
        raise FlacInvalid("a frame does not match its checksum")
    return frames


if __name__ == "__main__":
    main(sys.argv[1:])
