"""A database and its store of bytes get one id, whoever starts first and however many start at once."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tenuto.db.database import Database
from tenuto.errors import OperatorError
from tenuto.file import pairing
from tenuto.file.directory import DirectoryBlobs
from tenuto.ids import Ids

IDS = Ids(lambda: 1_800_000_000_000)


class Overtaken(DirectoryBlobs):
    """A store into which another process, having paired it, writes just before it is listed."""

    def __init__(self, root: Path, database: Database) -> None:
        super().__init__(root)
        self._database = database

    def ids(self, older_than_ms: int) -> Iterator[str]:
        other = DirectoryBlobs(self._root)
        pairing.pair(self._database, other, IDS, place="there", now_ms=1)
        other.write(IDS.new("blob"), b"a voice that has no row yet")
        yield from super().ids(older_than_ms)


def test_bytes_of_a_process_that_was_quicker_are_not_strange(database: Database, tmp_path: Path) -> None:
    """Of two first starts the slower one finds bytes that no row names yet, and the id that explains them."""
    pairing.pair(database, Overtaken(tmp_path / "blobs", database), IDS, place="here", now_ms=1)

    pairing.check(database, DirectoryBlobs(tmp_path / "blobs"), place="here")


def test_bytes_written_since_a_start_whose_store_was_away_are_its_own(
    database: Database, tmp_path: Path
) -> None:
    """A store that answers late finds the voices of this process, whose rows are not there yet; bytes from
    before its start are another database's all the same.
    """
    blobs = DirectoryBlobs(tmp_path / "blobs")
    blobs.write(IDS.new("blob"), b"a voice that has no row yet")
    now_ms = time.time_ns() // 1_000_000
    with pytest.raises(OperatorError, match="bytes of another database"):
        pairing.pair(database, blobs, IDS, place="here", now_ms=1, before_ms=now_ms + 1000)
    pairing.pair(database, blobs, IDS, place="here", now_ms=1, before_ms=now_ms - 60_000)

    pairing.check(database, blobs, place="here")
