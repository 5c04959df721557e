"""Maps the names that callers use for languages to language codes."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

_NAMES = {
    "zh": "zho chi cmn chinese mandarin putonghua 中文 汉语 漢語 普通话 普通話 国语 國語 华语 華語",
    "en": "eng english anglais inglés 英语 英語 英文",
    "ja": "jpn jp japanese nihongo 日本語 日语 日語 日文",
    "es": "spa spanish castilian español espanol castellano 西班牙语 西班牙語 スペイン語",
    "ar": "ara arb arabic العربية عربي عربية 阿拉伯语 阿拉伯語 アラビア語",
    "de": "deu ger german deutsch 德语",
    "fr": "fra fre french français francais 法语",
    "it": "ita italian italiano",
    "ko": "kor korean 한국어 韩语 韓国語",
    "nl": "nld dut dutch nederlands",
    "pl": "pol polish polski",
    "pt": "por portuguese português portugues",
    "ru": "rus russian русский 俄语",
    "tr": "tur turkish türkçe",
    "yue": "cantonese 粤语 粵語 广东话 廣東話",
    "uk": "ukr ukrainian українська",
    "vi": "vie vietnamese",
    "hi": "hin hindi हिन्दी",
    "id": "ind indonesian in",
    "he": "heb hebrew iw עברית",
    "fa": "fas per persian farsi فارسی",
    "no": "nor norwegian nb norsk",
    "jw": "jv jav javanese",
}
AUTOMATIC = "auto"
"""What a caller sends to have the language detected."""

_CODES = {name: code for code, names in _NAMES.items() for name in names.split()}


def understood(named: str | None, known: Collection[str]) -> str | None:
    """The model's code for a code, a tag such as `zh-Hans-CN`, or a name; None if it is not known."""
    if named is None:
        return None
    plain = unicodedata.normalize("NFKC", named).strip().casefold()
    for name in (plain, re.split(r"[-_\s.]", plain)[0]):
        code = _CODES.get(name, name)
        if code in known:
            return code
    return None


def unknown_language(named: str | None, instead: str) -> list[str]:
    """The warning for a caller who named a language that the model does not know; none if none was named.

    `instead`: what the engine did, such as "en was heard".
    """
    if named is None or named.strip().casefold() == AUTOMATIC:
        return []
    return [f"The language {named!r} is not known; {instead}."]
