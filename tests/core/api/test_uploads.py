"""Bodies on their way from the event loop to the thread that stores them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest

from servers.threads import LACKING, lacking
from tenuto.api.uploads import MAX_UPLOADS, RESERVED_UPLOADS, Uploads
from tenuto.errors import Unavailable


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


def test_the_last_places_are_for_accounts_without_an_upload() -> None:
    """Of thirty-two in all; a few accounts with slow uploads shut nobody out, nor what has ended (P14)."""
    uploads = Uploads(per_account=MAX_UPLOADS)
    with uploads.slot("account_0"):
        pass
    with ExitStack() as places:
        for number in range(MAX_UPLOADS - RESERVED_UPLOADS):
            places.enter_context(uploads.slot(f"hog_{number % 4}"))
        with pytest.raises(Unavailable), uploads.slot("hog_0"):
            pass
        for number in range(RESERVED_UPLOADS):
            places.enter_context(uploads.slot(f"account_{number}"))
        with pytest.raises(Unavailable) as caught, uploads.slot("one more"):
            pass

    assert "process_uploads" == caught.value.limit
    with uploads.slot("hog_0"):
        pass
