"""A database that breaks off once, to be put in place of a real one."""

from collections.abc import Callable
from typing import Any

from tenuto.db.database import Database, Transaction
from tenuto.errors import CommitUnknown


class LostAnswer:
    """A database whose first write is stored but its answer lost: the connection broke in the commit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writes = 0

    async def write_async(self, operation: Callable[[Transaction], Any], *, account_id: str = "") -> Any:
        self.writes += 1
        done = await self._database.write_async(operation, account_id=account_id)
        if self.writes == 1:
            raise CommitUnknown
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)
