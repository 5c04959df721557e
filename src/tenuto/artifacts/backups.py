"""Backups under way: while there is one, condemned bytes stay where they are.

A backup copies rows first and then the bytes that they refer to; what is erased in between must still be
there. Whether one is under way is asked after a blob was condemned: a backup that begins after that question
sees the blob condemned in its rows, and does not want it.
"""

from tenuto.artifacts import backup_store as store
from tenuto.db.database import Transaction

DEAD_AFTER_MS = 600_000
"""A backup whose process has said nothing for so long holds nothing back any more."""


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


def forget_dead(tx: Transaction, *, now_ms: int) -> int:
    """Forget backups whose processes were killed; gives how many."""
    return store.remove_silent(tx, now_ms - DEAD_AFTER_MS)
