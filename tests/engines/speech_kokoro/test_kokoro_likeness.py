"""Voices from recordings: the speech follows the recording, whatever is in it."""

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile
import soxr

import tenuto.features.voices
from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache
from tenuto_engine import Result
from tenuto_engine_kit.speaker_embedding import SAMPLE_RATE, SpeakerEncoder
from tenuto_kokoro import KokoroEngine, likeness, recording
from tenuto_kokoro.likeness import Likeness
from tenuto_kokoro.styles import STYLE_SHAPE
from tenuto_kokoro.voices import SILENT_WARNING

CACHE = default_cache()
WEIGHTS = ("kokoro-v1.0-int8.onnx", "kokoro-voices", "kokoro-vocabulary", "text2tashkeel", "resemblyzer.pt")
RECORDINGS = Path(tenuto.features.voices.__file__ or "").parent / "recordings"
"""The built-in voices' own: speech of different people, as far as the encoder can tell."""
TEXT = "The library closes at eight o'clock."

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]

Floats = npt.NDArray[np.float32]


class VoicedRun:
    """A run in a recorded voice, or in the original one; it keeps its segments."""

    run_id = "run"

    def __init__(self, content: bytes | None, text: str = TEXT, *, stream: bool = False) -> None:
        voice: dict[str, Any] = {"voice_id": "v", "kind": "own", "profile": {}, "profile_version": None}
        self.parameters: dict[str, Any] = {
            "lang": "en",
            "text": text,
            "stream": stream,
            "voice": None if content is None else voice,
            "emotion_voice": None,
            "duration_factor": 1,
            "interval_silence": 200,
            "max_text_tokens_per_segment": 120,
            "text_normalization": True,
        }
        self.inputs = {} if content is None else {"voice": content}
        self.segments: list[bytes] = []

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        self.segments.append(content)

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        pass

    def check_cancelled(self) -> None:
        pass


@cache
def engine() -> KokoroEngine:
    weights = {name: str(CACHE / name) for name in WEIGHTS}
    return KokoroEngine({"weights": weights, "threads": ENGINE_THREADS})


@cache
def encoder() -> SpeakerEncoder:
    return SpeakerEncoder(CACHE / "resemblyzer.pt")


@cache
def recorded(name: str) -> bytes:
    return (RECORDINGS / f"{name}.wav").read_bytes()


@cache
def spoken(name: str | None) -> Result:
    return engine().run(VoicedRun(recorded(name) if name else None))


def embedding(content: bytes) -> Floats:
    return encoder().embed(recording.resampled(content, SAMPLE_RATE))


def wav(samples: npt.NDArray[Any], rate: int) -> bytes:
    output = io.BytesIO()
    soundfile.write(output, samples, rate, subtype="PCM_16", format="WAV")
    return output.getvalue()


def likeness_of() -> Likeness:
    return Likeness(CACHE / "resemblyzer.pt", CACHE / "kokoro-voices")


@pytest.mark.variant("model")
def test_a_recording_changes_the_speech_and_the_same_recording_gives_the_same() -> None:
    """An own voice is no decoration: the samples differ from the original voice's, run after run alike."""
    run = VoicedRun(recorded("martin"), stream=True)

    assert spoken("martin").content == engine().run(run).content
    assert spoken("martin").content[44:] == b"".join(segment[44:] for segment in run.segments)
    assert spoken("martin").content != spoken(None).content


@pytest.mark.variant("model")
def test_the_official_readers_are_spoken_in_their_likeness() -> None:
    """Linda and Edward, who are people, sound more like themselves than the original voice does (R161)."""
    known = [embedding(recorded(name)) for name in ("linda", "edward")]
    made = [embedding(spoken(name).content) for name in ("linda", "edward")]
    original = embedding(spoken(None).content)
    alike = [float(one @ own) for one, own in zip(made, known, strict=True)]

    assert all(own > float(original @ person) + 0.05 for own, person in zip(alike, known, strict=True))
    assert [0, 1] == list((np.array(made) @ np.array(known).T).argmax(axis=1))


@pytest.mark.parametrize(
    ("rate", "channels", "share"), [(8_000, 1, 1.0), (44_100, 2, 0.3), (192_000, 1, 0.3)]
)
def test_the_form_of_the_file_is_no_part_of_the_voice(rate: int, channels: int, share: float) -> None:
    """Another sample rate, or two channels, give nearly the same style; without its upper half a voice is
    another, but still nearer to its own than a stranger's is."""
    samples, own_rate = recording.samples_of(recorded("edith"))
    other = np.asarray(soxr.resample(samples, own_rate, rate))
    content = wav(np.stack([other] * channels, axis=1), rate)
    likened = likeness_of()
    first, second = likened.style_of(recorded("edith")), likened.style_of(content)
    stranger = likened.style_of(recorded("ken"))

    assert first is not None
    assert second is not None
    assert stranger is not None
    assert STYLE_SHAPE == second.shape
    assert np.abs(first - second).mean() < share * np.abs(first - stranger).mean()


def test_silence_is_nobodys_voice() -> None:
    result = engine().run(VoicedRun(wav(np.zeros(24_000), 24_000)))

    assert spoken(None).content == result.content
    assert [SILENT_WARNING] == result.metadata["warnings"]


def test_weights_of_voices_stay_near_the_voices() -> None:
    """However far an embedding is from all that were fitted, a mixture's weights sum to 1 and are bounded."""
    with np.load(likeness.FITTED) as fitted:
        halves = likeness.weights_of(np.full(256, 9, np.float32), fitted)
        count = len(fitted["names"])

    assert 54 == count
    for weights in halves:
        assert abs(float(weights.sum()) - 1) < 0.01
        assert float(np.linalg.norm(weights - 1 / count)) < likeness.FURTHEST + 0.01


def test_a_recordings_style_is_kept_and_the_oldest_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run with a recording does not encode it again; not more than so many are kept."""
    monkeypatch.setattr(likeness, "KEPT", 1)
    likened = likeness_of()
    first = likened.style_of(recorded("ken"))
    kept = likened.style_of(recorded("ken"))
    likened.style_of(recorded("edith"))
    made_anew = likened.style_of(recorded("ken"))

    assert first is not None
    assert first is kept
    assert first is not made_anew
    assert made_anew is not None
    assert np.array_equal(first, made_anew)
