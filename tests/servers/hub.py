"""A Hugging Face hub on this machine: the listing of a repository, and its files, with ranges."""

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

BLOCK_BYTES = 1 << 20
STALL_S = 120


def commit_of(name: str) -> str:
    """A commit, which another name does not have."""
    return hashlib.sha1(name.encode()).hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass
class Repository:
    """Files by their paths; those of `large` are listed with a SHA-256, the others with git's hash."""

    commit: str
    large: dict[str, Path] = field(default_factory=dict)
    small: dict[str, bytes] = field(default_factory=dict)
    listed_bytes: int | None = None
    """What the listing says of each large file, instead of its size."""

    def listing(self) -> dict[str, Any]:
        siblings: list[dict[str, Any]] = [{"rfilename": ".gitattributes", "size": 1, "blobId": "0" * 40}]
        for path, content in self.small.items():
            blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            siblings.append({"rfilename": path, "size": len(content), "blobId": blob})
        for path, file in self.large.items():
            size = self.listed_bytes or file.stat().st_size
            large = {"sha256": _sha256(file), "size": size, "pointerSize": 134}
            siblings.append({"rfilename": path, "size": size, "blobId": "1" * 40, "lfs": large})
        return {"id": "x", "sha": self.commit, "gated": False, "siblings": siblings}


class Hub:
    """Use it in a `with` block. `asked` has each request: its path and its Range header."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.asked: list[tuple[str, str]] = []
        self.sent_instead: dict[str, bytes] = {}
        """By path: other bytes than those that were listed."""
        self.stalls = False
        """The first large file stops in its middle, until `released`."""
        self.stalled = threading.Event()
        self.released = threading.Event()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def downloads(self) -> list[str]:
        """The Range header of each request for a file."""
        return [wanted for path, wanted in list(self.asked) if "/resolve/" in path]

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path, wanted = request.path.partition("?")[0], request.headers.get("Range", "")
        self.asked.append((path, wanted))
        for name, repository in self.repositories.items():
            if path.startswith(f"/api/models/{name}/revision/"):
                _send(request, json.dumps(repository.listing()).encode())
                return
            begin = f"/{name}/resolve/{repository.commit}/"
            if path.startswith(begin):
                self._send_file(request, repository, path.removeprefix(begin), wanted)
                return
        request.send_error(404)

    def _send_file(
        self, request: BaseHTTPRequestHandler, repository: Repository, path: str, wanted: str
    ) -> None:
        if path in self.sent_instead or path in repository.small:
            _send(request, self.sent_instead.get(path, repository.small.get(path, b"")))
            return
        if path not in repository.large:
            request.send_error(404)
            return
        file = repository.large[path]
        size = file.stat().st_size
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        request.send_response(206 if wanted else 200)
        request.send_header("Content-Length", str(size - start))
        request.end_headers()
        with file.open("rb") as stream:
            stream.seek(start)
            while block := stream.read(BLOCK_BYTES):
                if self.stalls and not self.stalled.is_set() and stream.tell() >= size // 2:
                    request.wfile.write(block[: len(block) // 2])
                    request.wfile.flush()
                    self.stalled.set()
                    self.released.wait(STALL_S)
                    return
                request.wfile.write(block)


def _send(request: BaseHTTPRequestHandler, content: bytes) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    request.wfile.write(content)
