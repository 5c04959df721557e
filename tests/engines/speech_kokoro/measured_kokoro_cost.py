"""What a text costs to read: processor time by its size, in each language, for texts that nobody writes."""

import time

import pytest

from tenuto.features.models.cache import default_cache
from tenuto_kokoro.languages import Languages

pytestmark = pytest.mark.real_engine

MOST_BYTES = 4096
"""Half of what a caller may send: what takes sixteen times as long as its quarter does so here, too."""
LIMIT_S = 5.0
"""Measured 0.6 at most: percentages in Chinese."""
TRIES = 3
"""A loaded machine slows one of two readings now and then, not each time."""
UNITS = ("1%", "2021-1-1 ", ".", "|", " ", "\n", "a", "e\u0301", "<行|XING2>", "行", "か", "ب\u064e\u0651")
"""What the texts consist of, again and again."""


@pytest.fixture(scope="module")
def languages() -> Languages:
    return Languages(default_cache() / "text2tashkeel")


@pytest.mark.parametrize("lang", ["zh", "en", "ja", "es", "ar"])
def test_a_text_costs_no_more_than_its_size(languages: Languages, lang: str) -> None:
    """Four times the text takes about four times as long; marks and blanks took sixteen times (P14)."""
    languages.read("hello 你好 こんにちは مرحبا", lang, True)
    for unit in UNITS:
        assert any(is_linear(languages, lang, unit) for _ in range(TRIES)), unit


def is_linear(languages: Languages, lang: str, unit: str) -> bool:
    quarter_s, whole_s = (read_s(languages, lang, unit, size) for size in (MOST_BYTES // 4, MOST_BYTES))
    return whole_s < min(LIMIT_S, 6 * quarter_s + 0.01)


def read_s(languages: Languages, lang: str, unit: str, size: int) -> float:
    text = (unit * size).encode()[:size].decode("utf-8", "ignore")
    began_s = time.thread_time()
    languages.read(text, lang, True)
    return time.thread_time() - began_s
