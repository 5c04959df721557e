"""The emotions that a text shows, by the words in it. Knows no model and no language but these five.

A list of words for each language and emotion, no more: what is said between the lines is not heard. The
lists are asked whatever the language of the speech, for `emo_text` may be in another one; kana tell Japanese
from Chinese.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

FULL = 2.0
"""So much evidence makes an emotion full; a single word gives half of it and more where it is stressed."""
WORD, STRESSED = 1.3, 1.8
"""What a word counts by itself, and with a word before it or a mark in the text that stresses it."""

SPACELESS = ("zh", "ja")
KANA = re.compile("[ぁ-ヿ]")
STRESSING = {
    "zh": "非常|太|真|好|极|特别|十分|超级|很",
    "ja": "とても|すごく|本当に|めちゃ|超|非常に|実に",
    "en": "very|so|really|extremely|absolutely|too|such",
    "es": "muy|tan|qué|sumamente|realmente|demasiado",
    "ar": "جدا|للغاية|كم|ما",
}
DENYING = {
    "zh": "不|没|(?<!特)别",
    "ja": "ない|なかった|ません|ず",
    "en": "not|no|never|nothing|without|don't|isn't|wasn't|didn't|aren't|cannot|can't|hardly",
    "es": "no|nunca|jamás|sin|tampoco|nada",
    "ar": "لا|لم|لن|ليس|ليست|لست|غير|بدون|بلا",
}
"""Words that take an emotion back: before it, but in Japanese behind it."""
NEAR = {"zh": 3, "ja": 5, "en": 16, "es": 16, "ar": 10}
"""How many characters away they may stand."""


def strengths(text: str, emotions: Sequence[str]) -> list[float]:
    """Of each emotion from 0 to 1, together at most 1; all 0 where no word of the lists is found."""
    lowered = text.lower().replace("’", "'")
    is_loud = "!" in lowered or "！" in lowered
    evidence = [sum(_counts(lowered, emotion, is_loud=is_loud)) / FULL for emotion in emotions]
    total = max(1.0, sum(evidence))
    return [found / total for found in evidence]


def _counts(text: str, emotion: str, *, is_loud: bool) -> Iterator[float]:
    other = "zh" if KANA.search(text) else "ja"
    for lang, words in _patterns(emotion).items():
        if lang == other:
            continue
        stressing, denying = (re.compile(_word(lang, table[lang])) for table in (STRESSING, DENYING))
        for found in words.finditer(text):
            before = text[max(0, found.start() - NEAR[lang]) : found.start()]
            after = text[found.end() : found.end() + NEAR[lang]]
            if denying.search(after if lang == "ja" else _phrase(before)):
                continue
            yield STRESSED if is_loud or stressing.search(before) or stressing.search(after) else WORD


def _phrase(before: str) -> str:
    """What stands before in the same phrase: a denial does not reach across a comma."""
    return re.split("[,.;:!?，。；：！？،؛؟]", before)[-1]


@cache
def _patterns(emotion: str) -> dict[str, re.Pattern[str]]:
    """For each language what any of its words looks like."""
    table = json.loads(Path(__file__).with_name("emotion_words.json").read_text("utf-8"))
    return {
        lang: re.compile(_word(lang, "|".join(_written(word) for word in words)))
        for lang, words in ((lang, lists[emotion].split()) for lang, lists in table.items())
    }


def _word(lang: str, words: str) -> str:
    """Words by themselves, or anywhere where words are not parted; in Arabic with `and` before them."""
    if lang in SPACELESS:
        return f"(?:{words})"
    return rf"(?<!\w){'[وف]?' if lang == 'ar' else ''}(?:{words})(?!\w)"


def _written(word: str) -> str:
    """In the lists a star stands for any ending, a line for the space inside a phrase."""
    return re.escape(word).replace(r"\*", r"\w*").replace("_", r"\s+")
