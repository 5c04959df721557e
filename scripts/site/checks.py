"""Follows every link of the built site, to its anchor; nothing may be fetched from elsewhere."""

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "source": "src", "audio": "src", "iframe": "src"}


class Page(HTMLParser):
    """The ids and links of an HTML page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[tuple[str, bool]] = set()
        """Each address, and whether the browser fetches it by itself."""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and values.get("href"):
            self.links.add((values["href"] or "", False))
        elif (address := values.get(FETCHED.get(tag, ""))) is not None:
            self.links.add((address, True))


@cache
def page(path: Path) -> Page:
    """A page, read once."""
    return Page(path.read_text("utf-8"))


def faults(folder: Path) -> Iterator[str]:
    """A sentence for each link that leads nowhere and each file that another host would have to send."""
    for path in sorted(folder.rglob("*.html")):
        if path.name == "404.html":
            continue
        for address, is_fetched in sorted(page(path).links):
            reason = _fault(path, address, is_fetched)
            if reason:
                yield f"{path.relative_to(folder)}: {address} {reason}"


def _fault(path: Path, address: str, is_fetched: bool) -> str | None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return "is fetched from elsewhere" if is_fetched and parts.scheme != "data" else None
    target = _target(path.parent, unquote(parts.path)) if parts.path else path
    if target is None:
        return "leads nowhere"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in page(target).ids:
        return "has no such heading"
    return None


@cache
def _target(folder: Path, path: str) -> Path | None:
    """The file that a path leads to; all pages of a folder have most of their links in common."""
    target = (folder / path).resolve()
    target = target / "index.html" if target.is_dir() else target
    return target if target.is_file() else None
