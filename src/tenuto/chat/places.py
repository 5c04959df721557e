"""Places at a model: so many chats are answered at once, so many wait for their turn, the rest is refused."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenuto.errors import RateLimited

RETRY_AFTER_S = 5


class Places:
    """First come, first served. `waiting_limit` 0 lets any number wait."""

    def __init__(self, places: int, waiting_limit: int) -> None:
        self._free = places
        self._waiting_limit = waiting_limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """A place while the block lasts. RateLimited when as many wait as may."""
        await self._take()
        try:
            yield
        finally:
            self._give_back()

    async def _take(self) -> None:
        if self._free:
            self._free -= 1
            return
        if self._waiting_limit and len(self._waiting) >= self._waiting_limit:
            raise RateLimited(
                f"{len(self._waiting)} chats wait for this model, as many as may; send this one again later",
                retry_after_s=RETRY_AFTER_S,
                limit="queued_chats",
            )
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place came as we left: the next one has it.
                self._give_back()
            else:
                self._waiting.remove(turn)
            raise

    def _give_back(self) -> None:
        """To whoever has waited longest, else it is free; a place is never both."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
