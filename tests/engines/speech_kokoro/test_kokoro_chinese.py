"""The Chinese front end: words, readings that the caller chose, numbers, and Latin words in between."""

import json
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.features.models.cache import default_cache
from tenuto_kokoro import zh_numbers, zh_pinyin
from tenuto_kokoro.cutting import Unit
from tenuto_kokoro.en import English
from tenuto_kokoro.zh import Chinese


@cache
def chinese() -> Chinese:
    english = cache(English)
    return Chinese(english)


def read(text: str, *, normalise: bool = True) -> list[Unit]:
    return chinese().read(text, normalise=normalise)


def said(text: str, *, normalise: bool = True) -> str:
    return "".join(unit.phonemes for unit in read(text, normalise=normalise)).strip()


@given(st.lists(st.sampled_from(["<行|XING2>", "<长|ZHANG3>", "好", "，", "2026年", "A4"]), max_size=12))
def test_an_annotation_is_never_divided(parts: list[str]) -> None:
    for unit in read("".join(parts)):
        assert unit.text.count("<") == unit.text.count("|") == unit.text.count(">")


def test_an_annotation_overrides_the_reading_of_its_character() -> None:
    assert said("银行") == f"{zh_pinyin.sounds('yin2')}{zh_pinyin.sounds('hang2')}"
    assert said("银<行|XING2>") == f"{zh_pinyin.sounds('yin2')}{zh_pinyin.sounds('xing2')}"
    assert said("<女|NV3>") == zh_pinyin.sounds("nü3")
    assert said("<居|JV1>") == zh_pinyin.sounds("ju1")


@pytest.mark.parametrize("written", ["<绿|LV4>", "<绿|lv4>", "<绿|Lü4>", "<绿|LÜ4>"])
def test_an_annotation_has_either_case_and_either_way_to_write_the_umlaut(written: str) -> None:
    """XING2 is xing2, and ü is V (R97)."""
    assert said(written) == zh_pinyin.sounds("lü4")


def test_every_syllable_of_the_table_can_be_asked_for() -> None:
    """Each syllable in each tone has sounds of its own, all of them symbols of the model (R97)."""
    vocabulary = json.loads((default_cache() / "kokoro-vocabulary").read_text("utf-8"))["vocab"]
    asked = [f"<字|{syllable}{tone}>" for syllable in zh_pinyin.SYLLABLES - {"ê"} for tone in range(1, 6)]
    sounds = {text: said(text) for text in asked}

    assert not [text for text, sound in sounds.items() if not sound or not set(sound) <= set(vocabulary)]
    assert ["<字|zi4>"] == [text for text in asked if sounds[text] == said("字")]


@pytest.mark.parametrize(
    "text",
    [
        "<行|ABC2>",
        "<行|XING6>",
        "<行|XING>",
        "<银行|XING2>",
        "<行|XING2",
        "<行| XING2>",
    ],
)
def test_what_is_no_annotation_is_plain_text(text: str) -> None:
    assert zh_pinyin.sounds("xing2") not in said(text.replace("行", "银"))


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("2026年3月5日", "二零二六年三月五日"),
        ("3.14", "三点一四"),
        ("50%", "百分之五十"),
        ("13:30", "十三点三十分"),
        ("￥3.5万", "三点五万元"),
        ("2个", "两个"),
        ("10km", "十公里"),
        ("-3℃", "负三摄氏度"),
        ("3/4", "四分之三"),
        ("血压120/80", "血压一百二十比八十"),
        ("1,234,567", "一百二十三万四千五百六十七"),
        ("10250", "一万零二百五十"),
        ("13800138000", "幺三八零零幺三八零零零"),
        ("120,000元", "十二万元"),
        ("请拨打110、120或119", "请拨打幺幺零、幺二零或幺幺九"),
        ("第2个", "第二个"),
        ("12年3月", "一二年三月"),
        ("2020-2025年", "二零二零到二零二五年"),
        ("1月-5℃", "一月负五摄氏度"),
        ("1.2.3", "一点二点三"),
    ],
)
def test_numbers_are_written_out(written: str, spoken: str) -> None:
    """Dates, times, money, shares and measures are said as a speaker would."""
    assert spoken == zh_numbers.PATTERN.sub(zh_numbers.expanded, written).replace("年前", "年")
    assert said(spoken).replace(" ", "") == said(written).replace(" ", "")


def test_without_normalisation_digits_are_read_one_by_one() -> None:
    assert said("二零二六") == said("2026", normalise=False)
