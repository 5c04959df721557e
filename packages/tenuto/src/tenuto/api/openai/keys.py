"""The idempotency key of a request to OpenAI's routes: the caller's, or one of ours that a retry finds."""

import asyncio
import hashlib
import json
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from tenuto.api import request_body
from tenuto.api.body import ClientGone
from tenuto.api.call import Call
from tenuto.errors import InsufficientBalance, InvalidRequest
from tenuto.jobs.submit import newest_key

JOIN_MS = 15 * 60_000
"""How long a declared retry without a key may join the job of the same request."""


@asynccontextmanager
async def request_key(call: Call, route: str, work: Any) -> AsyncIterator[tuple[str, bool]]:
    """The key of the first job of this request, and whether the caller chose it; accept it in the block.

    `work`, as JSON, is all that makes two requests the same. Retries of a request without a key wait until
    the block ends. InvalidRequest: the caller's key is not one. ClientGone.
    """
    faults: list[Any] = []
    chosen = request_body.idempotency_key(call, faults)
    if faults:
        raise InvalidRequest(faults)
    with quota_errors():
        if chosen is not None:
            yield f"{route}:{chosen}", True
            return
        async with _own(call, route, work) as key:
            yield key, False


@contextmanager
def quota_errors() -> Iterator[None]:
    """InsufficientBalance is answered as OpenAI does: `insufficient_quota`."""
    try:
        yield
    except InsufficientBalance as error:
        error.is_for_a_program = True
        raise


@asynccontextmanager
async def _own(call: Call, route: str, work: Any) -> AsyncIterator[str]:
    assert call.caller is not None, "requests are authenticated first"
    stem, is_retry = _stem(route, work), _is_declared_retry(call)
    async with call.service.openai.accepting(f"{call.caller.key_id} {stem}", after_others=is_retry):
        key = await _own_key(call, stem, is_retry=is_retry)
        if has_left(call):
            # Its retry may be here already, and could not know this job.
            raise ClientGone
        yield key


def has_left(call: Call) -> bool:
    """Whether the client has left, or closed its half, which may be the same."""
    closed: asyncio.Event | None = call.scope.get("half_closed")
    return call.is_gone() or (closed is not None and closed.is_set())


def _stem(route: str, work: Any) -> str:
    """How the keys of all requests for the same begin, of one API key."""
    digest = hashlib.sha256(f"{route}\n{json.dumps(work, sort_keys=True)}".encode()).digest()
    return f"openai{int.from_bytes(digest[:16], 'big'):039d}"


async def _own_key(call: Call, stem: str, *, is_retry: bool) -> str:
    """The key of a request without one: a new one, or of the job that a declared retry means.

    Made of digits, so that every database's collation orders keys of one work by their moment.
    """
    service = call.service
    now_ms = service.clock()
    if is_retry:
        assert call.caller is not None, "requests are authenticated first"
        caller, since = call.caller, f"{stem}{now_ms - JOIN_MS:013d}"
        bound = await service.database.read_async(
            lambda tx: newest_key(tx, caller, since, f"{stem}{'9' * 23}")
        )
        if bound is not None and not service.openai.was_answered(bound.job_id):
            # The jobs of one request have keys that begin with that of its first.
            return bound.idempotency_key.partition("/")[0]
    return f"{stem}{now_ms:013d}{secrets.randbelow(10**10):010d}"


def _is_declared_retry(call: Call) -> bool:
    """Whether OpenAI's SDK says that it has sent this request before."""
    count = call.header(b"x-stainless-retry-count") or b"0"
    return count.isdigit() and int(count[:9]) > 0
