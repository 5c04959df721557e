"""How a text sounds, as a row of symbols that can be compared: what is written differently and sounds alike
is equal.

Used on what Whisper wrote down and on the hand-written sounds of the sentences. Numbers that Whisper wrote as
digits are written out with the engine's own rules; the hand-written side never passes through them.
Libraries with dictionaries are imported where they are used, for this file is imported wherever tests are
collected.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from tenuto_kokoro import ar_numbers, en_numbers, es_numbers, ja_numbers, zh_numbers

LONG = {"あ": "あ", "い": "い", "う": "う", "え": "えい", "お": "おう"}
"""For each vowel, what after it only makes it longer."""
ROWS = {
    "あ": "あかさたなはまやらわがざだばぱぁゃ",
    "い": "いきしちにひみりぎじびぴぃ",
    "う": "うくすつぬふむゆるぐずぶぷぅゅゔ",
    "え": "えけせてねへめれげぜでべぺぇ",
    "お": "おこそとのほもよろごぞどぼぽぉょ",
}
VOWEL_OF = {kana: vowel for vowel, row in ROWS.items() for kana in row}


def sounding(lang: str, text: str) -> list[str]:
    """The sounds of a text, one symbol each."""
    return SOUNDING[lang](unicodedata.normalize("NFKC", text))


def error_rate(spoken: Sequence[str], heard: Sequence[str]) -> float:
    """Substitutions, insertions and deletions by the length of what was spoken (Levenshtein)."""
    row = list(range(len(heard) + 1))
    for index, symbol in enumerate(spoken, 1):
        diagonal, row[0] = row[0], index
        for place, other in enumerate(heard, 1):
            best = min(row[place] + 1, row[place - 1] + 1, diagonal + (symbol != other))
            diagonal, row[place] = row[place], best
    return row[-1] / max(1, len(spoken))


def _zh(text: str) -> list[str]:
    """Syllables without tones; Latin letters one by one."""
    from pypinyin import Style, lazy_pinyin

    text = zh_numbers.PATTERN.sub(zh_numbers.expanded, text)
    text = re.sub(r"[^\u4e00-\u9fffA-Za-z]", "", text).lower()
    found: list[str] = []
    for part in re.findall(r"[a-z]+|[^a-z]+", text):
        found += list(part) if part.isascii() else lazy_pinyin(part, style=Style.NORMAL)
    return found


def _en(text: str) -> list[str]:
    text = en_numbers.PATTERN.sub(en_numbers.expanded, text.replace("’", "'"))
    return list(re.sub("[^a-z]", "", text.lower().replace("&", "and")))


def _es(text: str) -> list[str]:
    text = es_numbers.PATTERN.sub(es_numbers.expanded, text)
    plain = unicodedata.normalize("NFD", text.lower().replace("ñ", "N"))
    return list(re.sub("[^a-zN]", "", plain))


def _ja(text: str) -> list[str]:
    """Kana as pronounced, with one sign for length."""
    import jaconv
    import pyopenjtalk

    text = ja_numbers.PATTERN.sub(ja_numbers.expanded, text)
    if re.search("[^\u3041-\u309fー、。？！ ]", text):
        nodes = pyopenjtalk.run_frontend(text, use_sudachi_kanji_yomi=False)
        text = "".join(node["pron"] for node in nodes)
    kana = re.sub("[^ぁ-ゖー]", "", jaconv.kata2hira(text))
    kana = kana.replace("づ", "ず").replace("ぢ", "じ").replace("を", "お")
    found = ""
    for sign in kana:
        vowel = next((VOWEL_OF[before] for before in reversed(found) if before in VOWEL_OF), "")
        found += "ー" if vowel and found[-1] in VOWEL_OF and sign in LONG[vowel] else sign
    return list(found)


def _ar(text: str) -> list[str]:
    text = ar_numbers.PATTERN.sub(ar_numbers.expanded, text)
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    text = re.sub("[أإآٱ]", "ا", text).replace("ى", "ي").replace("ة", "ه")
    return list(re.sub("[^\u0621-\u064a]", "", text).replace("\u0640", ""))


SOUNDING: dict[str, Callable[[str], list[str]]] = {"zh": _zh, "en": _en, "ja": _ja, "es": _es, "ar": _ar}
