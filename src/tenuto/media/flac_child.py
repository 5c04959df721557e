"""The child process that decodes one FLAC from its standard input, within limits that it sets itself.

`python -m tenuto.media.flac_child` checks a file for admission; with the number of an open file it writes
what it decodes there, as 16 kHz mono PCM16, and plans the parts. One line of JSON on its standard output says
what was found, or why the file is refused. Nothing else hands a caller's bytes to a native library.
"""

import json
import os
import resource
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tenuto.media import flac
from tenuto.media.flac import FlacInvalid, StreamInfo
from tenuto.media.flac_chain import FrameChain

CPU_S = 120
"""Of processor time; a bomb ends here."""
MEMORY_BYTES = 1 << 30
"""Of address space, most of it the libraries' own; a block of samples takes 2 MiB at most."""
OUTPUT_BYTES = (flac.MAX_DURATION_S + 60) * 16_000 * 2
"""The longest recording as 16 kHz mono PCM16, and a little more."""
BLOCK_BYTES = 2 << 20
_READ_BYTES = 1 << 18


class Sink(Protocol):
    """What becomes of the samples."""

    dtype: str
    """As soundfile names it; samples come interleaved."""

    def add(self, samples: memoryview) -> None:
        """Takes the next samples, which stay as they are until the call after the next."""

    def finish(self) -> dict[str, Any]:
        """What is to be said of them all. Raises FlacInvalid."""


class Input:
    """Standard input as a file for the decoder, which reads on and on: going back is not possible.

    What is put in front replaces what was read before; the end of the file is kept for a last look.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._front = memoryview(b"")
        self._chunk = memoryview(b"")
        self._chunk_at = 0
        self._read_to = 0
        self._position = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._follower: Callable[[bytes], None] | None = None
        self.went_back = False

    def exactly(self, size: int) -> bytes:
        """So many bytes, or fewer at the end of the file."""
        found = b""
        while len(found) < size and (more := self._take(size - len(found))):
            found += more
        return found

    def follow(self, follower: Callable[[bytes], None]) -> None:
        """It is told of all bytes from here on, before anyone has read them."""
        self._follower = follower
        follower(bytes(self._chunk[self._chunk_at :]))

    def put_in_front(self, content: bytes) -> None:
        """A file seems to begin with it, and to go on with what is read next; it can be read again."""
        self._front = memoryview(content)
        self._read_to = len(content)
        self._position = 0

    def tail(self) -> bytes:
        """The end of the file, at least as long as a frame can be."""
        return b"".join(self._tail)

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
                self._fill()
            found = self._chunk[self._chunk_at : self._chunk_at + size]
            self._chunk_at += len(found)
            self._read_to += len(found)
        self._position += len(found)
        return found

    def _fill(self) -> None:
        """The decoder asks for a few KiB at a time; the pipe is read in larger pieces."""
        content = os.read(self._fd, _READ_BYTES)
        self._chunk, self._chunk_at = memoryview(content), 0
        self._tail.append(content)
        self._tail_bytes += len(content)
        while self._tail_bytes - len(self._tail[0]) > flac.MAX_FRAME_BYTES:
            self._tail_bytes -= len(self._tail.popleft())
        if self._follower is not None:
            self._follower(content)


def main(arguments: list[str]) -> None:
    """Decode, and say what was found."""
    output = int(arguments[0]) if arguments else None
    for what, limit in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0 if output is None else OUTPUT_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (limit, limit))
    try:
        answer = decode(Input(0), output)
    except FlacInvalid as error:
        answer = {"refused": str(error)}
    except MemoryError:
        answer = {"refused": "it takes too much memory to decode"}
    except OSError as error:
        answer = {"failed": str(error.strerror)}
    sys.stdout.write(json.dumps(answer) + "\n")


def decode(source: Input, output: int | None) -> dict[str, Any]:
    """Decode to the end; with an output, write the samples there and plan the parts. Raises FlacInvalid."""
    info, stream_info = flac.read_head(source.exactly)
    flac.check_length(info, info.total_frames)
    chain = FrameChain()
    source.follow(chain.add)
    start = source.exactly(64)
    first = flac.check_first_frame(start, info)
    source.put_in_front(flac.with_unknown_total(stream_info) + start)
    sink: Sink
    if output is None:
        from tenuto.media.flac_digest import Digest

        sink = Digest(info)
    else:
        from tenuto.media.flac_pcm import Pcm

        sink = Pcm(info, output)
    frames = _decode_frames(source, info, sink)
    if info.total_frames not in (0, frames):
        raise FlacInvalid(f"its head promises {info.total_frames} samples, but there are {frames}")
    flac.check_end(source.tail(), info, first, frames)
    chain.finish(frames)
    found = {"sample_rate": info.sample_rate, "channels": info.channels, "frames": frames}
    return found | sink.finish()


def _decode_frames(source: Input, info: StreamInfo, sink: Sink) -> int:
    """How many frames were decoded; all went to the sink."""
    import soundfile

    class Stream(soundfile.SoundFile):  # type: ignore[misc]
        def seekable(self) -> bool:
            """Or soundfile would seek after every read, which for FLAC is a search."""
            return False

    sample_bytes = 2 if sink.dtype == "int16" else 4
    frame_bytes = sample_bytes * info.channels
    # Two, in turns: a sink may work on one while the next is decoded.
    blocks = [memoryview(bytearray(BLOCK_BYTES // frame_bytes * frame_bytes)) for _ in range(2)]
    frames = 0
    try:
        with Stream(source) as stream:
            if (stream.samplerate, stream.channels) != (info.sample_rate, info.channels):
                raise FlacInvalid("the decoder reads its head differently")
            while count := stream.buffer_read_into(blocks[0], sink.dtype):
                frames += count
                flac.check_length(info, frames)
                sink.add(blocks[0][: count * frame_bytes])
                blocks.reverse()
    except soundfile.LibsndfileError as error:
        raise FlacInvalid("a frame is damaged, or something stands between two frames") from error
    if source.went_back:
        raise FlacInvalid("a frame does not match its checksum")
    return frames


if __name__ == "__main__":
    main(sys.argv[1:])
