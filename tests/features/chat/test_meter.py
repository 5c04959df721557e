"""Counting what chats used: once each, also while the database is away."""

import asyncio

from servers.lost_answer import LostAnswer
from tenuto.account import operations as accounts
from tenuto.db.database import Database
from tenuto.features.chat.answers import Usage
from tenuto.features.chat.meter import Meter
from tenuto.features.history import usage_rows as billing
from tenuto.features.history.rows import ChatUsageRow
from tenuto.ids import Ids

NOW_MS = 1_795_219_199_999


def account(database: Database) -> str:
    ids = Ids(lambda: NOW_MS)
    return database.write(lambda tx: accounts.create_account(tx, ids, name="ann", now_ms=NOW_MS))


def recorded(database: Database, account_id: str) -> list[ChatUsageRow]:
    return database.read(lambda tx: billing.chat_usage(tx, account_id))


def test_calls_of_a_key_are_summed_by_model_and_day(database: Database) -> None:
    """Each account, key, model and day has its sums; days are in UTC, the newest first."""
    account_id = account(database)
    moments = [NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS]

    async def scenario() -> None:
        meter = Meter(database, Ids(lambda: NOW_MS), lambda: moments.pop(0))
        meter.note(account_id, "key_1", "a/b", Usage(3, 4))
        meter.note(account_id, "key_1", "a/b", Usage(1, 1))
        meter.note(account_id, "key_1", "a/b", Usage(5, 0))
        meter.note(account_id, "key_2", "a/b", Usage(7, 8, is_estimated=True))
        await meter.close()

    asyncio.run(scenario())

    assert [
        ChatUsageRow("a/b", "key_1", "2026-11-21", 1, 5, 0, 0, 0),
        ChatUsageRow("a/b", "key_1", "2026-11-20", 2, 4, 5, 0, 0),
        ChatUsageRow("a/b", "key_2", "2026-11-20", 1, 7, 8, 1, 0),
    ] == recorded(database, account_id)


def test_a_write_of_unknown_outcome_counts_once(database: Database) -> None:
    """The row has its id before it is written, so writing it again changes nothing."""
    account_id = account(database)
    interrupted = LostAnswer(database)

    async def scenario() -> None:
        meter = Meter(interrupted, Ids(lambda: NOW_MS), lambda: NOW_MS)
        meter.note(account_id, "key_1", "a/b", Usage(3, 4))
        while interrupted.writes < 2:
            await asyncio.sleep(0.01)
        await meter.close()

    asyncio.run(scenario())

    [row] = recorded(database, account_id)
    assert (1, 3, 4) == (row.calls, row.prompt_tokens, row.completion_tokens)
