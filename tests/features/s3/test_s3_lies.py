"""A store that keeps other bytes than it acknowledged, and whose tags say nothing of them."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest

from features.s3.bodies import LARGE, SMALL, chunks
from servers.stub import serving
from tenuto.errors import StorageFailed
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import S3Location

UPLOAD = "<R><Bucket>b</Bucket><Key>k</Key><UploadId>1</UploadId><ETag>&quot;c0ffee&quot;</ETag></R>"
TAG = '"c0ffee"'


def store(kept: dict[str, bytes], keep: Callable[[bytes], bytes]) -> type[BaseHTTPRequestHandler]:
    """One that keeps what `keep` makes of an object, and gives every object the same tag."""
    parts: dict[int, bytes] = {}

    class Store(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            path, asked = self._asked()
            if "partNumber" in asked:
                parts[int(asked["partNumber"][0])] = body
            else:
                # A reservation is no blob, and is what it was.
                kept[path] = body if path.endswith(".tmp") else keep(body)
            self._answer(200, b"")

        def do_POST(self) -> None:
            """An upload in parts begins, or is completed."""
            self.rfile.read(int(self.headers.get("content-length") or 0))
            path, asked = self._asked()
            if "uploadId" in asked:
                kept[path] = keep(b"".join(parts[number] for number in sorted(parts)))
            self._answer(200, UPLOAD.encode())

        def do_GET(self) -> None:
            path, asked = self._asked()
            first, _, last = self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
            if "uploads" in asked:
                self._answer(200, b"<R></R>")
            elif path not in kept:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            else:
                part = kept[path][int(first) : int(last) + 1 if last else None]
                said = f"bytes {first}-{int(first) + len(part) - 1}/{len(kept[path])}"
                self._answer(206, part, said)

        def do_HEAD(self) -> None:
            path, _ = self._asked()
            self._answer(200 if path in kept else 404, kept.get(path, b""))

        def do_DELETE(self) -> None:
            kept.pop(self._asked()[0], None)
            self._answer(204, b"")

        def _asked(self) -> tuple[str, dict[str, list[str]]]:
            asked = urlsplit(self.path)
            return asked.path, parse_qs(asked.query, keep_blank_values=True)

        def _answer(self, status: int, body: bytes, content_range: str | None = None) -> None:
            self.send_response(status)
            self.send_header("etag", TAG)
            self.send_header("last-modified", "Sat, 21 Nov 2026 20:00:00 GMT")
            self.send_header("content-length", str(len(body)))
            if content_range is not None:
                self.send_header("content-range", content_range)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Store


def flipped(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["whole", "in-parts"])
def test_a_store_whose_tags_say_nothing(place: S3Location, new_id: Callable[[], str], content: bytes) -> None:
    """Where the tag is not made of our bytes (they are encrypted), they are read again before the write
    counts: a store that keeps others than it acknowledged is found out (P5).
    """
    kept: dict[str, bytes] = {}
    with serving(store(kept, bytes)) as endpoint:
        honest = S3Blobs(replace(place, endpoint=endpoint))
        read = honest.read_all(honest.write(new_id(), chunks(content)))
    with serving(store({}, flipped)) as endpoint:
        liar = S3Blobs(replace(place, endpoint=endpoint))
        with pytest.raises(StorageFailed, match="does not give back"):
            liar.write(new_id(), chunks(content))

    assert content == read
    assert [hashlib.sha256(content).digest()] == [hashlib.sha256(each).digest() for each in kept.values()]
