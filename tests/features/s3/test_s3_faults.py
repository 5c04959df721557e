"""An object store that is away, cuts, refuses, lies, is killed or full: nothing partial, nothing lost."""

import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from features.s3.bodies import LARGE, SMALL, chunks, left
from servers.proxy import Proxy, Towards
from servers.seaweedfs import SECRET_KEY, SeaweedServer, start_seaweedfs
from servers.speed import within
from servers.stub import serving
from tenuto.errors import (
    StorageFailed,
    StoreUnreachable,
    StoreUnreachableForWrites,
)
from tenuto.features.s3.s3 import S3Blobs
from tenuto.features.s3.s3_client import Credentials, S3Location
from tenuto.file.blob import BLOCK_BYTES, BlobRecord

NewId = Callable[[], str]
FOREVER_MS = 10**14
TIMEOUT_S = 1.5
# Whatever happens, a call ends within a few times its time: a request, and the look that settles it.
SOON_S = 10 * TIMEOUT_S
AGAIN_S = 120.0


pytestmark = pytest.mark.measured


@pytest.fixture
def proxy(seaweed: SeaweedServer) -> Iterator[Proxy]:
    """A link to the store that does what it is told."""
    made = Proxy(("127.0.0.1", seaweed.port))
    yield made
    made.close()


@pytest.fixture
def far(place: S3Location, proxy: Proxy) -> S3Blobs:
    """The store, behind the link."""
    return S3Blobs(behind(place, proxy))


def behind(place: S3Location, proxy: Proxy) -> S3Location:
    return replace(place, endpoint=f"http://127.0.0.1:{proxy.port}")


def again(blobs: S3Blobs, blob_id: str, content: bytes) -> bytes:
    """Writes as a worker does, as often as it takes on a busy machine, and reads."""
    until = time.monotonic() + AGAIN_S
    while True:
        try:
            record = blobs.write(blob_id, chunks(content))
            return S3Blobs(blobs.place).read_all(record)
        except (StoreUnreachableForWrites, StoreUnreachable):
            assert time.monotonic() < until


@pytest.mark.parametrize("fault", ["refuses", "stalls"])
def test_a_store_that_is_away(proxy: Proxy, place: S3Location, new_id: NewId, fault: str) -> None:
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
        StoreUnreachableForWrites: [
            *(partial(far.write, *each) for each in zip(ids, map(chunks, contents), strict=True)),
            partial(far.delete, kept[0].blob_id),
        ],
        StoreUnreachable: [
            *(partial(far.read_all, record) for record in kept),
            lambda: list(far.ids(FOREVER_MS)),
        ],
    }

    with within(SOON_S), ThreadPoolExecutor(6) as threads:
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
    far: S3Blobs, proxy: Proxy, place: S3Location, new_id: NewId, content: bytes
) -> None:
    """Nothing partial can be seen, and the same id is written when the link holds."""
    blob_id = new_id()
    proxy.cut_after(2 * BLOCK_BYTES, Towards.SERVER, is_reset=True)

    with within(SOON_S), pytest.raises(StoreUnreachableForWrites):
        far.write(blob_id, chunks(content))

    proxy.pass_on()
    assert [] == [name for name in left(place)[0] if not name.endswith(".tmp")]
    assert content == again(far, blob_id, content)
    assert ([f"{blob_id[-2:]}/{blob_id}"], 0) == left(place)


@pytest.mark.parametrize(
    ("content", "mark"),
    [(SMALL, b"HTTP/1.1 200"), (LARGE, b"CompleteMultipartUploadResult"), (LARGE, b"HTTP/1.1 200")],
    ids=["whole", "completed", "reserved"],
)
def test_stored_but_its_answer_was_lost(
    place: S3Location, proxy: Proxy, new_id: NewId, content: bytes, mark: bytes
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
    far: S3Blobs, proxy: Proxy, place: S3Location, new_id: NewId, content: bytes
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

    with within(SOON_S), suppress(StoreUnreachable):
        given.extend(iter(far.read(record)))

    got = b"".join(given)
    assert len(got) >= BLOCK_BYTES
    assert LARGE[: len(got)] == got
    proxy.pass_on()
    assert LARGE == far.read_all(record)


def test_a_store_that_refuses_our_keys(place: S3Location, new_id: NewId) -> None:
    """403: nothing is stored, nothing is taken for missing, and no secret is in what is said (P16)."""
    kept = S3Blobs(place).write(new_id(), SMALL)
    barred = S3Blobs(replace(place, credentials=Credentials("tenuto-tests", "not-" + SECRET_KEY)))

    with pytest.raises(StoreUnreachableForWrites) as refused:
        barred.write(new_id(), SMALL)
    with pytest.raises(StoreUnreachable):
        barred.read_all(kept)
    with pytest.raises(StoreUnreachableForWrites):
        barred.delete(kept.blob_id)

    assert SECRET_KEY not in f"{refused.value!r} {refused.value.__cause__!r} {place!r}"
    assert SMALL == S3Blobs(place).read_all(kept)


def test_a_store_that_is_busy(place: S3Location, new_id: NewId) -> None:
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
        with within(SOON_S), pytest.raises(StoreUnreachableForWrites):
            busy.write(new_id(), SMALL)
        with within(SOON_S), pytest.raises(StoreUnreachable):
            busy.read_all(BlobRecord(new_id(), 1, "", "00000000"))

    assert 3 == len(asked)


def test_a_store_that_is_killed(place: S3Location, seaweed: SeaweedServer, new_id: NewId) -> None:
    """What it acknowledged is there when it is back, and the write that it fell into is made again."""
    blobs = S3Blobs(place)
    kept, blob_id = [blobs.write(new_id(), content) for content in (SMALL, LARGE)], new_id()

    def interrupted() -> Iterator[bytes]:
        yield from chunks(LARGE)
        seaweed.kill()

    try:
        with within(SOON_S), pytest.raises(StoreUnreachableForWrites):
            blobs.write(blob_id, interrupted())
    finally:
        seaweed.start()

    assert [SMALL, LARGE] == [blobs.read_all(record) for record in kept]
    assert LARGE == again(blobs, blob_id, LARGE)


def test_a_store_that_is_full(place: S3Location, tmp_path: Path, new_id: NewId) -> None:
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
