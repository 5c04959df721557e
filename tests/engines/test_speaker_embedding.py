"""The encoder of speakers with its real weights, on voices of the service's own."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from quality.recordings import CACHE, VOICES, silence, speech
from tenuto.engines.speaker_embedding import DIMENSIONS, SpeakerEncoder

pytestmark = pytest.mark.real_engine

FIRST = "The library opens at nine in the morning."
SECOND = "We walked along the river until it was dark."


@cache
def encoder() -> SpeakerEncoder:
    return SpeakerEncoder(CACHE / "resemblyzer.pt")


def test_a_voice_is_more_like_itself_than_like_another() -> None:
    """Two sentences of one voice are nearer to each other than to those of another voice."""
    clips = [speech(text, "en", voice) for voice in VOICES[:2] for text in (FIRST, SECOND)]
    alike = encoder().embed_all(clips) @ encoder().embed_all(clips).T

    assert alike[0, 1] > 0.75
    assert alike[2, 3] > 0.75
    assert min(alike[0, 1], alike[2, 3]) > alike[:2, 2:].max() + 0.1


def test_an_embedding_depends_on_neither_loudness_nor_company() -> None:
    """The same clip gives the same numbers, quieter, by itself or among others; they are of unit length."""
    clip = speech(FIRST, "en", VOICES[0])
    alone = encoder().embed(clip)
    among = encoder().embed_all([silence(1), clip, clip[:8000]])

    assert (DIMENSIONS,) == alone.shape
    assert abs(np.linalg.norm(alone) - 1) < 1e-5
    assert np.allclose(alone, among[1], atol=1e-4)
    assert np.allclose(alone, encoder().embed(clip * np.float32(0.1)), atol=1e-4)


@pytest.mark.parametrize("samples", [0, 1, 15_999])
def test_where_there_is_no_sound_all_is_zero(samples: int) -> None:
    """Silence is nobody's voice, and no division by zero."""
    assert not encoder().embed(np.zeros(samples, np.float32)).any()


def test_another_file_is_refused(tmp_path: Path) -> None:
    """The numbers are read at fixed bytes, so the file must be the one."""
    (tmp_path / "other.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match="not the encoder's file"):
        SpeakerEncoder(tmp_path / "other.pt")
