"""Whose turn it is to look for bytes and rows that nothing refers to."""

from tenuto.artifacts import store
from tenuto.db.database import Transaction

EVERY_MS = 3600 * 1000


def begin(tx: Transaction, worker_id: str, *, now_ms: int) -> bool:
    """True for the one worker whose turn it is; a beginning in the future is a wrong clock's, and counts for
    nothing."""
    return store.begin_sweep(tx, worker_id, began_before=now_ms - EVERY_MS, now_ms=now_ms) == 1
