"""Voices from recordings: the speech follows the recording, whatever is in it."""

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import soundfile

import tenuto.features.voices
from engines.speech_kokoro.test_kokoro_engine import CACHE, SpokenRun, engine
from tenuto_kokoro import likeness
from tenuto_kokoro.likeness import Likeness
from tenuto_kokoro.voices import SILENT_WARNING

RECORDINGS = Path(tenuto.features.voices.__file__ or "").parent / "recordings"
"""The built-in voices' own: speech of different people, as far as the encoder can tell."""
OWN = {"voice_id": "v", "kind": "own", "profile": {}, "profile_version": None}

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]


class VoicedRun(SpokenRun):
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
    assert silent.content == engine().run(SpokenRun(lang="en", text="Hold it.")).content
    assert [SILENT_WARNING] == silent.metadata["warnings"]


def test_weights_of_voices_stay_near_the_voices() -> None:
    """However far an embedding is from all that were fitted, a mixture's weights sum to 1 and are bounded."""
    with np.load(likeness.FITTED) as fitted:
        halves = likeness.weights_of(np.full(256, 9, np.float32), fitted)
        count = len(fitted["names"])

    assert 54 == count
    for weights in halves:
        assert abs(float(weights.sum()) - 1) < 0.01
        assert float(np.linalg.norm(weights - 1 / count)) < likeness.FURTHEST + 0.01
