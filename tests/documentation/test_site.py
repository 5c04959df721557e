"""The documentation site: it builds, its links lead somewhere, and its two languages are in step."""

import re
import subprocess
from pathlib import Path

import pytest
from scripts.site.checks import faults

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOOLS = ROOT / "build" / "docs-tools" / "bin" / "python"
FOLDERS = ("start", "tutorials", "guide")
"""What a user reads first; these pages are in both languages."""
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.variant("site")
def test_the_site_builds_strictly_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    """`make docs`, in a folder of the test: pages in both languages, and a search index."""
    if not TOOLS.exists():
        pytest.skip("run `make build/docs-tools/.is-installed` first; `make test` does")
    folder = tmp_path / "docs"
    done = subprocess.run(
        [TOOLS, "-m", "scripts.site", folder], cwd=ROOT, capture_output=True, text=True, timeout=240
    )

    assert (0, "") == (done.returncode, done.stderr), done.stderr
    for page in ("index.html", "zh/index.html", "reference/api/jobs.html", "zh/guide/python.html"):
        assert (folder / page).is_file()
    assert (folder / "search.json").stat().st_size > 100_000
    assert 'href="./zh/guide/python.html"' in re.sub(r"(\.\./)+", "./", _read(folder / "guide/python.html"))


def test_a_broken_link_of_the_built_site_is_reported(tmp_path: Path) -> None:
    """A missing file, a missing heading, and a file of another host; what is there is not reported."""
    (tmp_path / "one.html").write_text(
        '<h1 id="here">One</h1><a href="#here">up</a><a href="two.html#x">two</a>'
    )
    (tmp_path / "two.html").write_text('<a href="one.html#here">one</a><a href="three.html">three</a>')
    (tmp_path / "four.html").write_text('<script src="https://example.com/a.js"></script>')

    assert [
        "four.html: https://example.com/a.js is fetched from elsewhere",
        "one.html: two.html#x has no such heading",
        "two.html: three.html leads nowhere",
    ] == list(faults(tmp_path))


@pytest.mark.parametrize("folder", FOLDERS)
def test_both_languages_have_the_same_pages_in_step(folder: str) -> None:
    """The same files, the same levels of headings, blocks of code in the same languages and order."""
    names = {
        language: sorted(path.name for path in (DOCS / folder / language).glob("*.md"))
        for language in ("en", "zh")
    }
    shapes = {
        language: {name: _shape(DOCS / folder / language / name) for name in names[language]}
        for language in names
    }

    assert names["en"] == names["zh"] != []
    assert shapes["en"] == shapes["zh"]


@pytest.mark.parametrize("name", sorted(path.name for path in (DOCS / "tutorials" / "en").glob("*.md")))
def test_the_code_of_a_tutorial_is_the_same_in_both_languages(name: str) -> None:
    """But for texts between quotation marks or after a name, comments and the language of a recording."""
    english, chinese = (
        [_code(text) for _, text in blocks(DOCS / "tutorials" / one / name)] for one in ("en", "zh")
    )

    assert english == chinese


def _shape(page: Path) -> tuple[list[str], list[str]]:
    """The levels of a page's headings, and the languages of its blocks."""
    text = _read(page)
    prose = BLOCK.sub("", text)
    return re.findall(r"^#+", prose, re.MULTILINE), [language for language, _ in blocks(page)]


def blocks(page: Path) -> list[tuple[str, str]]:
    """The language and the text of each block of code."""
    found: list[tuple[str, str]] = BLOCK.findall(_read(page))
    return found


def _code(text: str) -> str:
    """A block without its comments and without what is between quotation marks."""
    bare = re.sub(r"\"[^\"\n]*\"|'[^'\n]*'", '""', text)
    return re.sub(r"\s*(#|//) .*|--lang \w+|(?<=^Linda: ).*|(?<=^Edward: ).*", "", bare, flags=re.MULTILINE)


def _read(path: Path) -> str:
    return path.read_text("utf-8")
