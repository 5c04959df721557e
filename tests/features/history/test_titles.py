"""What people recognise a job by: one line, cut where a reader would, and the text that searches compare."""

import pytest

from tenuto.features.history.search import pattern_of
from tenuto.job.titles import SEARCHED_BYTES, TITLE_CHARACTERS, title_and_search_text

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
FLAG = "\U0001f1e8\U0001f1f3"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        ("\n \t\u3000", ""),
        ("Hold the note.", "Hold the note."),
        ("  One\r\n\ttwo\u2028three\x00four ", "One two three four"),
        ("\u202eevil\u2069 name\ud800", "evil name"),
        ("字" * 60, "字" * 60),
        ("字" * 61, "字" * 59 + "…"),
        ("a" * 57 + FAMILY + "bcdef", "a" * 57 + "…"),
        ("a" * 58 + "e\u0301\u0301bcd", "a" * 58 + "…"),
        (FLAG * 40, FLAG * 29 + "…"),
        ("e" + "\u0301" * 100, ("e" + "\u0301" * 100)[:59] + "…"),
    ],
)
def test_a_title_is_one_line_cut_between_characters(text: str, title: str) -> None:
    """White space of any kind is one space, marks of direction are left out, no emoji is halved."""
    made, _ = title_and_search_text(text)

    assert title == made
    assert len(made) <= TITLE_CHARACTERS


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hold the NOTE for its full value.", "the note"),
        ("Hold the\n note", "THE   NOTE"),
        ("今天心情不好，怎么办？", "心情"),
        ("今天心情不好，怎么办？", "不好,怎么"),
        ("ＡＢＣ株式会社", "abc株"),
        ("ｶﾞﾗｽの仮面", "ガラス"),
        ("Die Straße", "STRASSE"),
        ("100% of_it \\ here", "100% of_it \\"),
    ],
)
def test_what_a_reader_means_is_in_the_text_that_is_searched(text: str, wanted: str) -> None:
    """Case, width and white space do not matter, nor where words end: Chinese has no spaces."""
    _, searched = title_and_search_text(text)
    pattern = pattern_of(wanted)

    assert pattern is not None
    assert pattern[1:-1].replace("\\%", "%").replace("\\_", "_").replace("\\\\", "\\") in searched
    assert {None} == {pattern_of(nothing) for nothing in ("", "  \n", "\u3000", "\x00")}


def test_the_text_that_is_searched_fits_an_index() -> None:
    """Whatever is asked, and however much of it."""
    texts = ["字" * 100_000, "ﷺ" * 4000, "\U0001f468" * 4000, "x" * 600_000, " " * 600_000]

    assert [] == [text[0] for text in texts if len(title_and_search_text(text)[1].encode()) > SEARCHED_BYTES]
