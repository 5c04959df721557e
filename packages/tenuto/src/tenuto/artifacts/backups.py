"""Backups under way: while there is one, condemned bytes stay where they are.

A backup copies rows first and then the bytes that they refer to; what is erased in between must still be
there. Whether one is under way is asked after a blob was condemned: a backup that begins after that question
sees the blob condemned in its rows, and does not want it.
"""

from tenuto.artifacts import backup_store as store
from tenuto.artifacts.rows import BackupRow
from tenuto.db.database import Transaction

DEAD_AFTER_S = 600.0
"""A backup whose row has not changed for so long holds nothing back any more. What is in the row is the time
on its own machine's clock, and clocks need not agree: observers count by their own monotonic clock.
"""


def begin(tx: Transaction, backup_id: str, *, now_ms: int) -> None:
    """From the commit on nothing is removed. The snapshot is taken after it."""
    store.add(tx, backup_id, now_ms)


def see(tx: Transaction, backup_id: str, *, now_ms: int) -> bool:
    """The backup goes on; False: it was taken for dead, and bytes that it wants may be gone."""
    return store.see(tx, backup_id, now_ms) == 1


def end(tx: Transaction, backup_id: str) -> None:
    """Bytes may be removed again."""
    store.remove(tx, backup_id)


def is_under_way(tx: Transaction) -> bool:
    """Whether condemned bytes must stay for now."""
    return store.any_row(tx)


def under_way(tx: Transaction) -> list[BackupRow]:
    """Those whose rows are there, whether or not their processes live."""
    return store.backups(tx)


def forget(tx: Transaction, backup_id: str, *, seen_at: int) -> bool:
    """Forget a backup whose process was killed; False: it is gone, or has beaten since `seen_at` was read."""
    return store.remove_silent(tx, backup_id, seen_at) == 1
