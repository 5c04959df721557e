"""The studio's files, as `make setup` builds them into `static/`: one page for every path, and what it loads.
Also the API reference, which needs no build, and the document that it shows.

All are read into memory when a page is first requested, and again after the studio was rebuilt; requests are
served from there, so that no path ever reaches the file system.
"""

import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from tenuto.api.answers import Answer
from tenuto.api.call import Call
from tenuto.errors import NotFound

FOLDER = Path(__file__).with_name("static")
INDEX = "index.html"
REFERENCE = Path(__file__).with_name("reference")
ENCODINGS = {b"br": ".br", b"gzip": ".gz"}
"""Content codings, best first, and the suffixes of the files encoded with them."""

_ENDINGS = tuple(ENCODINGS.values())
_PLAIN = re.compile(r"[A-Za-z/$][\w/{}-]+")
_IMMUTABLE = (b"cache-control", b"public, max-age=31536000, immutable")
_REVALIDATED = (b"cache-control", b"no-cache")
_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Tenuto</title>
<h1>Tenuto runs; its studio is not built yet</h1>
<p>Say <code>make setup</code> in the checkout and load this page again.
The API under <code>/v1</code> works.</p>
<p lang="zh">服务已经运行，网页尚未构建。
请在代码目录执行 <code>make setup</code>，然后刷新本页。</p>
</html>
""".encode()
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".wav": "audio/wav",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
    ".yaml": "application/yaml",
}
"""Media types of a build's files; the system's own table differs from machine to machine."""


def build() -> str:
    """An identifier of the current build, which anybody who loads the page could derive from it."""
    index = FOLDER / INDEX
    return hashlib.sha256(index.read_bytes() if index.exists() else _NOT_BUILT).hexdigest()[:16]


class File(Struct, frozen=True):
    """One file in all its content codings."""

    media_type: bytes
    bodies: dict[bytes, bytes]
    """By coding; b"" is the file itself."""
    etag: bytes


class Pages(Struct):
    """The files of one build."""

    folder: Path = FOLDER
    base: str = ""
    """The prefix of all our paths; the page refers to its files below it."""
    files: dict[str, File] = field(default_factory=dict)
    built_ns: int | None = None
    """When the build in memory was made; -1: there was none. None: nothing has been read yet."""

    async def page(self, call: Call) -> Answer:
        """The one page that all paths of the studio share."""
        self._refresh()
        index = self.files.get(INDEX)
        if index is None:
            html = (b"content-type", b"text/html; charset=utf-8")
            return Answer(200, _NOT_BUILT, [_REVALIDATED], html)
        return _sent(call, index, _REVALIDATED)

    async def missing(self, call: Call) -> Answer:
        """The same page with status 404; it will report that nothing is there."""
        page = await self.page(call)
        return replace(page, status=404) if page.status == 200 else page

    async def file(self, call: Call) -> Answer:
        """What a page loads. Names under assets/ hold a hash of their content, so they never change."""
        if not self.files:
            self._refresh()
        name = call.scope["path"].lstrip("/")
        file = self.files.get(name)
        if file is None or name == INDEX:
            raise NotFound("There is nothing under this path.")
        return _sent(call, file, _IMMUTABLE if name.startswith("assets/") else _REVALIDATED)

    def has(self, path: str) -> bool:
        """Whether there is a file for this path."""
        if not self.files:
            self._refresh()
        return path.lstrip("/") in self.files

    def _refresh(self) -> None:
        """A build writes the page last; if its time has changed, everything is read again."""
        try:
            built_ns = (self.folder / INDEX).stat().st_mtime_ns
        except OSError:
            built_ns = -1
        if built_ns != self.built_ns:
            self.files = _reference(self.base) | ({} if built_ns == -1 else _read(self.folder))
            if self.base and INDEX in self.files:
                self.files[INDEX] = _placed(self.files[INDEX], self.base.encode())
            self.built_ns = built_ns


def _read(folder: Path) -> dict[str, File]:
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix not in _ENDINGS]
    return {path.relative_to(folder).as_posix(): _file(path) for path in paths}


def _file(path: Path) -> File:
    content = path.read_bytes()
    encoded = {coding: path.with_name(path.name + end) for coding, end in ENCODINGS.items()}
    bodies = {coding: other.read_bytes() for coding, other in encoded.items() if other.is_file()}
    etag = hashlib.sha256(content).hexdigest()[:32].encode()
    media_type = _TYPES.get(path.suffix, "application/octet-stream")
    return File(media_type.encode(), {**bodies, b"": content}, etag)


def _placed(index: File, base: bytes) -> File:
    """The page for a service under a path prefix; the build's compressed files do not match it."""
    content = index.bodies[b""].replace(b'="/', b'="%b/' % base)
    return _packed(INDEX, content.replace(b"<html ", b'<html data-base="%b" ' % base, 1))


def _reference(base: str) -> dict[str, File]:
    """The page at /docs and its files; the document as JSON and YAML, with this service as its server."""
    texts = {f"docs/{path.name}": path.read_bytes() for path in REFERENCE.iterdir()}
    document = json.loads(texts.pop("docs/openapi.json")) | {"servers": [{"url": base or "/"}]}
    return {
        "docs": _packed(".html", texts.pop("docs/docs.html")),
        **{name: _packed(name, text) for name, text in texts.items()},
        "openapi.json": _packed(".json", json.dumps(document, ensure_ascii=False).encode()),
        "openapi.yaml": _packed(".yaml", _yaml(document).lstrip().encode() + b"\n"),
    }


def _yaml(value: Any, indent: str = "\n") -> str:
    """A value in YAML's block style; its scalars, and keys that are not plain words, as in JSON."""
    if isinstance(value, dict) and value:
        keys = {key: key if _PLAIN.fullmatch(key) else json.dumps(key) for key in value}
        return "".join(f"{indent}{keys[key]}:{_yaml(each, indent + '  ')}" for key, each in value.items())
    if isinstance(value, list) and value:
        return "".join(f"{indent}-{_yaml(each, indent + '  ')}" for each in value)
    return " " + json.dumps(value, ensure_ascii=False)


def _packed(name: str, content: bytes) -> File:
    etag = hashlib.sha256(content).hexdigest()[:32].encode()
    media_type = _TYPES[name[name.rindex(".") :]].encode()
    return File(media_type, {b"gzip": gzip.compress(content, mtime=0), b"": content}, etag)


def _sent(call: Call, file: File, cache: tuple[bytes, bytes]) -> Answer:
    coding = _coding(call, file)
    # A strong ETag identifies one sequence of bytes, so each coding has its own.
    etag = b'"' + file.etag + (b"-" + coding if coding else b"") + b'"'
    headers = [cache, (b"etag", etag), (b"vary", b"accept-encoding")]
    media_type = (b"content-type", file.media_type)
    if etag in [
        tag.strip().removeprefix(b"W/") for tag in b",".join(call.header_values(b"if-none-match")).split(b",")
    ]:
        return Answer(304, b"", headers, media_type)
    if coding:
        headers.append((b"content-encoding", coding))
    return Answer(200, file.bodies[coding], headers, media_type)


def _coding(call: Call, file: File) -> bytes:
    """The best available coding that the client accepts."""
    taken = set()
    for part in b",".join(call.header_values(b"accept-encoding")).lower().split(b","):
        name, _, weight = part.replace(b" ", b"").partition(b";")
        if weight not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000"):
            taken.add(name)
    return next((coding for coding in ENCODINGS if coding in taken and coding in file.bodies), b"")
