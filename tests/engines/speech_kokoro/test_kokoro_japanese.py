"""The Japanese front end: readings, kana, numbers with their sound changes."""

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto_kokoro import ja_kana, ja_numbers
from tenuto_kokoro.en import English
from tenuto_kokoro.ja import Japanese


@cache
def japanese() -> Japanese:
    return Japanese(cache(English))


def said(text: str, *, normalise: bool = True) -> str:
    units = japanese().read(text, normalise=normalise)
    return "".join(unit.phonemes for unit in units).replace(" ", "")


@given(
    st.text("今日はっーンゃ々〜USBa1259年月本５．.,:%￥-、。！「」（） \n😀界", max_size=30), st.booleans()
)
def test_the_units_make_up_the_text(text: str, normalise: bool) -> None:
    assert text == "".join(unit.text for unit in japanese().read(text, normalise=normalise))


@pytest.mark.parametrize(
    ("kana", "sounds"),
    [
        ("きょう", "kʲoɯ"),
        ("がっこう", "ɡaʔkoɯ"),
        ("さんぽ", "sampo"),
        ("らーめん", "ɾaːmeɴ"),
    ],
)
def test_kana_are_said_as_the_model_was_taught(kana: str, sounds: str) -> None:
    """Two kana that make one sound, the stop, the length, and n by what follows it."""
    assert sounds == ja_kana.sounds(kana)


@pytest.mark.parametrize(
    ("written", "kana"),
    [
        ("3月3日", "さんがつみっか"),
        ("6本", "ろっぽん"),
        ("二十日", "はつか"),
        ("50%", "ごじゅっぱーせんと"),
        ("9時", "くじ"),
    ],
)
def test_numbers_change_sounds_with_what_they_count(written: str, kana: str) -> None:
    assert ja_kana.sounds(kana) == said(written)


def test_numbers_are_written_out() -> None:
    assert "二千二十六年三月五日" == ja_numbers.PATTERN.sub(ja_numbers.expanded, "2026-03-05")
    assert "十三時三十分" == ja_numbers.PATTERN.sub(ja_numbers.expanded, "13:30")
    assert "千二百円" == ja_numbers.PATTERN.sub(ja_numbers.expanded, "￥1,200")
    assert "四分の三" == ja_numbers.PATTERN.sub(ja_numbers.expanded, "3/4")
    assert "百二十の八十" == ja_numbers.PATTERN.sub(ja_numbers.expanded, "120/80")
    assert "一点二点三" == ja_numbers.PATTERN.sub(ja_numbers.expanded, "1.2.3")


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("3月-5月", "三月から五月"),
        ("5%-10%", "五パーセントから十パーセント"),
        ("3〜5km", "三から五キロメートル"),
        ("気温-5℃", "気温マイナス五度"),
    ],
)
def test_a_hyphen_between_two_numbers_is_no_minus(written: str, spoken: str) -> None:
    assert spoken == ja_numbers.PATTERN.sub(ja_numbers.expanded, written)


def test_particles_are_said_not_spelled() -> None:
    assert "βa" in said("今日は")
