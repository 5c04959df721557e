"""The body of an answer as it arrives, for threads and for asyncio.

The HTTP library reads 64 KiB at a time and copies each three times, which takes half of the time that a large
download from a near machine could take. So once a large body has begun, the rest of it is read from the
connection itself, which the library hands out for such things (its extension `network_stream`). A connection
that was read past the library is closed afterwards.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from tenuto_client.steps import Lost

READ_BYTES = 1 << 20
LARGE_BYTES = 4 << 20
"""A rest of so many bytes is worth a new connection for the next request."""


def blocks(response: httpx2.Response, timeout_s: float) -> Iterator[bytes]:
    """The body in blocks of any size. Raises Lost and what the library does when it breaks off."""
    left = _promised(response)
    body = response.iter_raw()  # kept: dropping it would close the connection
    for block in body:
        yield block
        left -= len(block)
        if left >= LARGE_BYTES:
            break
    else:
        return
    stream = _stream(response)
    while left:
        with _losses():
            block = stream.read(min(left, READ_BYTES), timeout=timeout_s)
        left -= len(_some(block))
        yield block


async def blocks_async(response: httpx2.Response, timeout_s: float) -> AsyncIterator[bytes]:
    """`blocks` for asyncio."""
    left = _promised(response)
    body = response.aiter_raw()
    async for block in body:
        yield block
        left -= len(block)
        if left >= LARGE_BYTES:
            break
    else:
        return
    stream = _stream(response)
    while left:
        with _losses():
            block = await stream.read(min(left, READ_BYTES), timeout=timeout_s)
        left -= len(_some(block))
        yield block


def _promised(response: httpx2.Response) -> int:
    """How many bytes come; 0 where that is not said, or where they come in chunks."""
    if "transfer-encoding" in response.headers or response.http_version != "HTTP/1.1":
        return 0
    return int(response.headers.get("content-length", 0))


def _stream(response: httpx2.Response) -> Any:
    return response.extensions["network_stream"]


def _some(block: bytes) -> bytes:
    if not block:
        raise Lost("the answer was cut off", was_sent=True)
    return block


@contextmanager
def _losses() -> Iterator[None]:
    import httpcore2

    try:
        yield
    except httpcore2.TimeoutException as error:
        raise Lost("nothing came in time", was_sent=True) from error
    except httpcore2.NetworkError as error:
        raise Lost(in_words(str(error) or type(error).__name__), was_sent=True) from error


def in_words(told: str) -> str:
    """What the system says of a connection, without its number."""
    return re.sub(r"\[Errno -?\d+\] (.)", lambda found: found[1].lower(), told)
