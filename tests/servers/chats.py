"""Chats over HTTP: requests, answers, events of streams, and what was recorded of them."""

import json
import time
from typing import Any

import httpx2

from servers.callers import Caller, Operator
from servers.speed import HANG_S
from tenuto.features.history import usage_rows as billing
from tenuto.features.history.rows import Used

CHAT = "fake/chat"
THERE = "there/chat"
NARROW = "there/narrow"
PRICED = "there/priced"
"""2 CNY for a million input tokens and 8 for a million output tokens."""
PRICED_VECTORS = "there/priced-vectors"
"""0.5 CNY for a million tokens."""


def body(text: str = "Hold the note.", *, model: str = CHAT, **fields: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}]} | fields


def post(caller: Caller, value: Any) -> httpx2.Response:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = {"Content-Type": "application/json"}
    return caller.request("POST", "/v1/chat/completions", headers=headers, content=content)


def said(caller: Caller, value: Any) -> Any:
    """The answer to a request that succeeds."""
    answer = post(caller, value)
    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"]), answer.text
    return answer.json()


def events(caller: Caller, value: Any) -> list[Any]:
    """The events of a stream; the last may be `[DONE]`."""
    answer = post(caller, value)
    assert "text/event-stream; charset=utf-8" == answer.headers["content-type"], answer.text
    parts = answer.text.split("\n\n")
    assert "" == parts.pop()
    assert all(part.startswith("data: ") for part in parts)
    return [part[6:] if part == "data: [DONE]" else json.loads(part[6:]) for part in parts]


def used(operator: Operator, caller: Caller, calls: int) -> dict[str, Used]:
    """The caller's usage by model, once this many calls are recorded: it is written after the answers."""
    until = time.monotonic() + HANG_S
    while True:
        rows = operator.database.read(lambda tx: billing.chat_usage(tx, caller.account_id))
        if sum(row.calls for row in rows) >= calls:
            assert {caller.key_id} == {row.key_id for row in rows}
            return {
                row.model: Used(row.calls, row.prompt_tokens, row.completion_tokens, row.estimated)
                for row in rows
            }
        assert time.monotonic() < until, rows
        time.sleep(0.02)
