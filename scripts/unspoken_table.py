"""Writes the table of what the embedded speech model reads, for clients that warn before they submit.

    python scripts/unspoken_table.py

Every character is read by every language; the weights must have been pulled. The table has two lists of
ranges of code points, in hexadecimal: what is spoken and what is silent. Everything else is left out. All Han
characters count as spoken, although rare ones have no known reading: their list would be the longest.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from tenuto.features.models.cache import default_cache
from tenuto_kokoro.languages import Languages

ROOT = Path(__file__).parents[1]
TABLES = (
    ROOT / "packages" / "tenuto-client" / "src" / "tenuto_client" / "unspoken.json",
    ROOT / "studio" / "src" / "lib" / "unspoken.json",
)
LANGS = ("zh", "en", "ja", "es", "ar")
HAN = (range(0x3400, 0xA000), range(0xF900, 0xFB00), range(0x20000, 0x323B0))
BATCH = 500


def main() -> None:
    """Write both copies."""
    languages = Languages(default_cache() / "text2tashkeel")
    codes = [code for code in range(sys.maxunicode + 1) if is_assigned(code) and not is_han(code)]
    left_out = set(codes)
    for lang in LANGS:
        left_out &= skipped(languages, codes, lang)
    spoken = {code for code in codes if code not in left_out and is_spoken(languages, code)}
    silent = set(codes) - left_out - spoken
    han = {code for block in HAN for code in block}
    table = {"spoken": ranges(spoken | han), "silent": ranges(silent)}
    for path in TABLES:
        path.write_text(json.dumps(table, indent=1) + "\n", "utf-8")


def is_assigned(code: int) -> bool:
    """Whether Unicode knows the character; surrogates are none."""
    return unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs")


def is_han(code: int) -> bool:
    """Whether it belongs to a block of Han characters."""
    return any(code in block for block in HAN)


def skipped(languages: Languages, codes: list[int], lang: str) -> set[int]:
    """The characters that a language leaves out and names."""
    found: set[int] = set()
    for start in range(0, len(codes), BATCH):
        text = "\n".join(map(chr, codes[start : start + BATCH]))
        for unit in languages.read(text, lang, normalise=True):
            found |= set(map(ord, unit.skipped))
    return found


def is_spoken(languages: Languages, code: int) -> bool:
    """Whether it makes a sound by itself."""
    units = languages.read(chr(code), "zh", normalise=True)
    return bool(re.search(r"\w", "".join(unit.phonemes for unit in units)))


def ranges(codes: Iterable[int]) -> str:
    """`41-5a 61`: what is not assigned between two ranges belongs to both and joins them."""
    found: list[list[int]] = []
    for code in sorted(codes):
        if found and not any(map(is_assigned, range(found[-1][1] + 1, code))):
            found[-1][1] = code
        else:
            found.append([code, code])
    return " ".join(f"{start:x}" if start == end else f"{start:x}-{end:x}" for start, end in found)


if __name__ == "__main__":
    main()
