"""Writes whose outcome is unknown: done again once, and what is said if that tells nothing either."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tenuto.db.database import Database, Transaction
from tenuto.db.retrying import write_known_async
from tenuto.errors import ActUnknown, CommitUnknown, Unavailable


class Losing:
    """A database that commits a write, loses the answer, and is away from then on."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_away = False

    async def write_async(self, operation: Callable[[Transaction], Any], *, account_id: str = "") -> Any:
        if self._is_away:
            raise Unavailable
        self._is_away = True
        await self._database.write_async(operation, account_id=account_id)
        raise CommitUnknown


@pytest.mark.parametrize(("is_repeatable", "expected"), [(True, CommitUnknown), (False, ActUnknown)])
def test_an_outcome_that_stays_unknown_invites_only_harmless_repetition(
    empty_database: Database, is_repeatable: bool, expected: type[Unavailable]
) -> None:
    """What a repetition would do twice is answered with an error that asks the caller to look first."""

    def create(tx: Transaction) -> None:
        tx.run("create table note (id text primary key)")

    async def go() -> None:
        losing: Any = Losing(empty_database)
        await write_known_async(losing, create, is_repeatable=is_repeatable)

    with pytest.raises(CommitUnknown) as error:
        asyncio.run(go())

    assert type(error.value) is expected
    assert ("send the same request again" in error.value.message) == is_repeatable
