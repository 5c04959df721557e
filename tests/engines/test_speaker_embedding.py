"""The encoder of speakers with its real weights: the numbers of the published implementation."""

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tenuto.features.models.cache import default_cache
from tenuto_engine_kit.speaker_embedding import DIMENSIONS, SAMPLE_RATE, SpeakerEncoder

pytestmark = pytest.mark.real_engine


@cache
def encoder() -> SpeakerEncoder:
    return SpeakerEncoder(default_cache() / "resemblyzer.pt")


def test_an_embedding_depends_on_neither_loudness_nor_company() -> None:
    clip = _hum(2.0)
    alone = encoder().embed(clip)
    among = encoder().embed_all([np.zeros(SAMPLE_RATE, np.float32), clip, clip[:8000]])

    assert (DIMENSIONS,) == alone.shape
    assert abs(np.linalg.norm(alone) - 1) < 1e-5
    assert np.allclose(alone, among[1], atol=1e-4)
    assert np.allclose(alone, encoder().embed(clip * np.float32(0.1)), atol=1e-4)


@pytest.mark.parametrize("samples", [0, 1, 15_999])
def test_where_there_is_no_sound_all_is_zero(samples: int) -> None:
    assert not encoder().embed(np.zeros(samples, np.float32)).any()


def test_another_file_is_refused(tmp_path: Path) -> None:
    """The numbers are read at fixed bytes, so the file must be the one."""
    (tmp_path / "other.pt").write_bytes(b"PK")
    with pytest.raises(ValueError, match="not the encoder's file"):
        SpeakerEncoder(tmp_path / "other.pt")


REFERENCE = (
    (1.0, "0.1742 0.0432 0 0.0166 0.0694 0 0 0 0 0 0.046 0.0861 0 0 0 0.0336"),
    (2.5, "0 0.0247 0 0.0717 0.0231 0 0 0 0.0001 0.0587 0 0.0717 0.014 0.0119 0.0463 0.0736"),
    (6.0, "0 0.0272 0 0.0824 0.0257 0 0 0 0.0007 0.0475 0.0008 0.0722 0.0056 0.0061 0.036 0.0662"),
)
"""Every sixteenth number for a hum of so many seconds, by Resemblyzer 0.1.4's own code with torch 2.13.0 and
librosa."""


@pytest.mark.parametrize(("seconds", "expected"), REFERENCE)
def test_the_numbers_are_those_of_the_models_own_code(seconds: float, expected: str) -> None:
    """One look, one look and a part, and several: all as the published implementation has them."""
    embedded = encoder().embed(_hum(seconds))

    assert np.allclose([float(number) for number in expected.split()], embedded[::16], atol=1e-4)


def _hum(seconds: float) -> npt.NDArray[np.float32]:
    """A tone between 90 and 150 Hz with 29 harmonics, growing and fading three times a second."""
    time = np.arange(int(seconds * 16_000)) / 16_000
    phase = 2 * np.pi * np.cumsum(120 + 30 * np.sin(2 * np.pi * 2 * time)) / 16_000
    tone = np.sum([np.sin(n * phase) / n for n in range(1, 30)], axis=0)
    tone = tone * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * time))
    return np.asarray(tone / np.sqrt(np.mean(tone**2)) * 0.05, np.float32)
