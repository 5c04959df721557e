"""What a job makes of an admitted FLAC: the same count, samples, parts."""

import io
import os
import tempfile
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from features.decoding.readers import as_pcm, decode
from servers.corpora import Attack, attacks
from servers.flacs import ADMITTED, ONLY_DECODED, Recipe, inspected, made, noise
from tenuto.features.decoding.decoder_child import DecoderEnded, DecoderFailed
from tenuto.features.recognition import flac_child
from tenuto.features.recognition.recording import Decoding
from tenuto.media.flac import FlacInvalid, FlacSummary

RATE = 16_000
ATTACKS = attacks("flac")


def encoded(samples: "np.ndarray[tuple[int, ...], np.dtype[np.int16]]", rate: int) -> bytes:
    """A FLAC as an encoder makes it."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="FLAC")
    return file.getvalue()


@pytest.mark.parametrize("what", ONLY_DECODED)
def test_what_no_checksum_shows_is_refused_when_it_is_decoded(what: str) -> None:
    """Admitted as its frames say; the job that decodes it ends with the reason (P22)."""
    make, reason = ONLY_DECODED[what]
    content = make()

    assert inspected(content).frames
    with pytest.raises(FlacInvalid, match=reason):
        as_pcm(content)


def test_more_sound_than_was_admitted_is_not_decoded() -> None:
    """The child stops where the recording should end."""
    with pytest.raises(FlacInvalid, match="longer than its frames"):
        as_pcm(made(Recipe([noise(50_000)])), 1000)


def test_an_admitted_flac_is_decoded_to_the_same_count() -> None:
    for what, (make, (frames, rate, channels)) in ADMITTED.items():
        content = make()
        if frames < 100_000:
            assert FlacSummary(rate, channels, frames) == as_pcm(content)[0].summary, what


def test_a_child_that_dies_is_told_apart_from_a_refusal() -> None:
    """Its limits, a fault of the library or the machine may have killed it: another attempt may go well."""
    with tempfile.TemporaryFile() as file, closing(Decoding(file.fileno(), 1000)) as decoding:
        decoding.feed(made(Recipe([noise(5000)])))
        decoding.abandon()
        decoding.feed(bytes(4 << 20))

        with pytest.raises(DecoderEnded, match="too much time or memory"):
            decoding.finish()


def test_no_room_for_the_samples_is_not_the_files_fault() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(DecoderFailed):
        decode(made(Recipe([noise(5000)])), full.fileno())


def test_sixteen_kilohertz_mono_passes_as_it_is() -> None:
    """The engines get the very samples that were uploaded."""
    samples = np.array(noise(50_000), np.int16)
    decoded, pcm = as_pcm(encoded(samples, RATE))

    assert (50_000, ((0, 50_000),)) == (decoded.pcm_frames, decoded.chunks)
    assert samples.tolist() == pcm.tolist()


@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (44_100, 2), (48_000, 6), (96_000, 1)])
def test_other_rates_and_channels_become_sixteen_kilohertz_mono(rate: int, channels: int) -> None:
    seconds = np.arange(rate * 3) / rate
    tone = np.where((seconds > 1) & (seconds < 2), np.sin(seconds * 2 * np.pi * 440), 0)
    stereo = np.repeat((tone * 10_000).astype(np.int16)[:, None], channels, axis=1)
    decoded, pcm = as_pcm(encoded(stereo, rate))
    summary = decoded.summary
    spectrum = np.abs(np.fft.rfft(pcm[RATE : 2 * RATE].astype(float)))

    assert (rate * 3, channels, 3000) == (summary.frames, summary.channels, summary.duration_ms)
    assert abs(decoded.pcm_frames - 3 * RATE) <= 1
    assert 440 == int(spectrum.argmax())
    assert 9_900 < float(np.abs(pcm[RATE + 800 : 2 * RATE - 800]).max()) < 10_100
    assert 50 > float(np.abs(pcm[: RATE - 800]).max())


def test_a_long_recording_is_cut_at_quiet_places() -> None:
    """Parts are about ten minutes, overlap by 5–10 s, hold everything, and are the same every time (R129)."""
    loud = np.array(noise(RATE), np.int16)
    samples = np.tile(loud, 1500)
    for second in range(0, 1500, 3):
        samples[second * RATE : second * RATE + RATE // 2] = 0
    content = encoded(samples, RATE)
    decoded, pcm = as_pcm(content)
    parts = decoded.chunks

    assert decoded.chunks == as_pcm(content)[0].chunks
    assert (3, 0, len(samples)) == (len(parts), parts[0][0], parts[-1][1])
    assert all(5 * RATE <= end - start <= 10 * RATE for (_, end), (start, _) in pairwise(parts))
    assert all(400 * RATE < end - start <= 650 * RATE for start, end in parts)
    assert not any(
        np.abs(pcm[cut - 800 : cut + 800]).max() for part in parts for cut in part if 0 < cut < len(pcm)
    )


@pytest.mark.parametrize(
    ("seconds", "parts"), [(0.01, 1), (600, 1), (600.02, 2), (1200, 2), (1201, 3), (7200, 12)]
)
def test_how_many_parts(seconds: float, parts: int) -> None:
    """Audio over ten minutes is processed in parts; also where nothing is quiet (R129)."""
    planned = flac_child.plan_chunks([1.0] * round(seconds / flac_child.FRAME_S), seconds)

    assert parts == len(planned)
    assert (0.0, seconds) == (planned[0][0], planned[-1][1])
    assert all(5 <= before[1] - after[0] <= 10 for before, after in pairwise(planned))
    assert all(end - start <= 650 for start, end in planned)


def test_nothing_of_the_services_secrets_reaches_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads a caller's bytes, so it is given no variable that it does not need."""
    monkeypatch.setenv("TENUTO_DATABASE", "postgresql://user:secret@host/db")
    with tempfile.TemporaryFile() as file, closing(Decoding(file.fileno(), 1000)) as decoding:
        # The kernel shows it a moment after the new program has begun.
        while not (environment := Path(f"/proc/{decoding.pid}/environ").read_bytes()):
            time.sleep(0.001)

    assert b"PATH=" in environment or os.environ.get("PATH") is None
    assert b"secret" not in environment


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_a_file_of_the_corpus_is_answered_as_its_line_says(attack: Attack) -> None:
    """What says the truth of its samples is counted, everything else refused with a reason (P14), also if it
    comes byte by byte, or in small pieces that cut heads."""
    answers, found = set[str](), ""
    for piece_bytes in (1 << 20, 1, 7):
        try:
            found, frames = "201", inspected(attack.content(), piece_bytes).frames
            assert frames == 1000 or attack.answers == ("job",)
        except FlacInvalid as error:
            found = "400"
            answers.add(str(error))

    assert found in attack.answers or (found, attack.answers) == ("201", ("job",))
    assert answers == set() if found == "201" else (len(answers) == 1 and "" not in answers)


@pytest.mark.parametrize(
    "attack", [one for one in ATTACKS if one.answers == ("job",)], ids=lambda one: one.name
)
def test_what_only_decoding_reveals_fails_its_job(attack: Attack) -> None:
    """The decoder refuses it, or counts other samples than were admitted (P14)."""
    with pytest.raises(FlacInvalid) as raised:
        as_pcm(attack.content())

    assert str(raised.value)
