"""What another model hears when the engine speaks: readings that the caller chose."""

import io

import pytest
from faster_whisper import WhisperModel
from pypinyin import Style, lazy_pinyin

from engines.speech_kokoro.test_kokoro_engine import spoken
from tenuto.weights.cache import default_cache

pytestmark = pytest.mark.real_engine


@pytest.fixture(scope="module")
def whisper() -> WhisperModel:
    """Whisper base, which writes Chinese as characters."""
    return WhisperModel(
        str(default_cache() / "whisper-base"), device="cpu", compute_type="int8", cpu_threads=2
    )


def syllables(whisper: WhisperModel, text: str) -> list[str]:
    """What is heard, as syllables without tones."""
    found, _ = whisper.transcribe(
        io.BytesIO(spoken(text).content),
        language="zh",
        beam_size=5,
        initial_prompt="以下是普通话的句子。",
    )
    return lazy_pinyin("".join(piece.text for piece in found), style=Style.NORMAL)


def test_a_character_is_heard_in_the_reading_that_was_chosen(whisper: WhisperModel) -> None:
    """行 as hang2 is heard as hang and not as xing, as xing2 the other way round (R97)."""
    hang = syllables(whisper, "他每天早上坐公交车去银<行|HANG2>上班。")
    xing = syllables(whisper, "他每天早上坐公交车去银<行|XING2>上班。")

    assert "hang" in hang
    assert "xing" not in hang
    assert "xing" in xing
    assert "hang" not in xing
