"""A model that thinks for long before, or in the middle of, a streamed answer: the stream is not silent."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import httpx2
import pytest

from servers.endpoint import serving
from tenuto.api.call import Call
from tenuto.config import CHAT_FEATURES
from tenuto.db.database import Database
from tenuto.errors import ModelUnavailable
from tenuto.features.chat import routes as chat
from tenuto.features.chat.answers import Piece, Usage
from tenuto.features.chat.chat_body import ChatRequest, check
from tenuto.features.http_guard.server import Server
from tenuto.features.openai import responses

pytestmark = pytest.mark.parametrize("dialect", ["sqlite"])

KEEPALIVE_S = 0.1
THOUGHT_S = 0.35
BODY = {"model": "local/any", "messages": [{"role": "user", "content": "Hello."}], "stream": True}


def request() -> ChatRequest:
    made, faults = check(BODY, CHAT_FEATURES)
    assert made is not None and not faults
    return made


async def answer(path: str) -> AsyncGenerator[Piece, None]:
    """Two words with thoughts before each; /fails after the first thought, /refuses at once."""
    if path.endswith("refuses"):
        raise ModelUnavailable
    await asyncio.sleep(THOUGHT_S)
    if path.endswith("fails"):
        raise ModelUnavailable
    yield Piece("one")
    await asyncio.sleep(THOUGHT_S)
    yield Piece(" two", finish_reason="stop", usage=Usage(1, 2))


async def handle(call: Call) -> None:
    path = call.scope["path"]
    if path.startswith("/responses"):
        about = responses._About(call, request(), {})
        await responses._stream(call, about, answer(path), [])
    else:
        await chat._stream(call, request(), {"id": "chatcmpl_1"}, answer(path))


@pytest.fixture
def server(database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Whose streams beat every tenth of a second."""
    monkeypatch.setattr(chat, "KEEPALIVE_S", KEEPALIVE_S)
    with serving(handle, database, tmp_path) as made:
        yield made


def get(server: Server, path: str) -> httpx2.Response:
    host, port = server.addresses[0][:2]
    return httpx2.get(f"http://{host}:{port}{path}", timeout=120)


@pytest.mark.parametrize("path", ["/chat", "/responses"])
def test_a_thought_is_not_silent(server: Server, path: str) -> None:
    """Comments come before the first word and between the words; no program takes them for events."""
    told = get(server, path)
    before, between = told.text.split('"one"')[0], told.text.split('"one"')[1].split('" two"')[0]

    assert 200 == told.status_code
    assert ": waiting\n\n" in before
    assert ": waiting\n\n" in between
    assert ": waiting" not in told.text.split('" two"')[1]


@pytest.mark.parametrize(("path", "end"), [("/chat", '"error"'), ("/responses", "response.failed")])
def test_an_error_has_its_status_until_the_first_heartbeat(server: Server, path: str, end: str) -> None:
    """Then it is the last event of the stream; of a response, after the event that begins it."""
    at_once, late = get(server, f"{path}/refuses"), get(server, f"{path}/fails")

    assert 503 == at_once.status_code
    assert 200 == late.status_code
    assert end in late.text.split("\n\n")[-2]
    assert "[DONE]" not in late.text
    if path == "/responses":
        assert late.text.startswith("event: response.created")
