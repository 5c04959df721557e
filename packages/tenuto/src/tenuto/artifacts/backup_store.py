"""The rows of backups under way. Takes a transaction, never commits, decides nothing."""

from tenuto.artifacts.rows import BackupRow
from tenuto.db import records
from tenuto.db.database import Transaction


def add(tx: Transaction, backup_id: str, now_ms: int) -> None:
    tx.run("insert into backup (id, started_at, seen_at) values (:id, :now, :now)", id=backup_id, now=now_ms)


def see(tx: Transaction, backup_id: str, now_ms: int) -> int:
    """The value always changes, also where the clock was set back: the change is the beat."""
    return tx.run(
        "update backup set seen_at = case when seen_at < :now then :now else seen_at + 1 end where id = :id",
        id=backup_id,
        now=now_ms,
    )


def remove(tx: Transaction, backup_id: str) -> None:
    tx.run("delete from backup where id = :id", id=backup_id)


def remove_silent(tx: Transaction, backup_id: str, seen_at: int) -> int:
    return tx.run("delete from backup where id = :id and seen_at = :seen_at", id=backup_id, seen_at=seen_at)


def backups(tx: Transaction) -> list[BackupRow]:
    return records.all_records(tx, BackupRow, "select id, seen_at from backup order by id limit 1000")


def any_row(tx: Transaction) -> bool:
    return tx.one("select 1 as one from backup limit 1") is not None
