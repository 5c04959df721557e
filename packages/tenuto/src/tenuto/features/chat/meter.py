"""Counts the usage of chats and writes it after the answers, so that no answer waits for the disk.

The usage of several chats of a key between two writes becomes one row. It is lost only if the process dies,
not while the database is unavailable.
"""

import asyncio
from collections.abc import Callable

from tenuto.db.database import Database, Transaction
from tenuto.errors import Unavailable, is_of_the_machine
from tenuto.features.chat.answers import Usage
from tenuto.features.history import usage_rows as billing
from tenuto.features.history.rows import Use, Used
from tenuto.features.history.usage_rows import day_of
from tenuto.ids import Clock, Ids
from tenuto.logs import get_logger

# The delay before a write, which includes everything noted until then.
FLUSH_S = 0.05
RETRY_S = 1.0
# The most entries that wait for the database; beyond that, the oldest are logged and dropped.
MAX_WAITING = 10_000

_log = get_logger("tenuto.chat")


class Meter:
    """The counts of one process that are not written yet. Used in the event loop only."""

    def __init__(self, database: Database, ids: Ids, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._waiting: dict[Use, Used] = {}
        self._writing: asyncio.Task[None] | None = None
        self._closing = False

    def note(self, account_id: str, key_id: str, model: str, usage: Usage) -> None:
        """Count a call that has ended."""
        use = Use(account_id, key_id, model, day_of(self._clock()))
        used = Used(1, usage.prompt_tokens, usage.completion_tokens, int(usage.is_estimated))
        self._waiting[use] = self._waiting.get(use, Used()) + used
        if len(self._waiting) > MAX_WAITING:
            lost = self._waiting.pop(next(iter(self._waiting)))
            _log.error("chat_usage.forgotten", calls=lost.calls)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    async def close(self) -> None:
        """Write what is left, trying once, as the database may be unavailable."""
        self._closing = True
        if self._writing is not None:
            await self._writing

    async def _write(self) -> None:
        try:
            while self._waiting:
                if not self._closing:
                    await asyncio.sleep(FLUSH_S)
                taken, self._waiting = self._waiting, {}
                await self._store({self._ids.new("usage"): (use, used) for use, used in taken.items()})
        finally:
            self._writing = None

    async def _store(self, uses: dict[str, tuple[Use, Used]]) -> None:
        """Retry until written, under the same ids, so that a write whose outcome is unknown counts once."""
        while True:
            try:
                await self._database.write_async(_recording(uses))
                return
            except Exception as error:
                if not isinstance(error, Unavailable) and not is_of_the_machine(error):
                    # An entry that cannot be written must not delay those after it.
                    _log.exception("chat_usage.forgotten", calls=sum(used.calls for _, used in uses.values()))
                    return
                _log.warning("chat_usage.not_written", rows=len(uses), reason=str(error))
                if self._closing:
                    return
                await asyncio.sleep(RETRY_S)


def _recording(uses: dict[str, tuple[Use, Used]]) -> Callable[[Transaction], None]:
    return lambda tx: billing.record_chats(tx, uses)
