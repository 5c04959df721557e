"""The idempotency key of a request to OpenAI's routes: the caller's, or one of ours that a retry finds."""

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from typing import Any

from msgspec import Struct

from tenuto import strict_json
from tenuto.api import json_body
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.db.database import Transaction
from tenuto.errors import InsufficientBalance, InvalidRequest
from tenuto.features.openai import requests as openai
from tenuto.features.openai.requests import OpenRequests
from tenuto.job import read
from tenuto.job.jobs_sql import NewestKey
from tenuto.job.states import CANCELLED
from tenuto.job.submit import Accepted, Request, find_accepted_async, newest_key

JOIN_MS = 15 * 60_000
"""How long a declared retry without a key may join the job of the same request."""
CLOCKS_MS = 1000
"""How far two machines' clocks may differ: a retry may seem to precede the request that it repeats."""
_RETRIED = "9"
"""Precedes the time in a key made by a declared retry, so that it sorts after all others."""


class RequestKey(Struct, frozen=True):
    """The key of the first job of a request."""

    first: str
    is_callers: bool
    """Whether the caller chose it."""
    is_retry: bool = False
    """Whether a client without a key has declared that it sent the request before."""
    tries: "_Tries | None" = None

    def of(self, number: int) -> str:
        """The key of one of its jobs, numbered from 0."""
        return _numbered(self.first, number)

    def join(self, number: int) -> Callable[[Transaction], str | None] | None:
        """Finds the job's key if another try of the request was accepted first (see `submit.Request`)."""
        tries = self.tries
        if tries is None:
            return None

        def find(tx: Transaction) -> str | None:
            first = tries.find(tx)
            return None if first is None else _numbered(first, number)

        return find


@asynccontextmanager
async def request_key(call: Call, route: str, sent: Any) -> AsyncIterator[RequestKey]:
    """The key of the first job of this request; accept the request inside the block.

    `sent`, as JSON, is what identifies a request: the fields as the client sent them, without those that only
    concern the form of the answer. What a name stands for may change before a retry. Retries of a request
    without a key wait until the block ends. InvalidRequest: the caller's key is malformed. ClientGone.
    """
    faults: list[Any] = []
    chosen = json_body.idempotency_key(call, faults)
    if faults:
        raise InvalidRequest(faults)
    with quota_errors():
        if chosen is not None:
            yield RequestKey(f"{route}:{chosen}", is_callers=True)
            return
        async with _own(call, route, sent) as key:
            yield key


async def find_earlier(call: Call, key: RequestKey, sent: Any) -> list[Accepted]:
    """The jobs that this request has made already; none if it is new. IdempotencyConflict."""
    if not key.is_callers and not key.is_retry:
        return []
    digest = strict_json.body_sha256(sent)
    return await _find(call, ((key.of(number), digest) for number in count()))


async def _find(call: Call, keys: Iterable[tuple[str, str]]) -> list[Accepted]:
    """The jobs of these keys and digests, up to the first key that is free. IdempotencyConflict."""
    assert call.caller is not None, "requests are authenticated first"
    found: list[Accepted] = []
    for key, digest in keys:
        request = Request(call.caller, key, "", digest, None, call.origin())
        accepted = await find_accepted_async(call.service.submitting, request)
        if accepted is None:
            break
        found.append(accepted)
    return found


@contextmanager
def quota_errors() -> Iterator[None]:
    """Makes InsufficientBalance be answered as OpenAI does: `insufficient_quota`."""
    try:
        yield
    except InsufficientBalance as error:
        error.is_for_a_program = True
        raise


@asynccontextmanager
async def _own(call: Call, route: str, sent: Any) -> AsyncIterator[RequestKey]:
    assert call.caller is not None, "requests are authenticated first"
    stem, is_retry = _stem(route, sent), _is_declared_retry(call)
    requests = call.service.part(OpenRequests)
    async with requests.accepting(f"{call.caller.key_id} {stem}", after_others=is_retry):
        tries = _Tries(call, stem, is_retry=is_retry)
        # Looked up here too, so that nothing is decoded for a job that exists already.
        before = await call.service.database.read_async(tries.find) if is_retry else None
        key = RequestKey(before or tries.new_key(), is_callers=False, is_retry=is_retry, tries=tries)
        if has_left(call):
            # Its retry may have arrived already, and could not know this job.
            raise ClientGone
        yield key


def has_left(call: Call) -> bool:
    """Whether the client has left, or half-closed the connection, which may mean the same."""
    closed: asyncio.Event | None = call.scope.get("half_closed")
    return call.is_gone() or (closed is not None and closed.is_set())


def _stem(route: str, work: Any) -> str:
    """The prefix that all keys for the same work have, within one API key."""
    digest = hashlib.sha256(
        f"{route}\n{json.dumps(strict_json.by_value(work), sort_keys=True)}".encode()
    ).digest()
    return f"openai{int.from_bytes(digest[:16], 'big'):039d}"


def _numbered(first: str, number: int) -> str:
    """The key of a further job: its number stands before the caller's part, which could end in one too."""
    route, colon, chosen = first.partition(":")
    return f"{route}/{number}{colon}{chosen}" if number else first


class _Tries:
    """The other tries of a request without a key, wherever they were accepted.

    A declared retry joins the newest job for the same work. A request that is not a retry joins only a job
    that a retry, having overtaken it, made since its arrival. Keys are made of digits, so that every
    database's collation orders those for the same work by time.
    """

    def __init__(self, call: Call, stem: str, *, is_retry: bool) -> None:
        assert call.caller is not None, "requests are authenticated first"
        self._caller = call.caller
        self._stem = stem
        self._is_retry = is_retry
        self._was_answered = call.service.part(OpenRequests).was_answered
        self._now_ms = call.service.clock()
        waited_ms = int((time.perf_counter() - call.began_s) * 1000)
        self._since_ms = self._now_ms - (JOIN_MS if is_retry else waited_ms + CLOCKS_MS)

    def new_key(self) -> str:
        """A key that no request has yet."""
        mark, digits = (_RETRIED, 9) if self._is_retry else ("", 10)
        return f"{self._stem}{mark}{self._now_ms:013d}{secrets.randbelow(10**digits):0{digits}d}"

    def find(self, tx: Transaction) -> str | None:
        """The key of the first job of the try to join, or None. The account may be locked, or not."""
        caller, stem, since = self._caller, self._stem, f"{self._since_ms:013d}"
        keys = [newest_key(tx, caller, f"{stem}{_RETRIED}{since}", f"{stem}{'9' * 24}")]
        if self._is_retry:
            keys.append(newest_key(tx, caller, f"{stem}{since}", f"{stem}{'8' * 23}"))
        bound = max((each for each in keys if each is not None), key=self._moment, default=None)
        if bound is None or self._was_answered(bound.job_id) or self._is_over(tx, bound.job_id):
            return None
        # The keys of a request's jobs begin with that of its first job.
        return bound.idempotency_key.partition("/")[0]

    def _is_over(self, tx: Transaction, job_id: str) -> bool:
        """Whether the job was cancelled so long ago that no client can be waiting for it."""
        job = read.get(tx, account_id=self._caller.account_id, job_id=job_id)
        finished_ms = (job.finished_at or 0) * 1000
        return job.state == CANCELLED and self._now_ms - finished_ms > openai.RETRY_S * 1000

    def _moment(self, bound: NewestKey) -> str:
        return bound.idempotency_key.removeprefix(self._stem).removeprefix(_RETRIED)[:13]


def _is_declared_retry(call: Call) -> bool:
    """Whether OpenAI's SDK declares that it has sent this request before."""
    count = call.header(b"x-stainless-retry-count") or b"0"
    return count.isdigit() and int(count[:9]) > 0
