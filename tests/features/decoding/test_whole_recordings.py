"""A recording is read to its end, or refused: never is a part of it taken for the whole."""

import functools
import io
import random
import re
import resource
import subprocess
import tempfile
from typing import BinaryIO, cast

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from features.decoding.readers import as_pcm, converted
from servers.ffmpegs import ffmpeg
from tenuto.features.decoding.decoder_child import NotReadable
from tenuto.features.openai.recordings import FormReader
from tenuto_client.sounds.containers import missing_of
from tenuto_client.sounds.layout import sounds_of
from tenuto_client.sounds.mp3 import _kind
from tenuto_client.sounds.ogg import _checksum
from tenuto_client.sounds.source import Source

RATE = 16_000
MP3 = ["-c:a", "libmp3lame"]
WITHOUT_LENGTH = ["-write_xing", "0"]
WAYS: dict[str, list[str]] = {
    "MP3, variable rate": [*MP3, "-q:a", "4", "-f", "mp3"],
    "MP3, variable rate, no length": [*MP3, "-q:a", "4", *WITHOUT_LENGTH, "-f", "mp3"],
    "MP3, constant rate": [*MP3, "-b:a", "32k", *WITHOUT_LENGTH, "-f", "mp3"],
    "MP2": ["-c:a", "mp2", "-f", "mp2"],
    "Vorbis": ["-c:a", "libvorbis", "-f", "ogg"],
    "Opus": ["-c:a", "libopus", "-b:a", "24k", "-f", "ogg"],
    "FLAC": ["-c:a", "flac", "-f", "flac"],
    "WAV": ["-rf64", "never", "-f", "wav"],
    "WAV, ADPCM": ["-c:a", "adpcm_ms", "-f", "wav"],
    "RF64": ["-rf64", "always", "-f", "wav"],
    "W64": ["-f", "w64"],
    "AIFF": ["-f", "aiff"],
    "AU": ["-f", "au"],
    "CAF": ["-f", "caf"],
}
STREAMED = ("MP3, variable rate", "Vorbis", "Opus", "FLAC", "WAV")
"""Written to a pipe, whose writer cannot fill in a length afterwards."""


@functools.cache
def spoken(
    seconds: float, rate: int, channels: int, *, is_silent_first: bool = False, seed: int = 1
) -> bytes:
    """A WAV of bursts of noise and pauses, as long as words: its bit rate varies as that of speech does."""
    count = round(seconds * rate)
    at = np.arange(count) / rate
    noise = np.random.default_rng(seed).standard_normal(count)
    is_loud = (at % 1.6 < 0.8) != is_silent_first
    samples = noise * np.where(is_loud, 0.2 * np.abs(np.sin(at * 9)), 0.0005)
    file = io.BytesIO()
    soundfile.write(file, np.repeat(samples[:, None], channels, axis=1), rate, format="WAV")
    return file.getvalue()


@functools.cache
def encoded(sound: bytes, way: tuple[str, ...], *, is_streamed: bool = False) -> bytes:
    """In a file, whose head the encoder completes at the end, or in a pipe."""
    if not is_streamed:
        return _in_a_file(sound, way)
    command = [ffmpeg(), "-v", "error", "-f", "wav", "-i", "pipe:0", *way, "pipe:1"]
    return subprocess.run(command, input=sound, capture_output=True, check=True).stdout


def _in_a_file(sound: bytes, way: tuple[str, ...]) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        command = [ffmpeg(), "-v", "error", "-y", "-f", "wav", "-i", "pipe:0", *way, file.name]
        subprocess.run(command, input=sound, check=True)
        return file.read()


def by_ffmpeg(content: bytes) -> NDArray[np.int16]:
    """All of its samples, by another decoder."""
    command = [ffmpeg(), "-v", "quiet", "-i", "pipe:0", "-ac", "1", "-ar", str(RATE), "-f", "s16le", "pipe:1"]
    return np.frombuffer(
        subprocess.run(command, input=content, capture_output=True, check=False).stdout, "<i2"
    )


def agree(ours: NDArray[np.int16], theirs: NDArray[np.int16]) -> bool:
    """Whether both have the same end, within the tenth of a second by which decoders differ."""
    if abs(len(ours) - len(theirs)) > RATE // 10:
        return False
    end, reach = min(len(ours), len(theirs)) - RATE // 10, RATE // 10
    tail = theirs[end - RATE : end].astype(float)
    window = ours[max(0, end - RATE - reach) : end + reach].astype(float)
    alike = np.correlate(window, tail, "valid")
    sums = np.cumsum(np.concatenate(([0.0], window**2)))
    powers = np.sqrt((sums[len(tail) :] - sums[: -len(tail)]) * (tail @ tail)) + 1
    return bool((alike / powers).max() > 0.9)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        *((name, name) for name in WAYS),
        ("MP3, variable rate", "MP3, variable rate, no length"),
        ("MP3, constant rate", "MP3, variable rate"),
        ("Vorbis", "Opus"),
        ("WAV", "MP3, variable rate"),
    ],
)
def test_joined_files_are_read_one_after_the_other(first: str, second: str) -> None:
    """With another rate and another number of channels in the second, as in a chained broadcast."""
    one = encoded(spoken(2, 44_100 if "Opus" not in first else 48_000, 1), tuple(WAYS[first]))
    other = encoded(spoken(3, 24_000, 2, seed=2), tuple(WAYS[second]))
    samples, _ = converted(one + other)

    assert agree(samples, np.concatenate((by_ffmpeg(one), by_ffmpeg(other))))


@pytest.mark.parametrize("name", WAYS)
def test_a_file_that_is_cut_off_is_refused(name: str) -> None:
    sound = spoken(4, 48_000, 1)
    whole = encoded(sound, tuple(WAYS[name]))
    for share in (0.6, 0.99):
        with pytest.raises(NotReadable, match=r"cut off or damaged.*s of it can be read; .*ffmpeg") as told:
            converted(whole[: round(share * len(whole)) | 1])
        [seconds] = re.findall(r"([\d.]+) s of it", str(told.value))
        assert float(seconds) < 4
    assert 4 == pytest.approx(converted(whole)[1] / RATE, abs=0.1)


@pytest.mark.parametrize("name", STREAMED)
def test_a_stream_is_read_to_its_end(name: str) -> None:
    content = encoded(spoken(3, 48_000, 2), tuple(WAYS[name]), is_streamed=True)
    contents = [content]
    if name in ("Vorbis", "Opus"):
        contents.append(content[: content.rindex(b"OggS")])
    for each in contents:
        assert agree(converted(each)[0], by_ffmpeg(each))


def test_tags_and_padding_are_no_sound_and_other_bytes_are_told_of() -> None:
    sound = encoded(spoken(2, 44_100, 1), tuple(WAYS["MP3, variable rate"]))
    id3 = b"ID3\x04\0\0\0\0\2\0" + bytes(256)
    ape = b"APETAGEX" + (2000).to_bytes(4, "little") + (32).to_bytes(4, "little") + bytes(16)
    tags = b"TAG" + bytes(125)
    length = converted(sound)[1]

    assert 2 * length == converted(id3 + sound + tags + id3 + sound + bytes(5000) + ape + tags)[1]
    with pytest.raises(NotReadable, match=r"30\d\d bytes from byte \d+ on are no sound"):
        converted(sound + np.random.default_rng(1).bytes(3000).replace(b"\xff", b"\0") + sound)


def _chunk(name: bytes, content: bytes, length: int | None = None) -> bytes:
    """Of a WAV, perhaps with another length in its head."""
    told = len(content) if length is None else length
    return name + told.to_bytes(4, "little") + content + bytes(len(content) % 2)


def _vbri(frames: bytes) -> bytes:
    """A frame of 128 kbit/s with the tag of Fraunhofer's encoder, right for the frames behind it."""
    head, at, count = b"\xff\xfb\x90\xc4", 0, 0
    while kind := _kind(frames[at : at + 4]):
        at, count = at + kind.size, count + 1
    tag = b"VBRI" + bytes(10) + count.to_bytes(4, "big")
    return (head + bytes(32) + tag).ljust(417, b"\0")


def _ordinary() -> dict[str, tuple[bytes, bytes]]:
    """Files as other programs write them, each with one of the same sound that any decoder reads."""
    sound = spoken(3, 44_100, 1)
    samples, form = sound[44:], sound[12:36]
    bare = encoded(sound, (*MP3, "-q:a", "4", *WITHOUT_LENGTH, "-id3v2_version", "0", "-f", "mp3"))
    tagged = bytearray(encoded(sound, (*MP3, "-q:a", "9", "-f", "mp3")))
    place = tagged.index(b"Xing")
    count = int.from_bytes(tagged[place + 8 : place + 12], "big")
    tagged[place + 8 : place + 12] = (count + 1).to_bytes(4, "big")
    tagged[place + 120 : place + 124] = b"GOGO"
    flac = encoded(sound, tuple(WAYS["FLAC"]))
    too_few = bytearray(flac)
    too_few[22:26] = (10_000).to_bytes(4, "big")
    wide = _chunk(
        b"ds64", (len(samples) + 80).to_bytes(8, "little") + len(samples).to_bytes(8, "little") + bytes(12)
    )
    open_wide = _chunk(b"ds64", bytes(28))
    data = _chunk(b"data", samples, 0xFFFF_FFFF)
    caf = encoded(sound, tuple(WAYS["CAF"]))
    in_wav = encoded(sound, ("-c:a", "libmp3lame", "-f", "wav"))
    return {
        "VBRI": (_vbri(bare) + bare, bare),
        "a head that counts itself": (bytes(tagged), bytes(tagged)),
        "a tag with longer texts": (bare + b"TAG+" + bytes(223) + b"TAG" + bytes(125), bare),
        "old lyrics": (bare + b"LYRICSBEGINwordsLYRICSEND" + b"TAG" + bytes(125), bare),
        "filled up": (bare + b"\xaa" * 300, bare),
        "a line end": (sound + b"\r\n", sound),
        "FLAC and zeros": (flac + bytes(999), flac),
        "FLAC and a line end": (flac + b"\r\n", flac),
        "a piped AIFF of SoX": (_of_sox(encoded(sound, tuple(WAYS["AIFF"]))), sound),
        "FLAC whose head counts too few": (bytes(too_few), sound),
        "BW64": (b"BW64\xff\xff\xff\xffWAVE" + wide + form + data, sound),
        "RF64 of a recorder that was not stopped": (
            b"RF64\xff\xff\xff\xffWAVE" + open_wide + form + data,
            sound,
        ),
        "CAF without a length": (caf.replace(caf[caf.index(b"data") + 4 :][:8], b"\xff" * 8, 1), sound),
        "MP3 in a WAV": (in_wav, in_wav),
    }


def _of_sox(aiff: bytes) -> bytes:
    """With the length that it writes into a pipe."""
    at = aiff.index(b"SSND") + 4
    return aiff[:at] + (0x7F00_0008).to_bytes(4, "big") + aiff[at + 4 :]


@pytest.mark.variant("depth")
def test_files_of_other_programs_are_read_to_their_end() -> None:
    """Their heads say nothing, or something wrong that does no harm."""
    refused = []
    for name, (content, same) in _ordinary().items():
        try:
            is_right = agree(converted(content)[0], by_ffmpeg(same))
        except NotReadable as error:
            refused.append((name, str(error)))
        else:
            assert is_right, name

    assert [] == refused


def _turned_back(content: bytes) -> bytes:
    """An Ogg whose last page says that there are 48,000 samples."""
    at = content.rindex(b"OggS")
    page = bytearray(content[at:])
    page[6:14] = (48_000).to_bytes(8, "little")
    page[22:26] = _checksum(bytes(page)).to_bytes(4, "little")
    return content[:at] + bytes(page)


def test_what_would_hide_sound_is_told_of() -> None:
    bare = encoded(
        spoken(2, 44_100, 1), (*MP3, "-q:a", "4", *WITHOUT_LENGTH, "-id3v2_version", "0", "-f", "mp3")
    )
    ape = b"APETAGEX" + (2000).to_bytes(4, "little") + (1 << 30).to_bytes(4, "little") + bytes(16)
    for tag in (b"ID3\x03\0\0\x7f\x7f\x7f\x7f", ape, b"LYRICSBEGIN"):
        with pytest.raises(NotReadable, match=r"the tag at byte .* has no end"):
            converted(bare + tag + bare)
    for name in ("Vorbis", "Opus"):
        with pytest.raises(NotReadable, match="counts fewer samples"):
            converted(_turned_back(encoded(spoken(4, 48_000, 1), tuple(WAYS[name]))))


def _lacking(content: bytes) -> str | None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        return missing_of(Source(file))


def test_containers_tell_what_is_missing_and_bear_what_is_added() -> None:
    """Of fragments the index tells, of an AVI its lists; padding and the tags of some programs do no harm."""
    sound = spoken(4, 44_100, 1)
    in_fragments = ("-c:a", "aac", "-movflags", "dash+global_sidx", "-frag_duration", "500000", "-f", "mp4")
    dash = encoded(sound, in_fragments)
    half = dash.rindex(b"moof", 0, 2 * len(dash) // 3) - 4

    assert _lacking(dash) is None
    assert "promise" in str(_lacking(dash[:half]))
    for way in (
        ("-c:a", "aac", "-f", "ipod"),
        ("-c:a", "libopus", "-f", "webm"),
        ("-c:a", "aac", "-f", "adts"),
    ):
        content = encoded(sound, way)
        assert _lacking(content + bytes(1000)) is None
        assert _lacking(content[:-50]) is not None
    for title in (bytes(30), b"A title of thirty characters  "):
        tag = b"TAG" + title + bytes(95)
        assert _lacking(encoded(sound, ("-c:a", "aac", "-f", "ipod")) + tag) is None
    avi, tagged_aac = ("-c:a", "pcm_s16le", "-f", "avi"), ("-c:a", "aac", "-write_id3v2", "1", "-f", "adts")
    for content in (encoded(sound, avi), encoded(sound, tagged_aac)):
        assert _lacking(content) is None
        assert _lacking(content[: len(content) // 2]) is not None
    segment = encoded(sound, tagged_aac)
    assert _lacking(segment + segment) is None
    assert _lacking(segment + segment[:-50]) is not None


def test_what_was_reserved_and_has_not_arrived_is_no_padding() -> None:
    """Many zeros behind sound whose length nothing tells; behind a WAV they do no harm."""
    sound = spoken(4, 44_100, 1)
    ways = (
        (*MP3, *WITHOUT_LENGTH, "-f", "mp3"),
        ("-c:a", "aac", "-f", "adts"),
        ("-c:a", "libopus", "-f", "ogg"),
        ("-c:a", "aac", "-movflags", "frag_keyframe+empty_moov", "-f", "mp4"),
    )
    for way in ways:
        content = encoded(sound, way)
        assert _unread(content + bytes(60_000)) is None
        assert _unread(content + bytes(70_000)) is not None
    assert _unread(sound + bytes(70_000)) is None


def _unread(content: bytes) -> str | None:
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(content)
        return missing_of(Source(file)) or sounds_of(Source(file)).missing


def test_channels_that_cancel_each_other_out_are_heard() -> None:
    """One of the two is used, also of a FLAC that is uploaded; one channel of eight stays their mean."""
    mono, _ = soundfile.read(io.BytesIO(spoken(3, RATE, 1)))
    upload = io.BytesIO()
    soundfile.write(upload, np.stack((mono, -mono), axis=1), RATE, format="FLAC")
    assert np.allclose(as_pcm(upload.getvalue())[1] / 32_768, mono, atol=2 / 32_768)
    opposite, one_of_eight = np.stack((mono, -mono), axis=1), np.zeros((len(mono), 8))
    one_of_eight[:, 5] = mono
    for samples, share in ((opposite, 1), (one_of_eight, 1 / 8)):
        file = io.BytesIO()
        soundfile.write(file, samples, RATE, format="WAV")

        assert np.allclose(converted(file.getvalue())[0] / 32_768, mono * share, atol=2 / 32_768)


@pytest.mark.variant("depth")
@pytest.mark.parametrize("seed", range(12))
def test_whatever_becomes_of_a_file_no_sound_is_lost_without_a_word(seed: int) -> None:
    """Encoders, rates, cuts and joints at random: the samples that another decoder gives, or a refusal."""
    dice = random.Random(seed)
    name = dice.choice([*WAYS, *(["MP3, variable rate, no length"] * 6)])
    rate = dice.choice((16_000, 24_000, 48_000))
    sound = spoken(dice.choice((1.7, 4.3)), rate, dice.choice((1, 2)), is_silent_first=dice.random() < 0.5)
    content = encoded(sound, tuple(WAYS[name]), is_streamed=name in STREAMED and dice.random() < 0.5)
    at = dice.randrange(len(content) // 3, len(content))
    case = dice.choice(("whole", "cut", "foreign bytes", "twice"))
    content = {
        "whole": content,
        "cut": content[:at],
        "foreign bytes": content[:at] + dice.randbytes(dice.choice((1, 40, 5000))) + content[at:],
        "twice": content + content,
    }[case]
    try:
        samples, _ = converted(content)
    except NotReadable as error:
        assert case != "whole", error
        return
    theirs = by_ffmpeg(content)
    if case == "twice":
        # ffmpeg stops after the first of some formats.
        theirs = np.concatenate((by_ffmpeg(content[: len(content) // 2]),) * 2)

    assert agree(samples, theirs), (name, case, len(samples), len(theirs))


def test_a_form_on_a_full_disk_is_not_taken_for_a_shorter_one() -> None:
    """The kernel writes what fits, and says how much that was; only the next write fails (P6)."""
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n%b\r\n--b--\r\n'
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with tempfile.TemporaryFile(buffering=0) as file:
        form = FormReader("b", file="file", sink=cast(BinaryIO, file), known=(), limit_bytes=1 << 20)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                form.read(iter([body % bytes(1500)]))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
