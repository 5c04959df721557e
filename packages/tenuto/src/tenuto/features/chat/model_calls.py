"""One call of a model, from before it is sent until after the answer: its hold, its charge and its usage.

A call of a model without a price is only counted, after the answer (`meter`). With a price, the most it can
cost is held before the model is called, and the usage is charged before the end of the answer is sent. A
write that the database does not accept at once is retried after the answer; if the process dies before that,
upkeep releases the hold.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.db.database import Database, Transaction
from tenuto.errors import Unavailable, is_of_the_machine
from tenuto.features.chat import priced_calls as billing
from tenuto.features.chat.answers import Usage
from tenuto.features.chat.meter import Meter
from tenuto.features.chat.rows import CallRow
from tenuto.features.history.rows import Used
from tenuto.ids import Clock, Ids
from tenuto.kind.model import MILLION_TOKENS, Model
from tenuto.logs import get_logger
from tenuto.money.rules import token_charge_micros

SETTLE_S = 5.0
"""How long an answer waits for its charge to be written; then it is sent, and the write is retried."""
RETRY_S = 1.0

_log = get_logger("tenuto.chat")


class ModelCall:
    """One call. It ends once: later ends are ignored. Used in the event loop only."""

    def __init__(self, calls: "Calls", caller: Caller, model: Model, call_id: str | None) -> None:
        self.charged_micros: int | None = None
        """The charge, once it is written; None: not yet, or the model has no price."""
        self._calls = calls
        self._caller = caller
        self._model = model
        self._call_id = call_id
        self.is_ended = False

    @property
    def has_price(self) -> bool:
        """Whether it can cost anything."""
        return self._call_id is not None

    async def settle(self, usage: Usage) -> None:
        """The model has answered: charge what it used."""
        if self._ends(usage) and self._call_id is not None:
            failpoints.hit("call.answered")
            writing = self._write_settlement(self._call_id, usage)
            await asyncio.wait((writing,), timeout=SETTLE_S)
            failpoints.hit("call.settled")

    def leave(self, usage: Usage) -> None:
        """The answer has no end, because of its caller or our limits: charge what was used so far."""
        if self._ends(usage) and self._call_id is not None:
            self._write_settlement(self._call_id, usage)

    def release(self, usage: Usage | None = None) -> None:
        """The call failed: charge nothing. `usage` is counted all the same."""
        if self._ends(usage) and self._call_id is not None:
            self._calls.write(
                self._call_id, _release(self._calls, self._call_id, usage), self._caller.account_id
            )

    def _ends(self, usage: Usage | None) -> bool:
        """Whether this ends the call; usage of a model without a price is counted here."""
        is_first, self.is_ended = not self.is_ended, True
        if is_first and self._call_id is None and usage is not None:
            self._calls.meter.note(self._caller.account_id, self._caller.key_id, self._model.name, usage)
        return is_first

    def _write_settlement(self, call_id: str, usage: Usage) -> "asyncio.Task[Any]":
        calls, used = self._calls, _used(usage)

        def settle(tx: Transaction) -> int | None:
            return billing.settle(tx, calls.ids, call_id, used, now_ms=calls.clock())

        writing = calls.write(call_id, settle, self._caller.account_id)
        writing.add_done_callback(self._note_charge)
        return writing

    def _note_charge(self, writing: "asyncio.Task[Any]") -> None:
        if not writing.cancelled():
            self.charged_micros = writing.result()


class Calls:
    """The calls of one process. Used in the event loop only."""

    def __init__(self, database: Database, ids: Ids, clock: Clock, meter: Meter) -> None:
        self.ids = ids
        self.clock = clock
        self.meter = meter
        self._database = database
        self._writing: set[asyncio.Task[Any]] = set()
        self._closing = False

    @asynccontextmanager
    async def begun(
        self, caller: Caller, model: Model, most: Usage, key: str | None = None
    ) -> AsyncIterator[ModelCall]:
        """A call for the duration of the block; it is released unless the block has ended it.

        `most` is the most it can use, `key` the caller's idempotency key for a priced call. Raises what
        `billing.begin` raises, and Unavailable if nothing can be held.
        """
        call_id = None
        if model.price.unit == MILLION_TOKENS:
            call_id = await self._hold(caller, model, most, key)
            failpoints.hit("call.held")
        call = ModelCall(self, caller, model, call_id)
        try:
            yield call
        finally:
            call.release()

    async def check(self, caller: Caller, model: Model, most: Usage, key: str | None) -> None:
        """Raise what `begun` would raise now, before the call takes anybody's place in a queue."""
        if model.price.unit == MILLION_TOKENS:
            row = self._row(caller, model, most, key)
            await self._database.read_async(lambda tx: billing.check(tx, row))

    async def close(self) -> None:
        """Write what is left, trying each once, as the database may be unavailable."""
        self._closing = True
        await self.meter.close()
        if self._writing:
            await asyncio.wait(self._writing)

    def write(
        self, call_id: str, operation: Callable[[Transaction], Any], account_id: str
    ) -> "asyncio.Task[Any]":
        """Run a write in the background, retrying until the database accepts it."""
        return self._begin(self._until_written(call_id, operation, account_id))

    async def _hold(self, caller: Caller, model: Model, most: Usage, key: str | None) -> str:
        call = self._row(caller, model, most, key)
        await self._writing_hold(call)
        return call.id

    def _row(self, caller: Caller, model: Model, most: Usage, key: str | None) -> CallRow:
        price = model.price
        return CallRow(
            id=self.ids.new("call"),
            account_id=caller.account_id,
            key_id=caller.key_id,
            model=model.name,
            state="open",
            input_price_micros=price.price_micros,
            output_price_micros=price.output_price_micros,
            hold_micros=token_charge_micros(price, most.prompt_tokens, most.completion_tokens),
            request_key=key,
        )

    async def _writing_hold(self, call: CallRow) -> None:
        """Raises what `begin` raises. A hold whose outcome is unknown, or not awaited, is released."""

        def hold(tx: Transaction) -> None:
            billing.begin(tx, self.ids, call, now_ms=self.clock())

        writing = asyncio.ensure_future(self._database.write_async(hold, account_id=call.account_id))
        try:
            await asyncio.shield(writing)
        except (asyncio.CancelledError, Unavailable):
            self._begin(self._release_after(writing, call))
            raise

    def _begin(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return task

    async def _release_after(self, writing: "asyncio.Future[None]", call: CallRow) -> None:
        await asyncio.wait((writing,))
        await self._until_written(call.id, _release(self, call.id, None), call.account_id)

    async def _until_written(
        self, call_id: str, operation: Callable[[Transaction], Any], account_id: str
    ) -> Any:
        while True:
            try:
                return await self._database.write_async(operation, account_id=account_id)
            except Exception as error:
                if not isinstance(error, Unavailable) and not is_of_the_machine(error):
                    # Upkeep releases its hold.
                    _log.exception("call.failed", call_id=call_id)
                    return None
                _log.warning("call.not_written", call_id=call_id, reason=str(error))
                if self._closing:
                    return None
                await asyncio.sleep(RETRY_S)


def _release(calls: Calls, call_id: str, usage: Usage | None) -> Callable[[Transaction], bool]:
    used = None if usage is None else _used(usage)
    return lambda tx: billing.release(tx, calls.ids, call_id, now_ms=calls.clock(), used=used)


def _used(usage: Usage) -> Used:
    return Used(1, usage.prompt_tokens, usage.completion_tokens, int(usage.is_estimated))
