"""All samples of a file's sounds as 16 kHz mono, block by block; memory does not grow with the file."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from tenuto_client.sounds.layout import sounds_of
from tenuto_client.sounds.part import Part, told_incomplete
from tenuto_client.sounds.source import Source

RATE = 16_000
BLOCK_FRAMES = 1 << 16
UNKNOWN_FRAMES = 0x7FFF_FFFF_FFFF_FFFF
"""libsndfile's length of a stream that does not state its own."""
_ROUNDED_FRAMES = 3 * 1152
FORMATS = frozenset(("WAV", "WAVEX", "RF64", "W64", "MP3", "FLAC", "OGG", "AIFF", "AU", "CAF"))
"""The formats that are walked, by libsndfile's names; of others it reads what there is, without a word."""
_CANCELLED = 0.01
"""If their mean has less than this share of the loudest channel's power, channels cancel each other out.

Speech on one of eight channels has 1/64 of its power in their mean."""


class _PartFile:
    """A part as a file of its own."""

    def __init__(self, source: Source, part: Part) -> None:
        self._source, self._place = source, 0
        self._ends: list[tuple[int, int | bytes]] = []
        end = 0
        for piece in part.pieces:
            start: int | bytes = piece if isinstance(piece, bytes) else piece[0]
            end += len(piece) if isinstance(piece, bytes) else piece[1] - piece[0]
            self._ends.append((end, start))
        self._size = end
        self._claimed = max(end, part.claimed_bytes)

    def seek(self, offset: int, whence: int = 0) -> int:
        """As files do."""
        self._place = offset + (0, self._place, self._claimed)[whence]
        return self._place

    def tell(self) -> int:
        """As files do."""
        return self._place

    def read(self, count: int = -1) -> bytes:
        """As files do. Near the claimed end there are zeros: decoders look for a tag there."""
        if self._place > self._size:
            found = bytes(max(0, min(count, self._claimed - self._place)))
        else:
            found = self._read(count if count >= 0 else self._size)
        self._place += len(found)
        return found

    def _read(self, count: int) -> bytes:
        found, begin = b"", 0
        for end, start in self._ends:
            at = self._place + len(found)
            if begin <= at < end and len(found) < count:
                take = min(count - len(found), end - at)
                if isinstance(start, bytes):
                    found += start[at - begin : at - begin + take]
                else:
                    found += self._source.at(start + at - begin, take)
            begin = end
        return found


class _Decoder(soundfile.SoundFile):  # type: ignore[misc]
    """A decoder of one part."""

    def seekable(self) -> bool:
        """False, or soundfile would seek after every read."""
        return False


class Reading:
    """A file that is being read. `missing` and `seconds` are right once all blocks are read."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._sounds = sounds_of(source)
        self.seconds = 0.0

    @property
    def missing(self) -> str | None:
        """What of the file was not read; None: nothing."""
        return self._sounds.missing

    def refusal(self) -> str | None:
        """Why it must be refused once all blocks are read; None: it is whole."""
        return told_incomplete(self.missing, self.seconds) if self.missing else None

    def blocks(
        self,
        check: Callable[[Any, int], None] = lambda decoder, promised: None,
        on_samples: Callable[[int], None] = lambda count: None,
    ) -> Iterator[NDArray[np.float32]]:
        """The samples. `check` sees each decoder first, and how many frames are promised.

        `on_samples` sees how many samples were decoded.

        Raises what the two raise, and soundfile.LibsndfileError if nothing can be read and nothing is known
        to be missing.
        """
        for part in self._sounds.parts:
            try:
                with _Decoder(_PartFile(self._source, part)) as decoder:
                    check(decoder, _promised(decoder, part))
                    if part.is_unknown and decoder.format in FORMATS:
                        self._sounds.lacks(f"its beginning is not that of an {decoder.format}")
                    yield from self._decoded(decoder, part, on_samples)
            except soundfile.LibsndfileError as error:
                if not self.seconds and not self.missing:
                    raise
                self._sounds.lacks(f"the decoder says: {error.error_string}")

    def as_it_is(self, channels: int, check: Callable[[Any, int], None]) -> tuple[NDArray[np.int16], int]:
        """All samples of a short recording and their rate, of its first channels. What `blocks` raises."""
        found: list[NDArray[np.int16]] = []
        kinds: list[tuple[int, int]] = []
        for part in self._sounds.parts:
            with _Decoder(_PartFile(self._source, part)) as decoder:
                check(decoder, _promised(decoder, part))
                pieces = [decoder.read(BLOCK_FRAMES, "int16", always_2d=True)]
                while len(pieces[-1]) == BLOCK_FRAMES:
                    pieces.append(decoder.read(BLOCK_FRAMES, "int16", always_2d=True))
                samples = np.concatenate(pieces)[:, :channels]
                kinds.append((decoder.samplerate, samples.shape[1]))
                if len(samples) < (part.least_frames or 0):
                    self._sounds.lacks("some of its frames could not be decoded")
            self.seconds += len(samples) / decoder.samplerate
            found.append(samples)
        if not found:
            return np.zeros((0, channels), np.int16), RATE
        if len(set(kinds)) > 1:
            self._sounds.lacks("files with other rates or channels were joined to it")
            return found[0], kinds[0][0]
        return np.concatenate(found), kinds[0][0]

    def _decoded(
        self, decoder: Any, part: Part, on_samples: Callable[[int], None]
    ) -> Iterator[NDArray[np.float32]]:
        rate, frames, count = decoder.samplerate, 0, BLOCK_FRAMES
        resampler = soxr.ResampleStream(rate, RATE, 1, dtype="float32") if rate != RATE else None
        block = np.empty((BLOCK_FRAMES, decoder.channels), np.float32)
        while count == BLOCK_FRAMES:
            count = len(decoder.read(out=block))
            frames += count
            self.seconds += count / rate
            on_samples(count * decoder.channels)
            mono = mixed(block[:count])
            yield mono if resampler is None else resampler.resample_chunk(mono, last=count < BLOCK_FRAMES)
        promised = _promised(decoder, part)
        if decoder.subtype.startswith("MPEG") and decoder.format != "MP3":
            # An MP3 in a WAV: what its head counts is rounded up to whole frames.
            promised -= _ROUNDED_FRAMES
        if frames < promised < UNKNOWN_FRAMES - _ROUNDED_FRAMES:
            self._sounds.lacks(f"{promised} samples were promised, and {frames} could be decoded")


def _promised(decoder: Any, part: Part) -> int:
    frames: int = decoder.frames if part.least_frames is None else part.least_frames
    return frames


def mixed(block: NDArray[Any]) -> NDArray[np.float32]:
    """The mean of the channels; the loudest one where they cancel each other out."""
    mono: NDArray[np.float32] = block.mean(axis=1, dtype=np.float32)
    if block.shape[1] > 1 and len(block):
        channels = block.astype(np.float32, copy=False)
        powers = np.einsum("ij,ij->j", channels, channels)
        loudest = int(powers.argmax())
        if float(np.dot(mono, mono)) < _CANCELLED * float(powers[loudest]):
            return np.ascontiguousarray(channels[:, loudest])
    return mono
