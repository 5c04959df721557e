"""Places at a model: so many chats are answered at once, so many wait for their turn, the rest is refused.

Accounts take turns: a place that is free goes to the account whose turn it is, and within an account to who
came first. When as many wait as may, an account with fewer of them takes the place of the last that came of
the account with the most, so that nobody can keep the others out by asking often.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tenuto.errors import RateLimited

RETRY_AFTER_S = 5


class ChatSlots:
    """The places at one model, in one event loop. `waiting_limit` 0 lets any number wait."""

    def __init__(self, places: int, waiting_limit: int) -> None:
        self._free = places
        self._waiting_limit = waiting_limit
        # By account, the one whose turn is next first; an account without a chat that waits has no entry.
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def taken(self, account_id: str) -> AsyncIterator[None]:
        """A place while the block lasts. RateLimited when as many wait as may, also while it waits itself."""
        await self._take(account_id)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, account_id: str) -> None:
        if self._free:
            self._free -= 1
            return
        if self._waiting_limit and self._count() >= self._waiting_limit:
            self._make_room(account_id)
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The place came as we left: the next one has it.
                self._give_back()
            else:
                self._leave(account_id, turn)
            raise

    def _count(self) -> int:
        return sum(len(turns) for turns in self._waiting.values())

    def _make_room(self, account_id: str) -> None:
        """Refuse the last one of the account that has the most waiting, unless that is no better off."""
        busiest = max(self._waiting, key=lambda each: len(self._waiting[each]))
        if len(self._waiting[busiest]) <= len(self._waiting.get(account_id, ())) + 1:
            raise self._refusal()
        turn = self._waiting[busiest][-1]
        self._leave(busiest, turn)
        if not turn.done():
            turn.set_exception(self._refusal())

    def _refusal(self) -> RateLimited:
        return RateLimited(
            f"{self._waiting_limit} chats wait for this model, its limit; send this one again later",
            retry_after_s=RETRY_AFTER_S,
            limit="queued_chats",
        )

    def _leave(self, account_id: str, turn: "asyncio.Future[None]") -> None:
        turns = self._waiting.get(account_id)
        if turns is None or turn not in turns:
            return
        turns.remove(turn)
        if not turns:
            del self._waiting[account_id]

    def _give_back(self) -> None:
        """To the account whose turn it is, else it is free; a place is never both."""
        while self._waiting:
            account_id, turns = next(iter(self._waiting.items()))
            turn = turns.popleft()
            if turns:
                self._waiting.move_to_end(account_id)
            else:
                del self._waiting[account_id]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
