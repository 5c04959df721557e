"""Detects the language of a text: docs/speech.md, "The language of a text".

Standard library only. The studio has the same rule and the same table, and a test checks both with the same
examples. A detected language is not necessarily one that a model speaks.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

SPOKEN = ("zh", "en", "ja", "es", "ar")
"""The languages that speech models speak: the values of `lang`."""


def detect(text: str) -> str | None:
    """The language, as `zh`, `fr` or, if only the script is certain, `cyrillic`; None without letters.

    The script with the most words decides, a Han or kana character counting as a word; languages in Latin
    script are distinguished by their most common words and by letters such as ñ.
    """
    table = _table()
    sample = unicodedata.normalize("NFC", "".join(list(text)[: table["sample"]]))
    runs = list(_runs(sample))
    votes = Counter(script for script, _ in runs)
    kana, han = votes["ja"], votes["zh"]
    if kana and kana * 10 >= kana + han:
        votes["ja"], votes["zh"] = kana + han, 0
    if not votes:
        return None
    script: str = max((one["language"] for one in table["scripts"]), key=lambda one: votes[one])
    return _latin([word for one, word in runs if one == "latin"]) if script == "latin" else script


def spoken(text: str) -> str:
    """The language to speak a text in: English if no model speaks its own, Chinese without letters."""
    detected = detect(text)
    return "zh" if detected is None else detected if detected in SPOKEN else "en"


def _latin(words: list[str]) -> str:
    """English, unless another language matches more words; one that no model speaks needs more evidence."""
    table = _table()
    points: dict[str, int] = {
        one["language"]: sum((word in one["words"]) + bool(set(word) & one["letters"]) for word in words)
        for one in table["latin"]
    }
    best = max(points, key=lambda one: points[one])
    if best in ("en", "es") or points[best] >= table["evidence"]:
        return best
    return "es" if points["es"] > points["en"] else "en"


def _runs(text: str) -> Iterator[tuple[str, str]]:
    """Each word with its script; in scripts without spaces, each character."""
    table = _table()
    script, word = "", ""
    for char in text.lower().replace("\u2019", "'"):
        found = _script(char)
        if found == script and word and found not in table["syllabic"]:
            word += char
            continue
        if char == "'" and word and script == "latin":
            word += char
            continue
        if word:
            yield script, word.rstrip("'")
        script, word = found, char if found else ""
    if word:
        yield script, word.rstrip("'")


def _script(char: str) -> str:
    code = ord(char)
    starts, ranges = _table()["ranges"]
    index = bisect_right(starts, code) - 1
    return ranges[index][1] if index >= 0 and code <= ranges[index][0] else ""


@cache
def _table() -> dict[str, Any]:
    """The table from the file, with sorted ranges and word lists as sets."""
    table: dict[str, Any] = json.loads(files(__package__).joinpath("languages.json").read_text("utf-8"))
    ranges = sorted(
        (int(start, 16), int(end or start, 16), script["language"])
        for script in table["scripts"]
        for start, _, end in (part.partition("-") for part in script["letters"].split())
    )
    table["ranges"] = [start for start, _, _ in ranges], [(end, script) for _, end, script in ranges]
    for one in table["latin"]:
        one["words"], one["letters"] = set(one["words"].split()), set(one["letters"])
    return table
