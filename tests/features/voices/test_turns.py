"""What takes long for one account holds up no other one: reports, downloads and large bodies."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.accounts import create_account, create_key
from tenuto import config
from tenuto.api.app import make_app
from tenuto.api.json_body import AT_ONCE_BYTES, MAX_WAITING
from tenuto.api.limits import FairThreads
from tenuto.api.service import Service
from tenuto.db.database import Database
from tenuto.features.voices.installing import install_voices
from tenuto.process import api as bootstrap

MANY = 24
LARGE = json.dumps({"model": "fake/chat", "messages": [], "padding": "x" * AT_ONCE_BYTES}).encode()


class Shared:
    """A service, and two accounts that use it."""

    def __init__(self, database: Database, folder: Path) -> None:
        settings = config.load({}, options={"folder": str(folder), "engines": "fake"})
        self.service: Service = bootstrap.build_service(settings, database, needs_worker=False)
        install_voices(database, self.service.blobs)
        voice = database.read(lambda tx: tx.one("select id from voice order by id limit 1"))
        assert voice is not None
        self.voice_id: str = voice["id"]
        self.app = make_app(self.service)
        self.hog, self.hogs_key = self._account("hog")
        _, self.key = self._account("other")
        self.may_end = threading.Event()

    def _account(self, name: str) -> tuple[str, str]:
        ids = self.service.ids
        account_id = self.service.database.write(lambda tx: create_account(tx, ids, name, credit="0"))
        return account_id, self.service.database.write(lambda tx: create_key(tx, ids, account_id))[1]

    def occupy(self, threads: FairThreads) -> None:
        """Much work of one account, which ends when it may."""
        for _ in range(MANY):
            threads.run(self.hog, self.may_end.wait)

    async def ask(self, method: str, path: str, *, key: str | None = None, body: bytes = b"") -> int:
        """The status of an answer, within a time that is long for one account alone."""
        sent: list[Any] = []
        head = [
            (b"authorization", f"Bearer {key or self.key}".encode()),
            (b"content-type", b"application/json"),
        ]
        scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
        scope |= {"query_string": b"", "headers": head}

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(self.app(scope, receive, send), 20)
        status: int = sent[0]["status"]
        return status


@pytest.fixture
def shared(database: Database, tmp_path: Path) -> Iterator[Shared]:
    made = Shared(database, tmp_path)
    yield made
    made.may_end.set()
    for threads in (made.service.reports, made.service.readers, made.service.parsers):
        threads.close()


@pytest.mark.parametrize("threads", ["reports", "readers"])
def test_one_accounts_reports_and_downloads_hold_up_no_other_account(shared: Shared, threads: str) -> None:
    """Twenty-four that do not end: another account's usage and its downloads are answered (P14)."""

    async def go() -> tuple[int, int]:
        shared.occupy(getattr(shared.service, threads))
        usage = await shared.ask("GET", "/v1/usage")
        content = await shared.ask("GET", f"/v1/voices/{shared.voice_id}/content")
        shared.may_end.set()
        return usage, content

    assert (200, 200) == asyncio.run(go())


def test_one_accounts_large_bodies_hold_up_no_other_account(shared: Shared) -> None:
    """Some wait, further ones are told 429 and do not stand in memory; another account's is read (P14)."""

    async def go() -> tuple[int, int]:
        for _ in range(MAX_WAITING + 1):
            shared.service.parsers.run(shared.hog, shared.may_end.wait)
        refused = await shared.ask("POST", "/v1/chat/completions", key=shared.hogs_key, body=LARGE)
        read = await shared.ask("POST", "/v1/chat/completions", body=LARGE)
        shared.may_end.set()
        return refused, read

    assert (429, 400) == asyncio.run(go())
