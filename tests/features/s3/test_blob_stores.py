"""What every store of blobs owes: all bytes or none, written once, and no byte given that was not checked."""

import hashlib
import itertools
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from features.s3.conftest import Stored
from tenuto.errors import ArtifactUnavailable, CorruptBlob, StorageFailed
from tenuto.file.blob import BLOCK_BYTES, BlobRecord, Checksums

NewId = Callable[[], str]
FOREVER_MS = 10**14
# Two whole blocks and a short third.
CONTENT = bytes(range(251)) * (2 * BLOCK_BYTES // 251 + 1000)


def flipped(at: int) -> Callable[[bytes], bytes]:
    """One bit at this place the other way round."""
    return lambda content: content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, len(CONTENT)])
def test_what_was_written_is_read(stored: Stored, new_id: NewId, size: int) -> None:
    """Size, SHA-256 and the CRC-32 of each block are those of the bytes, which come back the same. No chunk
    is longer than a block or lies across two, so a reader can bound its memory.
    """
    content = CONTENT[:size]
    blob_id = new_id()

    record = stored.store.write(blob_id, content)

    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, size, BLOCK_BYTES)]
    crcs = "".join(f"{zlib.crc32(block):08x}" for block in blocks)
    assert BlobRecord(blob_id, size, hashlib.sha256(content).hexdigest(), crcs) == record
    lengths = [len(chunk) for chunk in stored.store.read(record)]
    assert content == stored.store.read_all(record)
    assert max(lengths, default=0) <= BLOCK_BYTES
    assert set(range(0, size + 1, BLOCK_BYTES)) <= {0, *itertools.accumulate(lengths)}


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_range_is_what_slicing_gives(stored: Stored, new_id: NewId, data: st.DataObject) -> None:
    """A range may start and end anywhere, on or beside the edge of a block, and be empty."""
    size = data.draw(st.sampled_from([0, 1, BLOCK_BYTES, 2 * BLOCK_BYTES, len(CONTENT)]))
    edges = [edge + off for edge in (0, BLOCK_BYTES, 2 * BLOCK_BYTES, size) for off in (-1, 0, 1)]
    points = st.one_of(st.integers(0, size), st.sampled_from([edge for edge in edges if 0 <= edge <= size]))
    start, end = sorted((data.draw(points), data.draw(points)))
    record = stored.store.write(new_id(), CONTENT[:size])

    read = b"".join(stored.store.read(record, start, end))

    assert CONTENT[start:end] == read


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, len(CONTENT)), max_size=12))
def test_chunks_of_any_size_make_the_same_record(stored: Stored, new_id: NewId, cuts: list[int]) -> None:
    """How the bytes arrive, empty chunks too, does not show in what is stored."""
    edges = [0, *sorted(cuts), len(CONTENT)]
    blob_id = new_id()
    whole = Checksums()
    whole.add(CONTENT)

    record = stored.store.write(blob_id, (CONTENT[a:b] for a, b in pairwise(edges)))

    assert whole.record(blob_id) == record
    assert CONTENT == stored.store.read_all(record)


def test_an_id_is_written_once(stored: Stored, new_id: NewId) -> None:
    """A second write fails and the bytes of the first stay."""
    blob_id = new_id()
    record = stored.store.write(blob_id, b"first")

    with pytest.raises(StorageFailed):
        stored.store.write(blob_id, b"second")

    assert b"first" == stored.store.read_all(record)


def test_of_two_writes_at_once_one_wins(stored: Stored, new_id: NewId) -> None:
    """Whichever write succeeds is the one whose bytes are there, and the other stores nothing."""
    contents = [b"a" * 300_000, b"b" * 300_000]
    for _ in range(20):
        blob_id, both = new_id(), Barrier(2)

        def write(content: bytes, blob_id: str = blob_id, both: Barrier = both) -> BlobRecord | None:
            both.wait()
            try:
                return stored.store.write(blob_id, [content])
            except StorageFailed:
                return None

        with ThreadPoolExecutor(2) as threads:
            records = list(threads.map(write, contents))

        (winner,) = [number for number, record in enumerate(records) if record]
        record = records[winner]
        assert record is not None
        assert contents[winner] == stored.store.read_all(record)


def test_a_write_whose_content_breaks_off_stores_nothing(stored: Stored, new_id: NewId) -> None:
    """The caller's own exception comes through, and the id is as free as before."""

    def broken() -> Iterator[bytes]:
        yield CONTENT
        raise ConnectionResetError("the caller went away")

    blob_id = new_id()

    with pytest.raises(ConnectionResetError):
        stored.store.write(blob_id, broken())

    assert [] == list(stored.store.ids(FOREVER_MS))
    assert b"again" == stored.store.read_all(stored.store.write(blob_id, b"again"))


@pytest.mark.parametrize("at", [0, BLOCK_BYTES - 1, BLOCK_BYTES, len(CONTENT) - 1])
def test_a_flipped_bit_is_never_given(stored: Stored, new_id: NewId, at: int) -> None:
    """The blocks before the bad one come, then CorruptBlob; a range in another block is still readable."""
    record = stored.store.write(new_id(), CONTENT)
    stored.damage(record.blob_id, flipped(at))
    bad = at // BLOCK_BYTES
    given_before: list[bytes] = []

    with pytest.raises(CorruptBlob, match=f"Block {bad}"):
        given_before.extend(iter(stored.store.read(record)))
    with pytest.raises(CorruptBlob):
        list(stored.store.read(record, start=bad * BLOCK_BYTES + 5, end=bad * BLOCK_BYTES + 6))

    other = ((bad + 1) % 3) * BLOCK_BYTES + 7
    assert CONTENT[: bad * BLOCK_BYTES] == b"".join(given_before)
    assert CONTENT[other : other + 9] == b"".join(stored.store.read(record, other, other + 9))


@pytest.mark.parametrize(
    "change",
    [lambda content: content[:-1], lambda content: content + b"x", lambda content: b""],
    ids=["shorter", "longer", "empty"],
)
def test_another_size_is_found_before_the_first_byte(
    stored: Stored, new_id: NewId, change: Callable[[bytes], bytes]
) -> None:
    """Cut or grown bytes fail at the first step, whatever range is asked for."""
    record = stored.store.write(new_id(), CONTENT)
    stored.damage(record.blob_id, change)

    with pytest.raises(CorruptBlob):
        next(stored.store.read(record, 0, 1))
    with pytest.raises(CorruptBlob):
        list(stored.store.read(record, 0, 0))


def test_missing_bytes_are_unavailable(stored: Stored, new_id: NewId) -> None:
    """Lost bytes are another error than changed ones, also for an empty range."""
    record = stored.store.write(new_id(), CONTENT)
    stored.damage(record.blob_id, lambda content: None)

    with pytest.raises(ArtifactUnavailable):
        next(stored.store.read(record))
    with pytest.raises(ArtifactUnavailable):
        list(stored.store.read(record, 0, 0))


def test_delete_may_be_repeated(stored: Stored, new_id: NewId) -> None:
    """Deleting is a step that a crash may leave half done."""
    kept, gone = stored.store.write(new_id(), b"kept"), stored.store.write(new_id(), b"gone")

    stored.store.delete(gone.blob_id)
    stored.store.delete(gone.blob_id)
    stored.store.delete(new_id())

    with pytest.raises(ArtifactUnavailable):
        stored.store.read_all(gone)
    assert b"kept" == stored.store.read_all(kept)
    assert [kept.blob_id] == list(stored.store.ids(FOREVER_MS))


def test_ids_gives_what_is_older(stored: Stored, new_id: NewId) -> None:
    """The sweep sees blobs last written before its moment and no others."""
    old = {stored.store.write(new_id(), b"x").blob_id for _ in range(5)}
    # A store may know the second alone in which something was written.
    moment_ms = (time.time_ns() // 1_000_000_000 + 1) * 1000
    time.sleep(moment_ms / 1000 - time.time() + 0.01)
    young = {stored.store.write(new_id(), b"x").blob_id for _ in range(5)}

    assert old == set(stored.store.ids(moment_ms))
    assert old | young == set(stored.store.ids(FOREVER_MS))


@pytest.mark.parametrize(
    "wrong", ["", "blob_", "../blob_x", "job_01jd00000000000000000000000", "blob_01JD" + "0" * 22]
)
def test_an_id_of_another_form_is_refused(stored: Stored, wrong: str) -> None:
    """No id can name a place outside the store."""
    with pytest.raises(ValueError, match="is not the id"):
        stored.store.write(wrong, b"x")
    with pytest.raises(ValueError, match="is not the id"):
        stored.store.delete(wrong)
    with pytest.raises(ValueError, match="is not the id"):
        stored.store.read_all(BlobRecord(wrong, 0, "", ""))


def test_a_store_has_one_id_for_ever(stored: Stored, new_id: Callable[[], str]) -> None:
    """The first that it is given; of many who give one at once, one does, and all learn which."""
    before = stored.store.store_id()
    ids = [new_id().replace("blob_", "store_") for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        answers = set(threads.map(stored.store.name_store, ids))

    assert before is None
    assert {stored.store.store_id()} == answers
    assert answers <= set(ids)
    assert [] == list(stored.store.ids(1 << 62))


def test_a_store_remembers_what_was_last_recorded_of_the_database(stored: Stored) -> None:
    """Nothing at first; it is replaced as a whole, and is no blob."""
    before = stored.store.newest()
    stored.store.record_newest(b"one")
    stored.store.record_newest(b"another, which is longer")

    assert (None, b"another, which is longer") == (before, stored.store.newest())
    assert [] == list(stored.store.ids(1 << 62))
