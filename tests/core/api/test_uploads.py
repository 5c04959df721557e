"""Bodies on their way from the event loop to the thread that stores them."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from servers.threads import LACKING, lacking
from tenuto.api.uploads import Uploads


async def pieces() -> AsyncIterator[bytes]:
    yield b"sound"


def test_uploads_go_on_after_a_passing_lack_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pool keeps the work of the upload that failed, which must not occupy a thread later."""
    lacking(monkeypatch, "upload")

    async def go() -> list[bytes | BaseException]:
        uploads = Uploads(per_account=0)
        return [
            *await asyncio.gather(uploads.through(pieces(), b"".join), return_exceptions=True),
            *[await asyncio.wait_for(uploads.through(pieces(), b"".join), 20) for _ in range(3)],
        ]

    first, *others = asyncio.run(go())

    assert LACKING == str(first)
    assert [b"sound"] * 3 == others
