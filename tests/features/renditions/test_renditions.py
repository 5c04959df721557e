"""Sound in other forms: whole, of the same length, joinable, and never cut short without an error."""

import io
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile

from tenuto.features.decoding.wav import pcm16_wav, read_pcm16_wav
from tenuto.features.openai.speech import _STREAMED
from tenuto.features.openai.streams import _Sink
from tenuto.features.renditions.renditions import (
    AUDIO_FORMS,
    WAV,
    NotRenderable,
    SoundWriter,
    read_sound,
    spans_of,
    write_audio,
)

RATE = 24_000


def tone(seconds: float, rate: int = RATE, channels: int = 1) -> bytes:
    """A WAV of a tone that swells, so that no two of its seconds are alike."""
    at = np.arange(round(seconds * rate)) / rate
    samples = (np.sin(2 * np.pi * 220 * at) * 3_000 * (1 + at)).astype("<i2")
    return pcm16_wav(np.repeat(samples, channels).tobytes(), rate, channels)


def rendered(name: str, *sources: bytes) -> bytes:
    sink = io.BytesIO()
    write_audio(AUDIO_FORMS[name], [io.BytesIO(source) for source in sources], sink)
    return sink.getvalue()


def heard(name: str, content: bytes) -> tuple[np.ndarray, int]:
    if name == "pcm":
        return np.frombuffer(content, "<i2"), RATE
    samples, rate = soundfile.read(io.BytesIO(content), dtype="int16")
    return samples, rate


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (22_050, 2), (24_000, 1), (96_000, 2)])
@pytest.mark.parametrize("name", AUDIO_FORMS)
def test_every_form_has_the_whole_sound(name: str, channels: int, rate: int) -> None:
    samples, written = heard(name, rendered(name, tone(1, rate, channels)))

    assert 1 == pytest.approx(len(samples) / written, abs=0.2 if name == "mp3" else 0.01)
    energy = (samples.astype(float) ** 2).sum() / written / (channels if samples.ndim == 2 else 1)
    assert 3_000 * 1.53 / np.sqrt(2) == pytest.approx(np.sqrt(energy), rel=0.08)


@pytest.mark.parametrize("name", ["wav", "flac", "pcm"])
def test_lossless_forms_join_sample_to_sample(name: str) -> None:
    parts = [tone(0.7), tone(0.3)]

    samples, _ = heard(name, rendered(name, *parts))

    assert b"".join(bytes(read_pcm16_wav(part).frames) for part in parts) == samples.astype("<i2").tobytes()


@pytest.mark.parametrize(("rate", "channels"), [(RATE, 1), (RATE, 2), (22_050, 1)])
@pytest.mark.parametrize("name", AUDIO_FORMS)
def test_what_is_stored_as_it_is_sent_is_what_would_be_written(name: str, rate: int, channels: int) -> None:
    """WAV always, PCM of its own rate and one channel; other sound changes."""
    sources = [tone(0.7, rate, channels), tone(0.3, rate, channels)]
    stored = spans_of(AUDIO_FORMS[name], [io.BytesIO(source) for source in sources])
    is_sent_so = name == "wav" or (name, rate, channels) == ("pcm", RATE, 1)

    assert is_sent_so == (stored is not None)
    if stored is not None:
        spans = zip(sources, stored.spans, strict=True)
        joined = b"".join(source[start:end] for source, (start, end) in spans)
        assert rendered(name, *sources) == stored.start + joined


def test_a_source_without_its_end_is_not_sent() -> None:
    """Its header says more than there is."""
    with pytest.raises(NotRenderable):
        spans_of(WAV, [io.BytesIO(tone(1)[:-2])])


def test_mp3_has_no_note_of_its_length_so_that_files_may_be_joined() -> None:
    """Without LAME's first frame two files, one behind the other, play as long as both."""
    one, two = rendered("mp3", tone(1)), rendered("mp3", tone(2))

    assert not any(note in one for note in (b"Xing", b"Info"))
    assert 3 == pytest.approx(len(heard("mp3", one + two)[0]) / RATE, abs=0.2)
    # Frames of one size: a constant bit rate.
    assert 240 == one.index(one[:3], 1)
    assert 0 == len(one) % 240


@pytest.mark.parametrize("name", sorted(_STREAMED))
def test_a_form_that_is_streamed_is_only_appended_to(name: str) -> None:
    """What is taken while it is written, piece by piece, is the whole, and nothing is kept."""
    sink, pieces = _Sink(), []
    rate, channels, blocks = read_sound(io.BytesIO(tone(5)))
    with SoundWriter(AUDIO_FORMS[name], rate, channels, cast(BinaryIO, sink)) as writer:
        for block in blocks:
            writer.write(block)
            pieces.append(sink.take())
        writer.finish()
    pieces.append(sink.take())
    samples, _ = heard(name, b"".join(pieces))
    whole, _ = heard(name, rendered(name, tone(5)))

    assert 2 <= len([piece for piece in pieces if piece])
    assert whole.tobytes() == samples.tobytes()
    assert 0 == sink.waiting_bytes
    sink.seek(0)
    with pytest.raises(io.UnsupportedOperation):
        sink.write(b"x")


class Breaking(io.BytesIO):
    """A file of which the rest cannot be read."""

    def read(self, size: int | None = -1, /) -> bytes:
        return self._broken(super().read(size))

    def readinto(self, buffer: object, /) -> int:
        size = super().readinto(buffer)  # type: ignore[arg-type]
        self._broken(b"")
        return size

    def _broken(self, data: bytes) -> bytes:
        if self.tell() > 200_000:
            raise OSError("the disk is gone")
        return data


@pytest.mark.parametrize("name", AUDIO_FORMS)
def test_a_source_that_breaks_off_is_an_error(name: str) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        write_audio(AUDIO_FORMS[name], [cast(BinaryIO, Breaking(tone(30)))], io.BytesIO())


@pytest.mark.parametrize("name", AUDIO_FORMS)
def test_a_full_disk_is_an_error(name: str) -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="space"):
        write_audio(AUDIO_FORMS[name], [io.BytesIO(tone(5))], cast(BinaryIO, full))


def test_parts_that_do_not_fit_together_are_refused() -> None:
    for other in (tone(1, 8_000), tone(1, RATE, 2)):
        with pytest.raises(NotRenderable, match="sample rates or channels"):
            rendered("wav", tone(1), other)
    for broken, why in (
        (b"no sound at all", "not a WAV"),
        (tone(1)[:-2], "ends before"),
        (b"RIFF", "ends before"),
    ):
        with pytest.raises(NotRenderable, match=why):
            rendered("mp3", broken)
