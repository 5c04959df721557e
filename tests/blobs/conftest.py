"""Every store of blobs, and a way to damage what it holds: a store added here runs the whole suite."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tenuto.blobs.blob import BlobStore
from tenuto.blobs.directory import DirectoryBlobs
from tenuto.ids import Ids


@dataclass(frozen=True)
class Stored:
    """A store under test, and hands on the bytes behind its back."""

    store: BlobStore
    # Replaces the stored bytes of a blob by what the function makes of them; None removes them.
    damage: Callable[[str, Callable[[bytes], bytes | None]], None]
    # Makes a blob look as if it was last written at this moment, in milliseconds.
    set_written_at: Callable[[str, int], None]


def directory(folder: Path) -> Stored:
    """A folder of files."""

    def place(blob_id: str) -> Path:
        return folder / "blobs" / blob_id[-2:] / blob_id

    def damage(blob_id: str, change: Callable[[bytes], bytes | None]) -> None:
        changed = change(place(blob_id).read_bytes())
        if changed is None:
            place(blob_id).unlink()
        else:
            place(blob_id).write_bytes(changed)

    def set_written_at(blob_id: str, at_ms: int) -> None:
        os.utime(place(blob_id), ns=(at_ms * 1_000_000, at_ms * 1_000_000))

    return Stored(DirectoryBlobs(folder / "blobs"), damage, set_written_at)


@pytest.fixture(params=[directory], ids=["directory"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    """An empty store of each sort."""
    made: Stored = request.param(tmp_path)
    return made


@pytest.fixture
def new_id() -> Callable[[], str]:
    """A fresh blob id at each call."""
    ids = Ids(clock=lambda: 1_700_000_000_000)
    return lambda: ids.new("blob")
