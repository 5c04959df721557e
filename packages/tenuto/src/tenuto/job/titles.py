"""What people recognise and find a job by: its title, and the text that searches go through.

Both come from the request, and are erased with it. Pure functions on text; knows no kinds and no tables.
"""

import re
import unicodedata

TITLE_CHARACTERS = 60
SEARCHED_BYTES = 300
"""Of UTF-8 after folding: a hundred Chinese characters. It decides how long a search takes, and
an index entry has to hold it (PostgreSQL: 2,704 bytes at most)."""

_LOOKED_AT = 4000
"""Characters that are read of a long text: enough for both, even if it begins with much white space."""
# White space, and what a line must not contain: control characters, marks that reverse the text direction of
# the rest of a page, lone surrogates.
_SPACE = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]+"
)
_PUNCTUATION = tuple((chr(ord(mark) + 0xFEE0), mark) for mark in ",.!?:;()")
_JOINER = "\u200d"
_MODIFIERS = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)


def title_and_search_text(text: str) -> tuple[str, str]:
    """The title and search text of a request's text; empty if it has nothing to show."""
    line = line_of(text)
    return _cut(line), folded(line[:SEARCHED_BYTES]).encode()[:SEARCHED_BYTES].decode(errors="ignore")


def _cut(line: str) -> str:
    """The first characters, cut where a reader sees one character end."""
    if len(line) <= TITLE_CHARACTERS:
        return line
    end = TITLE_CHARACTERS - 1
    while end > 0 and _belongs(line, end):
        end -= 1
    return line[: end or TITLE_CHARACTERS - 1].rstrip() + "…"


def line_of(text: str) -> str:
    """The beginning of a text as one line, without what a line must not contain."""
    return _SPACE.sub(" ", text[:_LOOKED_AT]).strip()


def folded(line: str) -> str:
    """As searches compare it: without case, full-width forms and ligatures."""
    if line.isascii():
        return line.lower()
    # Apart from these, nearly all Chinese is already normalised, and checking is ten times faster.
    for wide, narrow in _PUNCTUATION:
        line = line.replace(wide, narrow)
    if not unicodedata.is_normalized("NFKC", line):
        line = unicodedata.normalize("NFKC", line)
    return line.casefold()


def _belongs(line: str, at: int) -> bool:
    """Whether this character is part of the one before: an accent, half of a flag, the rest of an emoji."""
    mark, before = line[at], line[at - 1]
    if _JOINER in (mark, before) or unicodedata.category(mark).startswith("M"):
        return True
    if ord(mark) in _FLAGS:
        return _flags_before(line, at) % 2 == 1
    return ord(mark) in _MODIFIERS


def _flags_before(line: str, at: int) -> int:
    start = at
    while start > 0 and ord(line[start - 1]) in _FLAGS:
        start -= 1
    return at - start
