"""The rows of backups under way. Takes a transaction, never commits, decides nothing."""

from tenuto.db.database import Transaction


def add(tx: Transaction, backup_id: str, now_ms: int) -> None:
    tx.run("insert into backup (id, started_at, seen_at) values (:id, :now, :now)", id=backup_id, now=now_ms)


def see(tx: Transaction, backup_id: str, now_ms: int) -> int:
    return tx.run("update backup set seen_at = :now where id = :id", id=backup_id, now=now_ms)


def remove(tx: Transaction, backup_id: str) -> None:
    tx.run("delete from backup where id = :id", id=backup_id)


def remove_silent(tx: Transaction, seen_before: int) -> int:
    return tx.run("delete from backup where seen_at < :before", before=seen_before)


def any_row(tx: Transaction) -> bool:
    return tx.one("select 1 as one from backup limit 1") is not None
