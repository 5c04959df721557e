"""The sounds of Mandarin syllables as symbols of the model. Knows no characters and no words."""

from __future__ import annotations

import re
from functools import cache

from tenuto_engine_kit import mandarin
from tenuto_engine_kit.mandarin import ANNOTATION, SYLLABLES

__all__ = ["ANNOTATION", "SYLLABLES", "chosen", "sounds"]

TONES = (("˧˩˧", "↓"), ("˧˥", "↗"), ("˥˩", "↘"), ("˥", "→"))
APICAL = (("ɻ̩", "ɨ"), ("ɹ̩", "ɨ"))


def chosen(found: re.Match[str]) -> str | None:
    """The reading that an annotation asks for, as pinyin with a tone digit; None when there is no such
    syllable."""
    asked = mandarin.chosen(found)
    return None if asked is None else asked.replace("v", "ü")


@cache
def sounds(pinyin: str) -> str:
    """xing2 → ɕiŋ↗, as the model was taught (misaki's table)."""
    from misaki.transcription import pinyin_to_ipa

    said = "".join(pinyin_to_ipa(pinyin)[0])
    for written, symbol in (*TONES, *APICAL):
        said = said.replace(written, symbol)
    return said.replace("\u032f", "")
