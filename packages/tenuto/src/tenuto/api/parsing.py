"""JSON bodies on their way from bytes to a value: small ones at once, large ones in a thread in turn.

Reading a body costs the interpreter, which all threads share. So what counts is that it is little: the values
of a body are counted before it is read, and one account has one large body read at a time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from tenuto import strict_json
from tenuto.api.call import Call
from tenuto.errors import RateLimited

T = TypeVar("T")

AT_ONCE_BYTES = 64 * 1024
"""The largest body that is read in the event loop."""
MAX_WAITING = 8
"""Larger ones of an account, which stand in memory until it is their turn."""
MAX_VALUES = 2_000
"""In a body, but for chats: a job with everything that it may have has a few hundred."""
MAX_CHAT_VALUES = 10_000
"""Three for each message: the object, its role, its content."""


async def parse(call: Call, body: bytes, *, max_values: int = MAX_VALUES) -> Any:
    """The value of a body, read strictly. InvalidRequest, RateLimited."""
    return await beside_large(call, body, partial(strict_json.parse, body, max_values=max_values))


async def beside_large(call: Call, body: bytes, work: Callable[[], T]) -> T:
    """Work on a body whose caller is known: at once, or in a thread where the body is large."""
    if len(body) <= AT_ONCE_BYTES:
        return work()
    caller = call.caller
    if caller is not None and call.service.parsers.waiting(caller.account_id) >= MAX_WAITING:
        raise RateLimited(
            f"{MAX_WAITING} bodies beyond {AT_ONCE_BYTES >> 10} KiB of this account wait to be read, "
            "as many as may",
            limit="large_bodies",
        )
    return await call.beside(call.service.parsers, work)
