"""What chats used: recorded by account, key, model and day. Chat is metered and free: no money moves here."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from tenuto.billing import store
from tenuto.billing.rows import ChatUsageRow
from tenuto.db.database import Transaction


@dataclass(frozen=True, slots=True)
class Used:
    """What chats used together."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated_calls: int = 0
    """Calls whose tokens were estimated: their callers left before the model reported them."""

    def __add__(self, other: "Used") -> "Used":
        return Used(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.estimated_calls + other.estimated_calls,
        )


@dataclass(frozen=True, slots=True)
class Use:
    """Who used which model on which day (UTC, `2026-11-21`)."""

    account_id: str
    key_id: str
    model: str
    day: str


def day_of(now_ms: int) -> str:
    """The day in UTC of a moment in milliseconds."""
    return datetime.datetime.fromtimestamp(now_ms / 1000, datetime.UTC).date().isoformat()


def record_chats(tx: Transaction, uses: Mapping[str, tuple[Use, Used]]) -> None:
    """Append what was used, each record under its own id; an id that exists already counts once."""
    for usage_id, (use, used) in uses.items():
        store.add_chat_usage(
            tx,
            usage_id,
            account_id=use.account_id,
            key_id=use.key_id,
            model=use.model,
            day=use.day,
            calls=used.calls,
            prompt_tokens=used.prompt_tokens,
            completion_tokens=used.completion_tokens,
            estimated=used.estimated_calls,
        )


def chat_usage(
    tx: Transaction, account_id: str, *, since_day: str | None = None, until_day: str | None = None
) -> list[ChatUsageRow]:
    """An account's chats by day, model and key, newest day first; both days are included."""
    return store.chat_usage_by_day(
        tx, account_id, since_day=since_day or "0000-00-00", until_day=until_day or "9999-12-31"
    )
