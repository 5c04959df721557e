"""What another model hears when the engine speaks: readings that the caller chose."""

import io
import re

import pytest
from faster_whisper import WhisperModel
from pypinyin import Style, lazy_pinyin

from engines.speech_kokoro.test_kokoro_engine import spoken
from servers.cores import ENGINE_THREADS
from tenuto.features.models.cache import default_cache

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]


@pytest.fixture(scope="module")
def whisper() -> WhisperModel:
    """Whisper base, which writes Chinese as characters."""
    return WhisperModel(
        str(default_cache() / "whisper-base"),
        device="cpu",
        compute_type="int8",
        cpu_threads=ENGINE_THREADS or 2,
    )


def heard(whisper: WhisperModel, text: str, lang: str) -> str:
    """What is heard of a text that is spoken in a language."""
    found, _ = whisper.transcribe(
        io.BytesIO(spoken(text, lang=lang).content),
        language=lang,
        beam_size=1,
        initial_prompt={"zh": "以下是普通话的句子。"}.get(lang),
    )
    return "".join(piece.text for piece in found)


def syllables(whisper: WhisperModel, text: str) -> list[str]:
    """What is heard, as syllables without tones."""
    return lazy_pinyin(heard(whisper, text, "zh"), style=Style.NORMAL)


def test_a_character_is_heard_in_the_reading_that_was_chosen(whisper: WhisperModel) -> None:
    """行 as hang2 is heard as hang and not as xing, as xing2 the other way round (R97)."""
    hang = syllables(whisper, "坐公交车去银<行|HANG2>上班。")
    xing = syllables(whisper, "坐公交车去银<行|XING2>上班。")

    assert "hang" in hang
    assert "xing" not in hang
    assert "xing" in xing
    assert "hang" not in xing


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("en", "She moved from 上海 to 北京 last year.", "moved from Shanghai to Beijing last year"),
        ("zh", "今天我们用 Python 写 code。", "今天我们用.+[写寫].+"),
        ("ja", "東京でPythonを勉強しています。", "東京で.+勉強しています"),
    ],
)
def test_words_in_another_script_are_heard(
    whisper: WhisperModel, lang: str, text: str, expected: str
) -> None:
    """They are spoken where they stand, and the sentence around them stays what it is (R69)."""
    assert re.search(expected, heard(whisper, text, lang))
