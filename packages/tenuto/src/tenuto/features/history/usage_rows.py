"""Usage of chats, recorded by account, key, model and day. No money moves here."""

import datetime
from collections.abc import Mapping

from tenuto.db.database import Transaction
from tenuto.features.history import store
from tenuto.features.history.rows import ChatUsageRow, Use, Used


def day_of(now_ms: int) -> str:
    """The UTC day of a time in milliseconds."""
    return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).date().isoformat()


def record_chats(tx: Transaction, uses: Mapping[str, tuple[Use, Used]]) -> None:
    """Append usage records, each under its own id; a record that exists already is not counted twice."""
    for usage_id, (use, used) in uses.items():
        store.add_chat_usage(tx, usage_id, use, used)


def chat_usage(
    tx: Transaction, account_id: str, *, since_day: str | None = None, until_day: str | None = None
) -> list[ChatUsageRow]:
    """An account's chats by day, model and key, newest day first; both days are included."""
    return store.chat_usage_by_day(
        tx, account_id, since_day=since_day or "0000-00-00", until_day=until_day or "9999-12-31"
    )
