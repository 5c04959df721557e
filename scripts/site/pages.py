"""Which pages the site has, where each comes from, and how its links are rewritten; not who makes HTML of it.

A page that exists in one language only is shown in both, with a note in the other. A link to a file outside
docs/ leads to a page with that file's text, so that a built site is complete without the repository.
"""

import posixpath
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from scripts.site import api, commands, diagrams

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LANGUAGES = ("en", "zh")
ENGLISH_ONLY = '!!! info "本页只有英文版"\n\n'
ELSEWHERE = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "openapi.yaml": "reference/api/index.md",
    "docs": "index.md",
    "docs/guide": "guide/first-steps.md",
    "docs/guide/README.md": "guide/first-steps.md",
}
"""Files of the repository that have a page of their own under another name."""
LANGUAGE_OF = {
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".json": "json",
    ".sh": "sh",
}
_LINK = re.compile(r"""(!?\[[^\]]*\]\(|<img src="|<source [^>]*srcset=")([^)\s"]+)(\)|")""")
_FENCE = re.compile(r"^(`{3,}).*?^\1`*$", re.MULTILINE | re.DOTALL)
_PIPE = re.compile(r"`[^`\n]*\\\|[^`\n]*`")
_CHINESE_BREAK = re.compile(r"(?<=[\u3001-\u9fff\uff01-\uff5e])\n(?=[\u3001-\u9fff\uff01-\uff5e])")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class Stage:
    """The pages of one language, in a folder that Zensical reads."""

    def __init__(self, language: str, folder: Path) -> None:
        self.language = language
        self.folder = folder
        self.titles: dict[str, str] = {}
        """The title of each page that has been written."""
        self.faults: list[str] = []
        self._sources = dict(_sources(language))
        self._linked: list[Path] = []

    def write(self) -> None:
        """Write every page of docs/, the generated ones, and what they link to."""
        for page, source in self._sources.items():
            self._copy(page, source)
        for page, text in {**api.pages(ROOT / "openapi.yaml"), **commands.pages(ROOT)}.items():
            self._put(page, self._note() + text if self.language == "zh" else text)
        decisions = [page for page in sorted(self.titles) if page.startswith("decisions/")]
        listed = "\n".join(f"- [{self.titles[page]}]({posixpath.basename(page)})" for page in decisions)
        self._put("decisions/index.md", f"# Decisions\n\n{self._note()}{listed}\n")
        while self._linked:
            source = self._linked.pop()
            page = _page_of(source)
            if page not in self.titles:
                self._show(page, source)

    def navigation(self) -> list[dict[str, Any]]:
        """The sections in their order; a page of docs/ that none of them lists is a fault."""
        site = tomllib.loads((DOCS / "site" / "site.toml").read_text("utf-8"))
        sections, listed = [], set(site["elsewhere"])
        titles = self.titles | site["titles"]
        for section in site["section"]:
            pages = [page for pattern in section["pages"] for page in self._matching(pattern)]
            sections.append({section[self.language]: [{titles[page]: page} for page in pages]})
            listed.update(pages)
        self.faults += [
            f"docs/site/site.toml does not list {page}" for page in self._sources if page not in listed
        ]
        return sections

    def _matching(self, pattern: str) -> list[str]:
        if pattern in self.titles:
            return [pattern]
        pages = sorted(page for page in self.titles if fnmatch(page, pattern))
        first = [page for page in pages if page.endswith("/index.md")]
        if not pages:
            self.faults.append(f"docs/site/site.toml lists {pattern}, which does not exist")
        return first + [page for page in pages if page not in first]

    def _copy(self, page: str, source: Path) -> None:
        text = source.read_text("utf-8")
        if self.language == "zh" and not {"zh", "README.zh.md"} & set(source.relative_to(ROOT).parts):
            text = _TITLE.sub(lambda title: f"{title[0]}\n\n{self._note()}", text, count=1)
        self._put(page, self._relinked(page, source, text))

    def _note(self) -> str:
        return ENGLISH_ONLY if self.language == "zh" else ""

    def _put(self, page: str, text: str) -> None:
        title = _TITLE.search(text)
        self.titles[page] = title[1].replace("`", "") if title else posixpath.basename(page)
        text = diagrams.drawn(text, self.folder / "diagrams", "../" * page.count("/") + "diagrams")
        path = self.folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def _relinked(self, page: str, source: Path, text: str) -> str:
        """The text with each relative link as it is on the site; code blocks stay as they are."""

        def relink(link: re.Match[str]) -> str:
            return link[1] + self._target(page, source, link[2]) + link[3]

        pieces, start = [], 0
        for fence in _FENCE.finditer(text):
            pieces += [_LINK.sub(relink, _prose(text[start : fence.start()])), fence[0]]
            start = fence.end()
        return "".join([*pieces, _LINK.sub(relink, _prose(text[start:]))])

    def _target(self, page: str, source: Path, link: str) -> str:
        path, hash_, anchor = link.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return link
        file = (source.parent / path).resolve()
        if not file.is_relative_to(ROOT) or not file.exists():
            self.faults.append(f"{source.relative_to(ROOT)}: {link} leads nowhere")
            return link
        if file.suffix in {".webp", ".png", ".svg"}:
            target = file.relative_to(DOCS if file.is_relative_to(DOCS) else ROOT).as_posix()
            (self.folder / target).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / target).write_bytes(file.read_bytes())
        else:
            target = _page_of(file)
            self._linked.append(file)
        return posixpath.relpath(target, posixpath.dirname(page) or ".") + hash_ + anchor

    def _show(self, page: str, source: Path) -> None:
        """A page for a file or a folder outside docs/."""
        name = source.relative_to(ROOT).as_posix()
        if source.is_dir():
            files = sorted(file for file in source.iterdir() if file.name != "__pycache__")
            links = "\n".join(f"- [{file.name}]({file})" for file in files)
            self._put(page, self._relinked(page, source / "-", f"# {name}\n\n{links}\n"))
        elif source.suffix == ".md":
            self._copy(page, source)
        else:
            language = LANGUAGE_OF.get(source.suffix, "text")
            self._put(page, f"# {name}\n\n`````{language}\n{source.read_text('utf-8').rstrip()}\n`````\n")


def _prose(text: str) -> str:
    """Text outside code blocks as this Markdown reads it: a `\\|` in a table's code, a break in Chinese."""
    text = _PIPE.sub(lambda code: code[0].replace("\\|", "|"), text)
    return _CHINESE_BREAK.sub("", text)


def _sources(language: str) -> Iterator[tuple[str, Path]]:
    """Each page of the site that is a file, with the file: in this language, or else in English."""
    for file in sorted(DOCS.rglob("*.md")):
        parts = file.relative_to(DOCS).parts
        if len(parts) == 3 and parts[1] in LANGUAGES:
            translated = DOCS / parts[0] / language / parts[2]
            if file == translated or (parts[1] == "en" and not translated.exists()):
                yield _page_of(file), file
        elif file != DOCS / "guide" / "README.md":
            yield _page_of(file), file
    for name, page in ELSEWHERE.items():
        if page.startswith("project/"):
            yield page, ROOT / name


def _page_of(file: Path) -> str:
    """The path on the site of a file or folder of the repository."""
    name = file.relative_to(ROOT).as_posix()
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    if file.is_relative_to(DOCS):
        parts = [part for part in file.relative_to(DOCS).parts if part not in LANGUAGES]
        if parts == ["start", "index.md"]:
            return "index.md"
        return "/".join([*parts, "index.md"] if file.is_dir() else parts)
    # A generator leaves out folders whose names begin with a dot.
    name = name.replace(".github", "github")
    return f"source/{name}/index.md" if file.is_dir() else f"source/{name.removesuffix('.md')}.md"
