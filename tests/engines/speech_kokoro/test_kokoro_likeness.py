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
from engines.speech_kokoro.test_kokoro_engine import CACHE, RecordedRun, engine
from tenuto_kokoro import likeness, recording
from tenuto_kokoro.likeness import Likeness
from tenuto_kokoro.styles import STYLE_SHAPE
from tenuto_kokoro.voices import SILENT_WARNING

RECORDINGS = Path(tenuto.features.voices.__file__ or "").parent / "recordings"
"""The built-in voices' own: speech of different people, as far as the encoder can tell."""
OWN = {"voice_id": "v", "kind": "own", "profile": {}, "profile_version": None}

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]


class VoicedRun(RecordedRun):
    """A run in the voice of a recording."""

    def __init__(self, content: bytes, **parameters: Any) -> None:
        super().__init__(lang="en", text="Hold it.", voice=OWN, **parameters)
        self.inputs = {"voice": content}


@cache
def recorded(name: str) -> bytes:
    return (RECORDINGS / f"{name}.wav").read_bytes()


def wav(samples: npt.NDArray[Any], rate: int) -> bytes:
    output = io.BytesIO()
    soundfile.write(output, samples, rate, subtype="PCM_16", format="WAV")
    return output.getvalue()


def likeness_of() -> Likeness:
    return Likeness(CACHE / "resemblyzer.pt", CACHE / "kokoro-voices")


def test_a_recording_changes_the_speech_and_the_same_recording_gives_the_same() -> None:
    """An own voice is no decoration: the samples differ from the original voice's, run after run alike."""
    first, again = VoicedRun(recorded("martin")), VoicedRun(recorded("martin"), stream=True)
    spoken, other = engine().run(first), engine().run(VoicedRun(recorded("edith")))
    silent = engine().run(VoicedRun(wav(np.zeros(24_000), 24_000)))

    assert spoken.content == engine().run(again).content
    assert spoken.content[44:] == b"".join(segment[44:] for segment in again.segments)
    assert 3 == len({spoken.content, other.content, silent.content})
    assert silent.content == engine().run(RecordedRun(lang="en", text="Hold it.")).content
    assert [SILENT_WARNING] == silent.metadata["warnings"]


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
