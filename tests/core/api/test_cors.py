"""Pages of other origins: only those that the setting names, only the API, and never with a cookie."""

import asyncio
from typing import Any

import pytest

from tenuto.api import cors
from tenuto.config.addresses import are_origins

PAGE = "https://app.example.com"
ASKS = [(b"access-control-request-method", b"POST"), (b"access-control-request-headers", b"authorization")]


def scope(path: str = "/v1/jobs", origin: str = PAGE, method: str = "GET", more: Any = ()) -> dict[str, Any]:
    return {"path": path, "method": method, "headers": [(b"origin", origin.encode()), *more]}


@pytest.mark.parametrize(
    ("setting", "path", "origin", "answer"),
    [
        ("none", "/v1/jobs", PAGE, None),
        ("*", "/v1/jobs", PAGE, b"*"),
        (f"https://other.example.com, {PAGE}", "/v1/jobs", PAGE, PAGE.encode()),
        (PAGE, "/v1/jobs", "https://app.example.com.evil.example", None),
        (PAGE, "/v1/jobs", "null", None),
        ("*", "/web/v1/jobs", PAGE, None),
        ("*", "/docs", PAGE, None),
    ],
)
def test_who_may_read_an_answer(setting: str, path: str, origin: str, answer: bytes | None) -> None:
    """An origin that is named, below /v1 alone."""
    assert answer == cors.allowed(scope(path, origin), cors.origins(setting))


def test_a_browser_asks_first() -> None:
    """The question is answered without a key; the answer itself is then readable, with its headers."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def ask() -> None:
        await cors.answer_preflight(scope(method="OPTIONS", more=ASKS), send, PAGE.encode())
        start = {"type": "http.response.start", "status": 200, "headers": [(b"x-request-id", b"req_1")]}
        await cors.readable(send, PAGE.encode())(start)

    asyncio.run(ask())
    preflight, _, answer = sent

    assert cors.is_preflight(scope(method="OPTIONS", more=ASKS))
    assert not cors.is_preflight(scope(method="OPTIONS"))
    assert 204 == preflight["status"]
    assert b"authorization" == dict(preflight["headers"])[b"access-control-allow-headers"]
    assert PAGE.encode() == dict(answer["headers"])[b"access-control-allow-origin"]
    assert not any(b"credentials" in name for name, _ in (*preflight["headers"], *answer["headers"]))


@pytest.mark.parametrize("text", ["none", "*", PAGE, f"{PAGE}, http://localhost:3000"])
def test_lists_of_origins(text: str) -> None:
    """Origins have a scheme and no path."""
    assert are_origins(text)
    assert not are_origins(f"{text}, app.example.com/page")
