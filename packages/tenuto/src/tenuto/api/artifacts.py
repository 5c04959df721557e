"""Content over HTTP: downloads of artifacts and segments, every block checked before it is sent; erasure."""

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from tenuto import failpoints
from tenuto.account.caller import Caller
from tenuto.api.answers import Answer, Headers, json_answer, json_list
from tenuto.api.body_bytes import ClientGone
from tenuto.api.call import Call
from tenuto.api.errors import error_answer
from tenuto.api.query import read_query, text
from tenuto.db.database import Transaction
from tenuto.errors import (
    ArtifactUnavailable,
    CorruptBlob,
    Erased,
    PreconditionFailed,
    RangeNotSatisfiable,
    StoreUnreachable,
    TenutoError,
    Unavailable,
)
from tenuto.file import operations as artifacts
from tenuto.file.blob import BLOCK_BYTES
from tenuto.file.erasure import remove
from tenuto.file.operations import Opened
from tenuto.job import audio_segments as preview
from tenuto.job import erasure, read
from tenuto.job.attempts_sql import Segment
from tenuto.kind.kinds import kinds
from tenuto.logs import get_logger

_RANGE = re.compile(rb"bytes=(\d*)-(\d*)\Z")
_MOST_DIGITS = 18
"""Of a byte position: one with more digits lies beyond the end of any content."""
PIECE_BYTES = (32 * 1024, 256 * 1024)
"""How much of a block is passed to the connection at once, and so kept for a client that does not read: at
first the first number, then an eighth of what the client has taken, at most the second number."""
STALL_S = 1.0
"""A client that takes longer than this to accept a piece is slow; no block is kept for it."""

Span = tuple[Opened, int, int]
"""Stored content, and the start and end of the bytes to send."""
_SEGMENTS = {"attempt_id": text("an attempt_id of this job")}
_log = get_logger("tenuto.api")


async def content(call: Call) -> Answer | None:
    """GET /v1/artifacts/{id}/content: 200, 206, 304 or 416; 503 when the bytes are missing or damaged."""

    def find(tx: Transaction, who: Caller) -> Opened:
        artifact_id = call.path_id("artifact_id", "artifact")
        return artifacts.open_artifact(tx, account_id=who.account_id, artifact_id=artifact_id)

    return await send_content(call, await call.read(find))


async def segments(call: Call) -> Answer:
    """GET /v1/jobs/{id}/audio-segments: all that one attempt saved; by default, the newest attempt."""

    def find(tx: Transaction, who: Caller) -> list[Segment]:
        return preview.list_segments(
            tx,
            account_id=who.account_id,
            job_id=call.path_id("job_id", "job"),
            attempt_id=read_query(call, _SEGMENTS).get("attempt_id"),
        )

    return json_list(await call.read(find))


async def segment_content(call: Call) -> Answer | None:
    """GET /v1/jobs/{id}/audio-segments/{segment_id}/content: a WAV, sent like an artifact."""

    def find(tx: Transaction, who: Caller) -> Opened:
        return preview.open_segment(
            tx,
            account_id=who.account_id,
            job_id=call.path_id("job_id", "job"),
            segment_id=call.path_id("segment_id", "segment"),
        )

    return await send_content(call, await call.read(find))


async def erase_job_content(call: Call) -> Answer:
    """DELETE /v1/jobs/{id}/content: erase request, result, segments; 200 with the job, which stays."""
    caller = await call.authenticate()
    await call.read_body()
    job_id = call.path_id("job_id", "job")
    now_ms = call.service.clock()
    await commit_erasure(
        call, caller, lambda tx: erasure.erase_content(tx, caller, job_id=job_id, now_ms=now_ms)
    )
    call.service.final_jobs.forget(caller.account_id, job_id)
    job = await call.service.database.read_async(lambda tx: read.for_caller(tx, caller, job_id))
    return json_answer(200, job)


async def erase(call: Call) -> Answer:
    """DELETE /v1/artifacts/{id}: erase a result's bytes, or those of an input that no open job needs."""
    caller = await call.authenticate()
    await call.read_body()
    artifact_id = call.path_id("artifact_id", "artifact")
    models = [model for model in call.service.models.values() if model.interface == "jobs"]
    with_inputs = [model.name for model in models if kinds()[model.kind].takes_inputs]
    now_ms = call.service.clock()
    await commit_erasure(
        call,
        caller,
        lambda tx: erasure.erase_artifact(
            tx, caller, artifact_id=artifact_id, input_models=with_inputs, now_ms=now_ms
        ),
    )
    return json_answer(200, {"id": artifact_id, "object": "artifact", "erased": True})


async def commit_erasure(call: Call, caller: Caller, operation: Callable[[Transaction], list[str]]) -> None:
    """Commit the erasure, then remove the bytes; upkeep removes later what cannot be removed now."""
    service = call.service

    def erase(tx: Transaction) -> list[str]:
        blobs = operation(tx)
        failpoints.hit("erase.before_commit")
        return blobs

    blobs = await service.database.write_async(erase, account_id=caller.account_id)
    failpoints.hit("erase.after_commit")
    if not blobs:
        return
    try:
        stuck = await call.beside(service.readers, partial(remove, service.database, service.blobs, blobs))
    except Unavailable:
        stuck = blobs
    for blob_id in stuck:
        _log.error("blob.not_removed", blob_id=blob_id)


async def send_content(call: Call, opened: Opened, more: Iterable[tuple[bytes, bytes]] = ()) -> Answer | None:
    """Send the bytes of an artifact, or of other stored content, as the request's headers ask for them."""
    size_bytes = opened.blob.size_bytes
    etag = f'"{opened.blob.sha256}"'.encode()
    headers: Headers = [
        (b"etag", etag),
        (b"accept-ranges", b"bytes"),
        (b"x-content-type-options", b"nosniff"),
        *more,
    ]
    wanted_tags = call.header(b"if-match")
    if wanted_tags is not None and not _matches(wanted_tags, etag, is_strong=True):
        raise PreconditionFailed
    if _matches(call.header(b"if-none-match"), etag):
        return Answer(304, b"", headers, media_type=(b"content-type", opened.media_type.encode()))
    wanted = _range(call, etag, size_bytes)
    if wanted is None:
        await send_spans(call, opened.media_type, [(opened, 0, size_bytes)], headers)
        return None
    start, end = wanted
    if start >= end:
        return _unsatisfiable(call, size_bytes)
    headers.append((b"content-range", b"bytes %d-%d/%d" % (start, end - 1, size_bytes)))
    await send_spans(call, opened.media_type, [(opened, start, end)], headers, status=206)
    return None


async def send_spans(
    call: Call,
    media_type: str,
    spans: Sequence[Span],
    headers: Headers,
    *,
    status: int = 200,
    start: bytes = b"",
) -> bool:
    """Send `start`, then the spans in order; a span may be empty only if it is the only one.

    The first block is checked before the head is sent; if a later one is bad, the connection is cut: False.
    """
    first, *others = spans
    rest = _Rest(call, first, is_last=not others)
    await _load_first(call, rest)
    size_bytes = len(start) + sum(end - begin for _, begin, end in spans)
    head = [
        (b"content-type", media_type.encode()),
        (b"content-length", b"%d" % size_bytes),
        (b"x-request-id", call.request_id.encode()),
        *headers,
    ]
    await call.send({"type": "http.response.start", "status": status, "headers": head})
    if call.scope["method"] == "HEAD" or rest.is_over():
        await call.send({"type": "http.response.body", "body": start})
        return True
    if start:
        await call.send({"type": "http.response.body", "body": start, "more_body": True})
    return await _send_rest(call, rest, others)


async def _send_rest(call: Call, rest: "_Rest", others: list[Span]) -> bool:
    try:
        while True:
            await rest.send()
            if rest.is_over():
                if not others:
                    return True
                rest = _Rest(call, others.pop(0), is_last=not others)
            failpoints.hit("download.after_head")
            await rest.load()
    except (CorruptBlob, ArtifactUnavailable) as error:
        if not await _was_erased(call, rest.opened):
            _tell(call, rest.opened, error)
        call.break_off()
        return False
    finally:
        rest.close()


async def _load_first(call: Call, rest: "_Rest") -> None:
    try:
        await rest.load()
    except (CorruptBlob, ArtifactUnavailable) as error:
        if await _was_erased(call, rest.opened):
            raise Erased from error
        _tell(call, rest.opened, error)
        raise ArtifactUnavailable from error


class _Rest:
    """What remains to be sent of a download; for a slow client we keep only one piece of it in memory.

    While the second half of a block is being sent, a thread reads and checks the next one.
    """

    def __init__(self, call: Call, span: Span, *, is_last: bool) -> None:
        self._call = call
        self.opened, self._start, self._end = span
        self._is_last = is_last
        self._pieces: list[bytes] = []
        self._taken_bytes = 0
        self._ahead: asyncio.Future[list[bytes]] | None = None
        self._begin()

    def is_over(self) -> bool:
        return self._start >= self._end

    async def load(self) -> None:
        """Load the next block, checked, in pieces."""
        ahead, self._ahead = self._ahead or self._read(), None
        self._pieces = await ahead

    async def send(self) -> None:
        """Send the block; if the client stops reading, only a part of it, and the rest is loaded again."""
        while self._pieces:
            stalled = asyncio.get_running_loop().call_later(STALL_S, self._keep_nothing)
            try:
                await self._call.send(self._next_message())
            finally:
                stalled.cancel()
            if self.is_over():
                return
            if self._call.is_gone():
                raise ClientGone  # Read no more: nobody is waiting for it.
            is_half = sum(map(len, self._pieces)) <= BLOCK_BYTES // 2
            if is_half and self._ahead is None and self._read_to < self._end:
                self._ahead = self._read()

    def close(self) -> None:
        """Discard what was read ahead."""
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _begin(self) -> None:
        self._read_to = self._start
        self._chunks = self._call.service.blobs.read(self.opened.blob, self._start, self._end)

    def _read(self) -> asyncio.Future[list[bytes]]:
        """Read up to the end of a block, so that a bad block does not keep earlier ones from being sent."""
        size_bytes = min(BLOCK_BYTES - self._read_to % BLOCK_BYTES, self._end - self._read_to)
        self._read_to += size_bytes
        block = self._call.beside(self._call.service.readers, partial(_take, self._chunks, size_bytes))
        # Retrieve its error: nobody may be waiting for the block any more when it turns out to be bad.
        block.add_done_callback(lambda read: read.cancelled() or read.exception())
        return block

    def _next_message(self) -> Any:
        """The next piece to send; no variable of ours holds it while we wait for the client."""
        piece = self._pieces.pop()
        most_bytes = max(PIECE_BYTES[0], self._taken_bytes // 8)
        if len(piece) > most_bytes:
            self._pieces.append(piece[most_bytes:])
            piece = piece[:most_bytes]
        self._start += len(piece)
        self._taken_bytes += len(piece)
        is_more = not (self.is_over() and self._is_last)
        return {"type": "http.response.body", "body": piece, "more_body": is_more}

    def _keep_nothing(self) -> None:
        self.close()
        self._pieces.clear()
        self._taken_bytes = 0
        self._begin()


def _take(chunks: Iterator[bytes], size_bytes: int) -> list[bytes]:
    """The next `size_bytes` in pieces, the last one first."""
    pieces: list[bytes] = []
    most_bytes = PIECE_BYTES[1]
    while chunk := next(chunks, b""):
        pieces += (chunk[at : at + most_bytes] for at in range(0, len(chunk), most_bytes))
        size_bytes -= len(chunk)
        if size_bytes <= 0:
            break
    return pieces[::-1]


async def _was_erased(call: Call, opened: Opened) -> bool:
    """Whether the bytes were erased since the download began: then they are gone, not damaged.

    A caller must not be able to raise an alarm by erasing what it is reading.
    """
    try:
        blob_id = opened.blob.blob_id
        record = await call.service.database.read_async(lambda tx: artifacts.blob_record(tx, blob_id))
    except Unavailable:
        return False
    return record is None


def _tell(call: Call, opened: Opened, error: TenutoError) -> None:
    if isinstance(error, StoreUnreachable):
        known = {"artifact_id": opened.artifact_id, "request_id": call.request_id}
        _log.warning("store.away", **known, reason=error.message)
        return
    call.service.metrics.damaged()
    _log.error("artifact.damaged", artifact_id=opened.artifact_id, request_id=call.request_id)


def _matches(value: bytes | None, etag: bytes, *, is_strong: bool = False) -> bool:
    """Whether a list of ETags contains this one; If-Match compares strongly, so weak ETags never match."""
    if value is None:
        return False
    tags = [tag.strip() for tag in value.split(b",")]
    return value.strip() == b"*" or etag in (tags if is_strong else [tag.removeprefix(b"W/") for tag in tags])


def _range(call: Call, etag: bytes, size_bytes: int) -> tuple[int, int] | None:
    """The start and end of the requested bytes; None for all, also if the header cannot be parsed."""
    value = call.header(b"range")
    if value is None:
        return None
    unless = call.header(b"if-range")
    if unless is not None and unless.strip() != etag:
        return None
    match = _RANGE.match(value.strip())
    if match is None or match.groups() == (b"", b""):
        return None
    first, last = (_position(digits) for digits in match.groups())
    if first is None:
        assert last is not None
        return max(0, size_bytes - last), size_bytes if last else 0
    if last is not None and last < first:
        return None
    return first, size_bytes if last is None else min(size_bytes, last + 1)


def _position(digits: bytes) -> int | None:
    """A byte position, capped at one that is beyond the end of any content."""
    digits = digits.lstrip(b"0") or digits[:1]
    if not digits:
        return None
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _unsatisfiable(call: Call, size_bytes: int) -> Answer:
    body = error_answer(RangeNotSatisfiable(), call.request_id).body
    return Answer(416, body, [(b"content-range", b"bytes */%d" % size_bytes)])
