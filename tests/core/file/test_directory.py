"""Blobs in a folder: what a full disk, a broken folder and `kill -9` leave behind."""

import errno
import itertools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenuto.errors import ArtifactUnavailable, StorageFailed, StoreUnreachable
from tenuto.file.blob import IDENTITY, NEWEST
from tenuto.file.directory import DirectoryBlobs

NewId = Callable[[], str]
FOREVER_MS = 10**14

# Writes a blob whose content never ends, says so after the first megabyte, and waits to be killed.
ENDLESS = """
import sys
from pathlib import Path
from tenuto.file.directory import DirectoryBlobs
def content():
    yield bytes(1 << 20)
    print("writing", flush=True)
    sys.stdin.read()
DirectoryBlobs(Path(sys.argv[1])).write(sys.argv[2], content())
"""


@contextmanager
def no_file_longer_than(limit_bytes: int) -> Iterator[None]:
    """The kernel refuses to write beyond this, as it does on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def test_a_disk_that_fills_up_stores_nothing(tmp_path: Path, new_id: NewId) -> None:
    """StorageFailed in the middle of a write leaves no file, and the id can be written later."""
    blobs, blob_id = DirectoryBlobs(tmp_path), new_id()

    with no_file_longer_than(1 << 20), pytest.raises(StorageFailed):
        blobs.write(blob_id, (bytes(700_000) for _ in range(3)))

    assert [] == files(tmp_path)
    assert bytes(5) == blobs.read_all(blobs.write(blob_id, bytes(5)))


def test_bytes_are_durable_before_they_have_their_name(
    tmp_path: Path, new_id: NewId, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new shard's name, the bytes, the rename, the folder with the new name: fsynced in this order."""
    blobs, blob_id, steps = DirectoryBlobs(tmp_path), new_id(), []
    fsync, rename = os.fsync, os.rename

    def seen_fsync(descriptor: int) -> None:
        steps.append(("fsync", Path(f"/proc/self/fd/{descriptor}").readlink().name))
        fsync(descriptor)

    def seen_rename(old: Path, new: Path) -> None:
        steps.append(("rename", new.name))
        rename(old, new)

    monkeypatch.setattr(os, "fsync", seen_fsync)
    monkeypatch.setattr(os, "rename", seen_rename)
    blobs.write(blob_id, b"x")
    written = [*steps]
    steps.clear()
    blobs.delete(blob_id)

    shard = blob_id[-2:]
    unfinished = ("fsync", f"{blob_id}.tmp")
    assert [("fsync", tmp_path.name), unfinished, ("rename", blob_id), ("fsync", shard)] == written
    assert [("fsync", shard)] == steps


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_failed_fsync_stores_nothing(
    tmp_path: Path, new_id: NewId, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The kernel reports a lost write at fsync, once: of the root, the bytes or the folder, it is the end."""
    blobs, blob_id, calls = DirectoryBlobs(tmp_path), new_id(), itertools.count(1)
    fsync = os.fsync

    def fail_once(descriptor: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_once)

    with pytest.raises(StorageFailed):
        blobs.write(blob_id, b"x")

    assert [] == files(tmp_path)
    assert b"x" == blobs.read_all(blobs.write(blob_id, b"x"))


def test_a_killed_write_is_seen_by_the_sweep(tmp_path: Path, new_id: NewId) -> None:
    """After `kill -9` there is no blob, the sweep gets the id, and deleting it removes the rest."""
    blobs, blob_id = DirectoryBlobs(tmp_path), new_id()
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, tmp_path, blob_id], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert b"writing\n" == writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    assert [f"{blob_id}.tmp"] == [path.name for path in files(tmp_path)]

    swept = list(blobs.ids(FOREVER_MS))
    blobs.delete(blob_id)

    assert [blob_id] == swept
    assert [] == files(tmp_path)


def test_a_folder_that_cannot_be_written_is_a_storage_failure(tmp_path: Path, new_id: NewId) -> None:
    """A file where a folder should be: nothing but StorageFailed and ArtifactUnavailable comes out."""
    blobs, blob_id = DirectoryBlobs(tmp_path / "blobs"), new_id()
    record = blobs.write(blob_id, b"x")
    (tmp_path / "blobs" / blob_id[-2:]).rename(tmp_path / "aside")
    (tmp_path / "blobs" / blob_id[-2:]).write_bytes(b"")

    with pytest.raises(StorageFailed):
        DirectoryBlobs(tmp_path / "blobs").write(blob_id, b"x")
    with pytest.raises(ArtifactUnavailable):
        blobs.read_all(record)
    with pytest.raises(StorageFailed):
        DirectoryBlobs(tmp_path / "aside" / blob_id)


def test_what_cannot_be_read_is_not_taken_for_missing(tmp_path: Path) -> None:
    """A store whose identity is out of reach is no new store, which would be given another one (P5)."""
    blobs = DirectoryBlobs(tmp_path)
    assert (None, None) == (blobs.store_id(), blobs.newest())
    for name, read in ((IDENTITY, blobs.store_id), (NEWEST, blobs.newest)):
        (tmp_path / name).mkdir()
        with pytest.raises(StoreUnreachable):
            read()


def test_a_link_in_the_place_of_a_blob_is_not_followed(tmp_path: Path, new_id: NewId) -> None:
    """What somebody links into the folder is not read out as a blob."""
    blobs = DirectoryBlobs(tmp_path / "blobs")
    record = blobs.write(new_id(), b"secret")
    place = tmp_path / "blobs" / record.blob_id[-2:] / record.blob_id
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ArtifactUnavailable):
        blobs.read_all(record)


def test_files_of_others_are_no_blobs(tmp_path: Path, new_id: NewId) -> None:
    """What else lies in the folder is not offered to the sweep."""
    blobs = DirectoryBlobs(tmp_path)
    blob_id = blobs.write(new_id(), b"").blob_id
    (tmp_path / "README").write_text("")
    (tmp_path / blob_id[-2:] / "notes.tmp").write_text("")

    assert [blob_id] == list(blobs.ids(FOREVER_MS))
