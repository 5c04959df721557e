"""Backups in progress: until they end, condemned bytes are not removed.

A backup copies rows first and then the bytes that they refer to, so bytes erased in between must still exist.
Code that removes bytes checks for backups after condemning them (`file.store.has_backup`): a backup that
begins after that check sees them condemned in its rows and does not copy them.
"""

import msgspec

from tenuto.db import records
from tenuto.db.database import Transaction

DEAD_AFTER_S = 600.0
"""A backup whose row has not changed for this long is presumed dead. The time in the row is from the clock of
the backup's machine, and clocks need not agree: observers measure by their own monotonic clock.
"""


class BackupRow(msgspec.Struct, frozen=True):
    """A backup in progress: as long as the row exists, condemned bytes are not removed."""

    id: str
    """New for each backup; the row is removed when the backup is complete or has failed."""
    seen_at: int
    """Written every few seconds. If the process dies it stops changing, and upkeep removes the row."""


def begin(tx: Transaction, backup_id: str, *, now_ms: int) -> None:
    """Stop removals from the commit on. The snapshot is taken after it."""
    tx.run("insert into backup (id, started_at, seen_at) values (:id, :now, :now)", id=backup_id, now=now_ms)


def see(tx: Transaction, backup_id: str, *, now_ms: int) -> bool:
    """Record that the backup is alive; False: it was presumed dead, and bytes that it needs may be gone.

    Changes `seen_at` in any case, even if the clock was set back: the change is the heartbeat.
    """
    changed = tx.run(
        "update backup set seen_at = case when seen_at < :now then :now else seen_at + 1 end where id = :id",
        id=backup_id,
        now=now_ms,
    )
    return changed == 1


def end(tx: Transaction, backup_id: str) -> None:
    """Allow bytes to be removed again."""
    tx.run("delete from backup where id = :id", id=backup_id)


def under_way(tx: Transaction) -> list[BackupRow]:
    """All backups that have a row, whether or not their process is alive."""
    return records.all_records(tx, BackupRow, "select id, seen_at from backup order by id limit 1000")


def forget(tx: Transaction, backup_id: str, *, seen_at: int) -> bool:
    """Forget a backup whose process died; False: it has no row, or a heartbeat came after `seen_at`."""
    removed = tx.run(
        "delete from backup where id = :id and seen_at = :seen_at", id=backup_id, seen_at=seen_at
    )
    return removed == 1
