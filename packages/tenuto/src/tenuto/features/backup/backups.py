"""Backups in progress: until they end, condemned bytes are not removed.

A backup copies rows first and then the bytes that they refer to, so bytes erased in between must still exist.
Code that removes bytes checks for backups after condemning them: a backup that begins after that check sees
them condemned in its rows and does not copy them.
"""

from tenuto.db.database import Transaction
from tenuto.file import store
from tenuto.file.rows import BackupRow

DEAD_AFTER_S = 600.0
"""A backup whose row has not changed for this long is presumed dead. The time in the row is from the clock of
the backup's machine, and clocks need not agree: observers measure by their own monotonic clock.
"""


def begin(tx: Transaction, backup_id: str, *, now_ms: int) -> None:
    """Stop removals from the commit on. The snapshot is taken after it."""
    store.add_backup(tx, backup_id, now_ms)


def see(tx: Transaction, backup_id: str, *, now_ms: int) -> bool:
    """Record that the backup is alive; False: it was presumed dead, and bytes that it needs may be gone."""
    return store.see_backup(tx, backup_id, now_ms) == 1


def end(tx: Transaction, backup_id: str) -> None:
    """Allow bytes to be removed again."""
    store.remove_backup(tx, backup_id)


def is_under_way(tx: Transaction) -> bool:
    """Whether condemned bytes must stay for now."""
    return store.has_backup(tx)


def under_way(tx: Transaction) -> list[BackupRow]:
    """All backups that have a row, whether or not their process is alive."""
    return store.backups(tx)


def forget(tx: Transaction, backup_id: str, *, seen_at: int) -> bool:
    """Forget a backup whose process died; False: it has no row, or a heartbeat came after `seen_at`."""
    return store.remove_silent_backup(tx, backup_id, seen_at) == 1
