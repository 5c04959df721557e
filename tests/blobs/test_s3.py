"""Blobs in a bucket: bodies in parts, what killed writes leave, and a store that breaks in every way."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Barrier, Thread

import obstore
import pytest

from servers.proxy import Proxy, Towards
from servers.seaweedfs import SECRET_KEY, SeaweedServer, start_seaweedfs
from tenuto.blobs.blob import BLOCK_BYTES, BlobRecord
from tenuto.blobs.s3 import S3Blobs
from tenuto.blobs.s3_content import PART_BYTES, Content
from tenuto.blobs.s3_place import Credentials, S3Place, client
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    StorageFailed,
    StoreAway,
    StoreAwayForWrites,
)

NewId = Callable[[], str]
FOREVER_MS = 10**14
SMALL = os.urandom(3 * BLOCK_BYTES + 17)
# Two whole parts and a short third.
LARGE = os.urandom(2 * PART_BYTES + 12345)
TIMEOUT_S = 1.5
# Whatever happens, a call ends within a few times its time: a request, and the look that settles it.
SOON_S = 10 * TIMEOUT_S
AGAIN_S = 60.0

# Writes what never ends, says so when two parts are on their way, and waits to be killed.
ENDLESS = """
import os, sys
from tenuto.blobs.s3 import S3Blobs
from tenuto.blobs.s3_place import S3Place, credentials_from
def content():
    for _ in range(24):
        yield os.urandom(1 << 20)
    print("writing", flush=True)
    sys.stdin.read()
place = S3Place(bucket=sys.argv[1], prefix=sys.argv[2], endpoint=sys.argv[3],
                credentials=credentials_from(os.environ))
S3Blobs(place).write(sys.argv[4], content())
"""

# Writes and reads so many MiB and says by how many its memory has grown at most.
GROWTH = """
import os, resource, sys
from tenuto.blobs.s3 import S3Blobs
from tenuto.blobs.s3_place import S3Place, credentials_from
from tenuto.ids import Ids
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
place = S3Place(bucket=sys.argv[1], prefix=sys.argv[2], endpoint=sys.argv[3],
                credentials=credentials_from(os.environ))
blobs, ids = S3Blobs(place), Ids(clock=lambda: 1_700_000_000_000)
blobs.write(ids.new("blob"), b"warm")
before = peak()
record = blobs.write(ids.new("blob"), (os.urandom(1 << 20) for _ in range(int(sys.argv[4]))))
written = peak() - before
for block in blobs.read(record):
    pass
print(written, peak() - before)
"""


def chunks(content: bytes, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


def left(place: S3Place) -> tuple[list[str], int]:
    """What lies under the prefix, and how many uploads were begun there and neither completed nor ended."""
    names = [found["path"] for page in obstore.list(client(place)) for found in page]
    return names, S3Blobs(place).unfinished()


@pytest.fixture
def proxy(seaweed: SeaweedServer) -> Iterator[Proxy]:
    """A link to the store that does what it is told."""
    made = Proxy(("127.0.0.1", seaweed.port))
    yield made
    made.close()


@pytest.fixture
def far(place: S3Place, proxy: Proxy) -> S3Blobs:
    """The store, behind the link."""
    return S3Blobs(behind(place, proxy))


def behind(place: S3Place, proxy: Proxy) -> S3Place:
    return replace(place, endpoint=f"http://127.0.0.1:{proxy.port}")


def again(blobs: S3Blobs, blob_id: str, content: bytes) -> bytes:
    """Writes as a worker does, as often as it takes on a busy machine, and reads."""
    until = time.monotonic() + AGAIN_S
    while True:
        try:
            record = blobs.write(blob_id, chunks(content))
            return S3Blobs(blobs.place).read_all(record)
        except (StoreAwayForWrites, StoreAway):
            assert time.monotonic() < until


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a store that answers so."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def soon() -> Iterator[None]:
    began = time.monotonic()
    yield
    took_s = time.monotonic() - began

    assert took_s < SOON_S


def test_a_large_body_goes_up_in_parts(place: S3Place, new_id: NewId) -> None:
    """Its checksums are ours, its tag is the one that we expect of its parts, and no claim is left."""
    blobs, blob_id = S3Blobs(place), new_id()

    record = blobs.write(blob_id, chunks(LARGE, 700_001))

    passing = Content(LARGE)
    for _ in passing:
        pass
    assert hashlib.sha256(LARGE).hexdigest() == record.sha256
    assert passing.has_tag(obstore.head(client(place), f"{blob_id[-2:]}/{blob_id}")["e_tag"])
    assert LARGE == blobs.read_all(record)
    assert LARGE[PART_BYTES - 5 : PART_BYTES + 5] == b"".join(
        blobs.read(record, PART_BYTES - 5, PART_BYTES + 5)
    )
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


def test_a_large_body_that_breaks_off_leaves_nothing(place: S3Place, new_id: NewId) -> None:
    """Parts were on their way when the caller went: no object, no claim, no upload, and the id is free."""

    def broken() -> Iterator[bytes]:
        yield from chunks(LARGE)
        raise ConnectionResetError("the caller went away")

    blobs, blob_id = S3Blobs(place), new_id()

    with pytest.raises(ConnectionResetError):
        blobs.write(blob_id, broken())

    assert ([], 0) == left(place)
    assert LARGE == blobs.read_all(blobs.write(blob_id, chunks(LARGE)))


def test_of_two_large_writes_at_once_one_wins(place: S3Place, new_id: NewId) -> None:
    """Parts of two machines never mix, and what is acknowledged is what is there (P7)."""
    contents, blob_id, both = [LARGE, LARGE[::-1]], new_id(), Barrier(2)

    def write(content: bytes) -> BlobRecord | None:
        blobs = S3Blobs(place)
        both.wait()
        with suppress(StorageFailed):
            return blobs.write(blob_id, chunks(content))
        return None

    with ThreadPoolExecutor(2) as threads:
        records = list(threads.map(write, contents))

    [winner] = [number for number, record in enumerate(records) if record]
    record = records[winner]
    assert record is not None
    assert contents[winner] == S3Blobs(place).read_all(record)
    with pytest.raises(StorageFailed):
        S3Blobs(place).write(blob_id, chunks(contents[1 - winner]))


def test_a_killed_writer_leaves_what_the_sweep_finds(
    place: S3Place, seaweed: SeaweedServer, new_id: NewId
) -> None:
    """Nothing of it can be read; its id is listed, and deleting it ends the upload, which costs money."""
    blob_id = new_id()
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, place.bucket, place.prefix, seaweed.endpoint, blob_id],
        env=os.environ | seaweed.variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    blobs = S3Blobs(place)

    assert ([f"{blob_id[-2:]}/{blob_id}.tmp"], 1) == left(place)
    assert [blob_id] == list(blobs.ids(FOREVER_MS))
    with pytest.raises(ArtifactUnavailable):
        blobs.read_all(BlobRecord(blob_id, 1, "", "00000000"))
    with pytest.raises(StorageFailed, match="one write"):
        blobs.write(blob_id, chunks(LARGE))
    blobs.delete(blob_id)
    blobs.delete(blob_id)
    assert ([], 0) == left(place)


def test_memory_is_bounded(place: S3Place, seaweed: SeaweedServer) -> None:
    """Of 96 MiB a write holds three parts, and a read two windows, whatever the allocator adds (P14)."""
    told = subprocess.run(
        [sys.executable, "-c", GROWTH, place.bucket, place.prefix, seaweed.endpoint, "96"],
        env=os.environ | seaweed.variables,
        capture_output=True,
        text=True,
        check=True,
    )

    written_mib, read_mib = map(int, told.stdout.split())
    assert written_mib < 64
    assert read_mib < 80


@pytest.mark.parametrize("fault", ["refuses", "stalls"])
def test_a_store_that_is_away(proxy: Proxy, place: S3Place, new_id: NewId, fault: str) -> None:
    """Writes store nothing, reads say that they do not know, all in a known time; then both work again."""
    contents, near = [SMALL, LARGE], S3Blobs(place)
    kept, ids = [near.write(new_id(), content) for content in contents], [new_id(), new_id()]
    # Who is refused hears of it at once; who waits does not wait long.
    far = S3Blobs(
        replace(behind(place, proxy), timeout_s=TIMEOUT_S if fault == "stalls" else place.timeout_s)
    )
    (proxy.refuse if fault == "refuses" else proxy.stall)()
    proxy.cut()
    calls: dict[type[Exception], list[Callable[[], object]]] = {
        StoreAwayForWrites: [
            *(partial(far.write, *each) for each in zip(ids, map(chunks, contents), strict=True)),
            partial(far.delete, kept[0].blob_id),
        ],
        StoreAway: [*(partial(far.read_all, record) for record in kept), lambda: list(far.ids(FOREVER_MS))],
    }

    with soon(), ThreadPoolExecutor(6) as threads:
        failed = {error: [threads.submit(call).exception for call in calls[error]] for error in calls}
    raised = {error: {type(why()) for why in failed[error]} for error in calls}
    proxy.cut()
    proxy.pass_on()

    assert {error: {error} for error in calls} == raised
    assert contents == [near.read_all(record) for record in kept]
    assert contents == [again(far, *each) for each in zip(ids, contents, strict=True)]
    assert 4 == len(left(place)[0])


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["whole", "in parts"])
def test_a_put_that_is_cut_in_the_middle(
    far: S3Blobs, proxy: Proxy, place: S3Place, new_id: NewId, content: bytes
) -> None:
    """Nothing partial can be seen, and the same id is written when the link holds."""
    blob_id = new_id()
    proxy.cut_after(2 * BLOCK_BYTES, Towards.SERVER, is_reset=True)

    with soon(), pytest.raises(StoreAwayForWrites):
        far.write(blob_id, chunks(content))

    proxy.pass_on()
    assert [] == [name for name in left(place)[0] if not name.endswith(".tmp")]
    assert content == again(far, blob_id, content)
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


@pytest.mark.parametrize(
    ("content", "mark"),
    [(SMALL, b"HTTP/1.1 200"), (LARGE, b"CompleteMultipartUploadResult"), (LARGE, b"HTTP/1.1 200")],
    ids=["whole", "completed", "claimed"],
)
def test_stored_but_its_answer_was_lost(
    place: S3Place, proxy: Proxy, new_id: NewId, content: bytes, mark: bytes
) -> None:
    """The write is found to have been done, and is done once: "failed but stored"."""
    far, blob_id = S3Blobs(behind(place, proxy)), new_id()
    proxy.cut_at(mark, Towards.CLIENT)

    record = far.write(blob_id, chunks(content))

    assert 1 == proxy.cuts()
    assert content == far.read_all(record)
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["whole", "in parts"])
def test_stored_and_the_store_went_away(
    far: S3Blobs, proxy: Proxy, place: S3Place, new_id: NewId, content: bytes
) -> None:
    """A write that could not be settled, said again: with the same bytes it is done, with others it fails."""
    blob_id = new_id()
    far.write(blob_id, chunks(content))  # As an earlier try whose caller never heard of it.

    assert content == far.read_all(far.write(blob_id, chunks(content)))
    with pytest.raises(StorageFailed, match="one write"):
        far.write(blob_id, chunks(content[:-1] + b"x"))
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


def test_a_get_that_is_cut_in_the_middle(far: S3Blobs, proxy: Proxy, new_id: NewId) -> None:
    """What was given until then is right, then the read fails or goes on; never wrong bytes (P6)."""
    record = far.write(new_id(), LARGE)
    proxy.cut()
    proxy.cut_after(5 * BLOCK_BYTES, Towards.CLIENT)
    given: list[bytes] = []

    with soon(), suppress(StoreAway):
        given.extend(iter(far.read(record)))

    got = b"".join(given)
    assert len(got) >= BLOCK_BYTES
    assert LARGE[: len(got)] == got
    proxy.pass_on()
    assert LARGE == far.read_all(record)


def test_a_store_that_refuses_our_keys(place: S3Place, new_id: NewId) -> None:
    """403: nothing is stored, nothing is taken for missing, and no secret is in what is said (P16)."""
    kept = S3Blobs(place).write(new_id(), SMALL)
    barred = S3Blobs(replace(place, credentials=Credentials("tenuto-tests", "not-" + SECRET_KEY)))

    with pytest.raises(StoreAwayForWrites) as refused:
        barred.write(new_id(), SMALL)
    with pytest.raises(StoreAway):
        barred.read_all(kept)
    with pytest.raises(StoreAwayForWrites):
        barred.delete(kept.blob_id)

    assert SECRET_KEY not in f"{refused.value!r} {refused.value.__cause__!r} {place!r}"
    assert SMALL == S3Blobs(place).read_all(kept)


def test_a_bucket_that_is_not_there_is_no_missing_blob(place: S3Place, new_id: NewId) -> None:
    """A wrong setting does not look as if the bytes were lost."""
    record = S3Blobs(place).write(new_id(), SMALL)

    with pytest.raises(StoreAway, match="says NoSuchBucket"):
        S3Blobs(replace(place, bucket="no-such-bucket")).read_all(record)


def test_a_store_of_an_authority_of_its_own(place: S3Place, seaweed: SeaweedServer, new_id: NewId) -> None:
    """TLS: with the authority's certificate all requests work, without it none is sent (`s3_ca_file`)."""
    if seaweed.ca is None:
        pytest.skip("making a certificate needs openssl")
    stranger = replace(place, endpoint=f"https://127.0.0.1:{seaweed.https_port}", timeout_s=TIMEOUT_S)
    trusted = S3Blobs(replace(stranger, ca_certificates=seaweed.ca, timeout_s=place.timeout_s))

    record = trusted.write(new_id(), chunks(LARGE))

    assert LARGE == trusted.read_all(record)
    assert 0 == trusted.unfinished()
    with pytest.raises(StoreAway):
        S3Blobs(stranger).read_all(record)
    with pytest.raises(StoreAway):
        S3Blobs(stranger).unfinished()


@pytest.mark.parametrize("is_honest", [True, False])
def test_a_store_whose_tags_say_nothing(place: S3Place, new_id: NewId, is_honest: bool) -> None:
    """Where the tag is not made of our bytes (they are encrypted), they are read again before the
    write counts: a store that keeps others than it acknowledged is found out (P5).
    """
    kept: dict[str, bytes] = {}

    class Store(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            kept[self.path] = body if is_honest else body[:-1] + bytes([body[-1] ^ 1])
            self._answer(200, b"")

        def do_GET(self) -> None:
            first, _, last = self.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
            whole = kept[self.path]
            part = whole[int(first) : int(last) + 1 if last else None]
            self._answer(206, part, f"bytes {first}-{int(first) + len(part) - 1}/{len(whole)}")

        def do_HEAD(self) -> None:
            self._answer(200, kept[self.path])

        def _answer(self, status: int, body: bytes, content_range: str | None = None) -> None:
            self.send_response(status)
            self.send_header("etag", '"c0ffee"')
            self.send_header("last-modified", "Sat, 21 Nov 2026 20:00:00 GMT")
            self.send_header("content-length", str(len(body)))
            if content_range is not None:
                self.send_header("content-range", content_range)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Store) as endpoint:
        blobs = S3Blobs(replace(place, endpoint=endpoint))
        if is_honest:
            assert SMALL == blobs.read_all(blobs.write(new_id(), SMALL))
        else:
            with pytest.raises(StorageFailed, match="does not give back"):
                blobs.write(new_id(), SMALL)


def test_a_store_that_is_busy(place: S3Place, new_id: NewId) -> None:
    """503 to everything: tried a few times, then given up in time."""
    asked: list[str] = []

    class Busy(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append(self.command)
            self.rfile.read(int(self.headers["content-length"]))
            self.send_error(503, "Slow Down")

        def do_GET(self) -> None:
            self.send_error(503, "Slow Down")

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with serving(Busy) as endpoint:
        busy = S3Blobs(replace(place, endpoint=endpoint))
        with soon(), pytest.raises(StoreAwayForWrites):
            busy.write(new_id(), SMALL)
        with soon(), pytest.raises(StoreAway):
            busy.read_all(BlobRecord(new_id(), 1, "", "00000000"))

    assert 3 == len(asked)


def test_a_store_that_is_killed(place: S3Place, seaweed: SeaweedServer, new_id: NewId) -> None:
    """What it acknowledged is there when it is back, and the write that it fell into is made again."""
    blobs = S3Blobs(place)
    kept, blob_id = [blobs.write(new_id(), content) for content in (SMALL, LARGE)], new_id()

    def interrupted() -> Iterator[bytes]:
        yield from chunks(LARGE)
        seaweed.kill()

    try:
        with soon(), pytest.raises(StoreAwayForWrites):
            blobs.write(blob_id, interrupted())
    finally:
        seaweed.start()

    assert [SMALL, LARGE] == [blobs.read_all(record) for record in kept]
    assert LARGE == again(blobs, blob_id, LARGE)


def test_a_store_that_is_full(place: S3Place, tmp_path: Path, new_id: NewId) -> None:
    """No write is acknowledged that is not there; what was stored before stays readable."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=56m", "tenuto", tmp_path], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("mounting needs root")
    try:
        server = start_seaweedfs(folder=tmp_path)
        try:
            blobs = S3Blobs(replace(place, endpoint=server.endpoint))
            stored: list[BlobRecord] = []
            with pytest.raises(StorageFailed):
                while len(stored) < 10:
                    stored.append(blobs.write(new_id(), chunks(LARGE)))

            assert stored
            for record in stored:
                assert LARGE == blobs.read_all(record)
        finally:
            server.stop()
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_reading_ahead_holds_no_more_than_it_may(place: S3Place, new_id: NewId) -> None:
    """Readers that stop in the middle leave room for the next, and one that finds none reads all the same."""
    blobs = S3Blobs(place)
    record = blobs.write(new_id(), LARGE)
    stopped = [blobs.read(record) for _ in range(40)]
    for reader in stopped:
        next(reader)

    assert LARGE == blobs.read_all(record)
    for reader in stopped:
        reader.close()  # type: ignore[attr-defined]  # a generator
    with ThreadPoolExecutor(4) as threads:
        assert [LARGE] * 4 == list(threads.map(blobs.read_all, [record] * 4))


def test_bytes_that_change_while_they_are_read(place: S3Place, new_id: NewId) -> None:
    """A blob that another program writes over fails at the block that is not ours any more."""
    blobs = S3Blobs(place)
    record = blobs.write(new_id(), LARGE)
    reader = blobs.read(record)
    given = [next(reader)]
    obstore.put(client(place), f"{record.blob_id[-2:]}/{record.blob_id}", LARGE[:-1])

    with pytest.raises(CorruptBlob):
        given.extend(iter(reader))

    got = b"".join(given)
    assert LARGE[: len(got)] == got
