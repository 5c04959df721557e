"""What the deep audit takes of memory."""

import tracemalloc
from collections.abc import Iterable
from pathlib import Path

from servers.world import World
from tenuto.db.database_opening import open_database
from tenuto.db.migrations import migrate
from tenuto.features.audit.deep import Rehashed, rehash
from tenuto.file import operations as artifacts
from tenuto.file.blob import BLOCK_BYTES
from tenuto.file.directory import DirectoryBlobs


def test_memory_does_not_grow_with_the_bytes(tmp_path: Path) -> None:
    """A blob of 64 MiB is hashed block by block (P14)."""

    def content() -> Iterable[bytes]:
        return (bytes(BLOCK_BYTES) for _ in range(64))

    database = open_database(f"sqlite:///{tmp_path}/tenuto.db")
    migrate(database)
    world, blobs = World(database, tmp_path), DirectoryBlobs(tmp_path / "blobs")
    large = blobs.write(world.ids.new("blob"), content())
    world.write(lambda tx: artifacts.add_blob(tx, large, now_ms=world.now_ms))
    tracemalloc.start()
    findings = list(rehash(world.database, blobs, Rehashed(), now_ms=world.now_ms))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    database.close()

    assert [] == findings
    assert peak_bytes < 8 * BLOCK_BYTES
