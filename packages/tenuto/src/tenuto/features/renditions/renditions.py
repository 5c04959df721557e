"""Renditions: stored sound as MP3, Opus, FLAC, WAV or raw PCM, stored images as JPEG or WebP.

Made in bounded memory: LAME writes MP3 (LGPL, through `lameenc`), libsndfile Opus and FLAC (LGPL, part of the
`soundfile` wheel), soxr changes sample rates, Pillow writes images. A rendition is never stored: it is made
from the verified artifact each time it is requested.
"""

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

from msgspec import Struct

from tenuto.features.decoding.wav import HEADER_BYTES, MAX_CHANNELS, MAX_CHUNKS, pcm16_wav

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

BLOCK_FRAMES = 1 << 16
"""How many frames are in memory at once."""
PCM_RATE = 24_000
"""Of raw PCM, in Hz: the rate of OpenAI's speech, since the bytes do not state it."""
MP3_KBITS = ((32_000, 160), (16_000, 80), (0, 40))
"""MP3 bit rates, after the lowest sample rate that has each: in the middle of the format's range there."""
MP3_EFFORT = 5
"""LAME's `quality`, from 0 (slowest) to 9: as good as its default to the ear, in a quarter of the time that
libsndfile's LAME takes, whose effort cannot be chosen (decision 0049)."""
_LONGEST_WAV = 2**32 - 1 - HEADER_BYTES
_CUT_SHORT = "it ends before its own header says"


class NotRenderable(ValueError):
    """The sound or image cannot be written in this form; the message says why."""


class AudioForm(Struct, frozen=True):
    """A form in which sound is sent."""

    name: str
    media_type: str
    container: str = ""
    """libsndfile's name for the file format, and below for its encoding; empty: it does not write this."""
    encoding: str = ""
    rates: tuple[int, ...] = ()
    """Sample rates that the form allows; none: any. Sound at another rate gets the next higher one."""

    def rate_for(self, rate: int) -> int:
        """The sample rate at which sound at `rate` is written."""
        if not self.rates or rate in self.rates:
            return rate
        return next((higher for higher in self.rates if higher > rate), self.rates[-1])


_MP3_RATES = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
WAV = AudioForm("wav", "audio/wav")
AUDIO_FORMS = {
    form.name: form
    for form in (
        AudioForm("mp3", "audio/mpeg", rates=_MP3_RATES),
        AudioForm("opus", "audio/ogg", "OGG", "OPUS", _OPUS_RATES),
        AudioForm("flac", "audio/flac", "FLAC", "PCM_16"),
        WAV,
        AudioForm("pcm", "audio/pcm", rates=(PCM_RATE,)),
    )
}


AAC = AudioForm("aac", "audio/aac")
"""Written only by `features.renditions.ffmpeg`."""


def load_libraries() -> None:
    """Import what the first rendition would import; takes about 0.15 s and 14 MiB.
    A process that runs out of descriptors during its first import of numpy cannot import it again.
    """
    import lameenc
    import numpy
    import soundfile
    import soxr
    from PIL import Image, WebPImagePlugin

    Image.preinit()
    assert all((lameenc, numpy, soundfile, soxr, WebPImagePlugin))


def write_audio(form: AudioForm, sources: Sequence[BinaryIO], sink: BinaryIO) -> None:
    """Write the sound of the sources, one after another without a gap, to an empty seekable sink.

    Sources are PCM16 WAV files at their start, all of one sample rate and number of channels; NotRenderable
    if they are not, or if the form cannot hold so much. What the sources and the sink raise is raised. PCM is
    16-bit little-endian mono; MP3 has a constant bit rate and no Xing header, so that files may be joined.
    """
    opened = _all_opened(sources)
    first = opened[0]
    if form is WAV:
        _write_wav(_blocks(opened), first.rate, first.channels, sink)
        return
    with SoundWriter(form, first.rate, first.channels, sink) as writer:
        for block in _blocks(opened):
            writer.write(block)
        writer.finish()


class Spans(Struct, frozen=True):
    """Sound that is stored as it is sent."""

    start: bytes
    """What comes before the samples."""
    spans: list[tuple[int, int]]
    """Where the samples of each source start and end in it."""


def spans_of(form: AudioForm, sources: Sequence[BinaryIO]) -> Spans | None:
    """What `write_audio` would write, without writing it; None if samples would change. Raises the same."""
    opened = _all_opened(sources)
    rate, channels = opened[0].rate, opened[0].channels
    if form is not WAV and not (form.name == "pcm" and (rate, channels) == (PCM_RATE, 1)):
        return None
    spans = []
    for each in opened:
        start = each.file.tell()
        spans.append((start, start + each.size_bytes))
        if each.file.seek(0, 2) < start + each.size_bytes:
            raise NotRenderable(_CUT_SHORT)
    size_bytes = sum(each.size_bytes for each in opened)
    return Spans(_wav_header(size_bytes, rate, channels) if form is WAV else b"", spans)


def read_sound(source: BinaryIO) -> "tuple[int, int, Iterator[np.ndarray[Any, Any]]]":
    """Sample rate, channels and frames of a PCM16 WAV at its start. Raises NotRenderable."""
    opened = _opened(source)
    return opened.rate, opened.channels, _blocks([opened])


class SoundWriter:
    """Writes sound in a form other than WAV, block by block, to a sink that may be read meanwhile.

    Use it in a `with`. Only FLAC, at its end, changes what it wrote. Raises NotRenderable and sink errors.
    """

    def __init__(self, form: AudioForm, rate: int, channels: int, sink: BinaryIO) -> None:
        self._channels = channels
        wanted = form.rate_for(rate)
        self._resampler = _resampler(rate, wanted, channels)
        self._encoder: _Encoder
        if form.name == "mp3":
            self._encoder = _Lame(wanted, channels, sink)
        elif form.container:
            self._encoder = _Libsndfile(form, wanted, channels, sink)
        else:
            self._encoder = _Raw(sink)

    def __enter__(self) -> "SoundWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._encoder.close()

    def write(self, block: "np.ndarray[Any, Any]") -> None:
        """Write frames of int16, in the shape (frames, channels)."""
        self._write(block if self._resampler is None else self._resampler.resample_chunk(block))

    def finish(self) -> None:
        """Write what the encoder still holds; nothing can be written afterwards."""
        import numpy as np

        if self._resampler is not None:
            self._write(self._resampler.resample_chunk(np.zeros((0, self._channels), "int16"), last=True))
        self._encoder.finish()

    def _write(self, block: "np.ndarray[Any, Any]") -> None:
        self._encoder.write(block.reshape(-1, self._channels))


class _Encoder(Protocol):
    """Writes frames of int16 as one form."""

    def write(self, block: "np.ndarray[Any, Any]") -> None:
        """Frames in the shape (frames, channels)."""

    def finish(self) -> None:
        """Write what is still held, once."""

    def close(self) -> None:
        """Free what is held; may be called again."""


class _Raw:
    """Bare samples of one channel."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink

    def write(self, block: "np.ndarray[Any, Any]") -> None:
        self._sink.write(_mono(block).tobytes())

    def finish(self) -> None:
        return None

    def close(self) -> None:
        return None


class _Lame:
    """MP3 at a constant bit rate.

    Without the frame in which LAME notes the total length: many players would end joined files at the length
    that the first one notes, and a constant bit rate needs no such note.
    """

    def __init__(self, rate: int, channels: int, sink: BinaryIO) -> None:
        import lameenc

        self._sink = sink
        self._lame: Any = lameenc.Encoder()
        self._lame.silence()
        self._lame.set_in_sample_rate(rate)
        self._lame.set_out_sample_rate(rate)
        self._lame.set_channels(channels)
        self._lame.set_bit_rate(next(kbits for lowest, kbits in MP3_KBITS if rate >= lowest))
        self._lame.set_quality(MP3_EFFORT)

    def write(self, block: "np.ndarray[Any, Any]") -> None:
        if len(block):
            self._sink.write(self._lame.encode(block.astype("<i2", copy=False).tobytes()))

    def finish(self) -> None:
        self._sink.write(self._lame.flush())

    def close(self) -> None:
        self._lame = None


class _Libsndfile:
    """A form that libsndfile writes."""

    def __init__(self, form: AudioForm, rate: int, channels: int, sink: BinaryIO) -> None:
        import soundfile

        self._form = form
        self._guard = _Guard(sink)
        with self._telling():
            self._file = soundfile.SoundFile(
                self._guard, "w", rate, channels, form.encoding, None, form.container
            )

    def write(self, block: "np.ndarray[Any, Any]") -> None:
        with self._telling():
            self._file.write(block)

    def finish(self) -> None:
        with self._telling():
            self._file.close()

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Raise the sink's error, which libsndfile cannot pass on."""
        import soundfile

        try:
            yield
        except soundfile.LibsndfileError as error:
            message = f"it cannot be written as {self._form.name}: {error}"
            raise self._guard.error or NotRenderable(message) from error
        if self._guard.error is not None:
            raise self._guard.error


class _Guard:
    """A file for libsndfile, whose callbacks must not raise: it keeps the error, and seems to have ended."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: BaseException | None = None

    def write(self, data: Any) -> int:
        return self._try(lambda: self._file.write(data), 0)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._try(lambda: self._file.seek(offset, whence), 0)

    def tell(self) -> int:
        return self._try(self._file.tell, 0)

    def _try(self, work: Callable[[], T], failed: T) -> T:
        if self.error is not None:
            return failed
        try:
            return work()
        except BaseException as error:
            self.error = error
            return failed


class _Source(Struct, frozen=True):
    """A WAV file whose header has been read."""

    file: BinaryIO
    rate: int
    channels: int
    size_bytes: int
    """Of its samples, which come next."""


def _all_opened(files: Sequence[BinaryIO]) -> list[_Source]:
    """Open all files. NotRenderable: they differ in sample rate or number of channels."""
    opened = [_opened(file) for file in files]
    if len({(each.rate, each.channels) for each in opened}) > 1:
        raise NotRenderable("its parts have different sample rates or channels")
    return opened


def _opened(file: BinaryIO) -> _Source:
    """Read the header of a WAV that `read_pcm16_wav` accepted before. NotRenderable: it is something else."""
    rate = channels = 0
    riff, _, wave = struct.unpack("<4sI4s", _read(file, 12))
    if (riff, wave) != (b"RIFF", b"WAVE"):
        raise NotRenderable("it is not a WAV file")
    for _ in range(MAX_CHUNKS):
        name, size_bytes = struct.unpack("<4sI", _read(file, 8))
        if name == b"data" and channels:
            return _Source(file, rate, channels, size_bytes - size_bytes % (2 * channels))
        if name == b"fmt ":
            _, channels, rate, _, _, bits = struct.unpack("<HHIIHH", _read(file, 16))
            if bits != 16 or not 1 <= channels <= MAX_CHANNELS:
                raise NotRenderable(f"it has {channels} channels of {bits} bits")
            size_bytes -= 16
        file.seek(size_bytes + size_bytes % 2, 1)
    raise NotRenderable("it has no samples")


def _blocks(opened: Sequence[_Source]) -> "Iterator[np.ndarray[Any, Any]]":
    """All frames of all sources as int16, in the shape (frames, channels)."""
    import numpy as np

    for source in opened:
        left = source.size_bytes
        while left:
            content = _read(source.file, min(BLOCK_FRAMES * 2 * source.channels, left))
            left -= len(content)
            yield np.frombuffer(content, "<i2").reshape(-1, source.channels)


def _read(file: BinaryIO, size_bytes: int) -> bytes:
    """Read exactly this many bytes. NotRenderable: the file ends sooner."""
    pieces = []
    while size_bytes:
        piece = file.read(size_bytes)
        if not piece:
            raise NotRenderable(_CUT_SHORT)
        pieces.append(piece)
        size_bytes -= len(piece)
    return b"".join(pieces)


def _resampler(rate: int, wanted: int, channels: int) -> Any:
    """What changes the sample rate; None if it stays."""
    if rate == wanted:
        return None
    import soxr

    return soxr.ResampleStream(rate, wanted, channels, dtype="int16")


def _write_wav(blocks: Any, rate: int, channels: int, sink: BinaryIO) -> None:
    sink.write(bytes(HEADER_BYTES))
    size_bytes = 0
    for block in blocks:
        size_bytes += sink.write(block.astype("<i2", copy=False).tobytes())
    sink.seek(0)
    sink.write(_wav_header(size_bytes, rate, channels))
    sink.seek(0, 2)


def _wav_header(size_bytes: int, rate: int, channels: int) -> bytes:
    """The header for this many bytes of samples. NotRenderable: there are too many."""
    if size_bytes > _LONGEST_WAV:
        raise NotRenderable("it is longer than a WAV file can be; choose another format")
    header = bytearray(pcm16_wav(b"", rate, channels))
    struct.pack_into("<I", header, 4, size_bytes + HEADER_BYTES - 8)
    struct.pack_into("<I", header, HEADER_BYTES - 4, size_bytes)
    return bytes(header)


def _mono(block: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    if block.shape[1] == 1:
        return block.astype("<i2", copy=False)
    mono: np.ndarray[Any, Any] = block.mean(axis=1).round().astype("<i2")
    return mono


QUALITY = 90
"""Of JPEG and WebP, from 1 to 100."""


class ImageForm(Struct, frozen=True):
    """A form in which an image is sent."""

    name: str
    media_type: str
    has_alpha: bool
    """Whether it keeps transparency; otherwise transparent pixels become white."""


PNG = ImageForm("png", "image/png", True)
IMAGE_FORMS = {
    form.name: form
    for form in (PNG, ImageForm("jpeg", "image/jpeg", False), ImageForm("webp", "image/webp", True))
}


def write_image(form: ImageForm, source: BinaryIO, sink: BinaryIO) -> None:
    """Write a PNG in another form. The file and its pixels are in memory, as large as `image.png` allows.

    Raises NotRenderable, and what the source and the sink raise.
    """
    from PIL import Image, UnidentifiedImageError

    # Pillow validates nothing: `image.png` read the whole file before it became a result (decision 0038).
    content = io.BytesIO(source.read())
    try:
        with Image.open(content, formats=["PNG"]) as picture:
            pixels = picture.convert("RGBA" if picture.has_transparency_data else "RGB")
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise NotRenderable(f"it cannot be read: {error}") from error
    if pixels.mode == "RGBA" and not form.has_alpha:
        white = Image.new("RGB", pixels.size, "white")
        white.paste(pixels, mask=pixels)
        pixels = white
    pixels.save(sink, form.name, quality=QUALITY)
