"""Texts in several scripts: which language reads what, and what nobody reads."""

from functools import cache

import pytest

from tenuto.features.models.cache import default_cache
from tenuto_kokoro import scripts
from tenuto_kokoro.cutting import Unit
from tenuto_kokoro.languages import Languages

pytestmark = [pytest.mark.real_engine, pytest.mark.variant("model")]

LANGS = ("zh", "en", "ja", "es", "ar")


@cache
def languages() -> Languages:
    return Languages(default_cache() / "text2tashkeel")


def read(text: str, lang: str, *, normalise: bool = True) -> list[Unit]:
    return languages().read(text, lang, normalise)


def said(text: str, lang: str, *, normalise: bool = True) -> str:
    return " ".join("".join(unit.phonemes for unit in read(text, lang, normalise=normalise)).split())


def readers(text: str, lang: str) -> list[tuple[str, str]]:
    return [(run.lang, text[run.start : run.end]) for run in scripts.runs(text, lang)]


@pytest.mark.parametrize(
    ("lang", "text", "expected"),
    [
        ("en", "I ate 饺子 twice", [("en", "I ate "), ("zh", "饺子"), ("en", " twice")]),
        ("en", "He said こんにちは、世界。", [("en", "He said "), ("ja", "こんにちは、世界"), ("en", "。")]),
        ("en", "In 北京 2 日, 2026", [("en", "In "), ("zh", "北京 2 日"), ("en", ", 2026")]),
        ("en", "a 银<行|HANG2> b", [("en", "a "), ("zh", "银<行|HANG2>"), ("en", " b")]),
        ("es", "Di مرحبا بكم hoy", [("es", "Di "), ("ar", "مرحبا بكم"), ("es", " hoy")]),
        ("zh", "我用 Python 写。", [("zh", "我用 Python 写。")]),
        ("zh", "他说さようなら了", [("zh", "他说"), ("ja", "さようなら"), ("zh", "了")]),
        ("ja", "東京でPythonを", [("ja", "東京でPythonを")]),
        ("ar", "قال 北京 ثم", [("ar", "قال "), ("zh", "北京"), ("ar", " ثم")]),
    ],
)
def test_words_in_the_script_of_another_language_are_its_own(
    lang: str, text: str, expected: list[tuple[str, str]]
) -> None:
    """Han is Chinese unless kana stand beside it or `lang` is Japanese; kana are always Japanese."""
    assert expected == readers(text, lang)


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize(
    ("reader", "word"), [("zh", "北京"), ("ja", "さくら"), ("ar", "مرحبا"), ("en", "Python")]
)
def test_an_embedded_word_sounds_as_in_its_own_language(lang: str, reader: str, word: str) -> None:
    """Read by that language's front end, and without a warning; Han in Japanese, and Latin in Spanish, cannot
    be told from the language's own."""
    around = {"zh": "今天。", "en": "Today.", "ja": "きょう。", "es": "Hoy.", "ar": "اليوم."}[lang]
    units = read(f"{around} {word}", lang)
    is_own = (lang, reader) in {("ja", "zh"), ("es", "en")}

    assert "" == "".join(unit.skipped for unit in units)
    assert is_own or said(f"{around} {word}", lang).endswith(said(word, reader))


@pytest.mark.parametrize(
    ("written", "usual"),
    [
        ("ﬁnd", "find"),
        ("Ｈｅｌｌｏ", "Hello"),
        ("𝐇𝐞𝓁𝕝𝘰", "Hello"),
        ("Wałęsa", "Walesa"),
        ("ＡＢＣ １２３", "ABC 123"),
        ("٣", "3"),
        ("5 ㎏", "5 kg"),
        ("œuvre", "oeuvre"),
    ],
)
def test_letters_and_digits_of_unusual_form_are_read_as_usual_ones(written: str, usual: str) -> None:
    """Ligatures, full width, mathematical alphabets, digits of any script, accents of any language."""
    assert said(usual, "en") == said(written, "en")
    assert written == "".join(unit.text for unit in read(written, "en"))
