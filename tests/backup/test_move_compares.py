"""What a move finds when the new place changes under it: nothing is believed that is not read again."""

import re
from pathlib import Path

import pytest

from jobs.world import World
from tenuto.backup.move import Side, carry_out
from tenuto.blobs.directory import DirectoryBlobs
from tenuto.db.database import Database, open_database
from tenuto.errors import OperatorError


@pytest.mark.parametrize("fault", ["bytes", "row"])
def test_what_changes_after_it_was_brought_stops_a_move(
    database: Database, tmp_path: Path, fault: str
) -> None:
    """A flipped bit, or another row, after the last write and before the comparison: no move (P21)."""
    world, here, there = World(database), tmp_path / "here" / "blobs", tmp_path / "there" / "blobs"
    world.slots(1)
    claim, blobs = world.running(), DirectoryBlobs(here)
    record = blobs.write(world.ids.new("blob"), b"sound")
    world.record(claim.attempt_id, world.result(blob=record))
    world.succeed(claim.attempt_id)
    target = open_database(f"sqlite:///{tmp_path}/there/tenuto.db")

    def change(said: str) -> None:
        if not said.startswith("all rows are there"):
            return
        [file] = there.glob(f"*/{record.blob_id}")
        file.chmod(0o600)
        if fault == "bytes":
            file.write_bytes(b"sounD")
        else:
            target.write(lambda tx: tx.do("update account set name = 'another'"))

    told = {"bytes": "1 blobs did not arrive whole", "row": "these tables differ: account (1 and 1 rows)"}
    with pytest.raises(OperatorError, match=re.escape(told[fault])):
        carry_out(tmp_path, Side(database, blobs), Side(target, DirectoryBlobs(there)), tell=change)
    target.close()
