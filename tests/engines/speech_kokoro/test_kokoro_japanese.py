"""The Japanese front end: readings, kana, numbers with their sound changes."""

from functools import cache

import pytest

from tenuto_kokoro import ja_kana, ja_numbers
from tenuto_kokoro.en import English
from tenuto_kokoro.ja import Japanese


@cache
def japanese() -> Japanese:
    return Japanese(cache(English))


def said(text: str, *, normalise: bool = True) -> str:
    units = japanese().read(text, normalise=normalise)
    return "".join(unit.phonemes for unit in units).replace(" ", "")


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


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("2026-03-05", "二千二十六年三月五日"),
        ("13:30", "十三時三十分"),
        ("￥1,200", "千二百円"),
        ("3/4", "四分の三"),
        ("120/80", "百二十の八十"),
        ("1.2.3", "一点二点三"),
        ("3月-5月", "三月から五月"),
        ("5%-10%", "五パーセントから十パーセント"),
        ("3〜5km", "三から五キロメートル"),
        ("気温-5℃", "気温マイナス五度"),
    ],
)
def test_numbers_are_written_out(written: str, spoken: str) -> None:
    assert spoken == ja_numbers.PATTERN.sub(ja_numbers.expanded, written)


def test_particles_are_said_not_spelled() -> None:
    assert "βa" in said("今日は")
