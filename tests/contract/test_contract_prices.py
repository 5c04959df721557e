"""Chats and embeddings that have a price: what is held, charged and released, and where it is shown."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code
from servers.chats import PRICED, PRICED_VECTORS, THERE, body, events, post, said
from servers.openai_calls import post as send
from servers.processes import until
from servers.speed import HANG_S
from servers.upstream import UpstreamServer
from tenuto.features.audit import all_checks

pytestmark = pytest.mark.variant("database", only="postgresql")

CREDIT = "1"
CREDIT_MICROS = 1_000_000
CHARGE_MICROS = 5 * 2 + 2 * 8
"""Of what the upstream reports: 5 input tokens and 2 of the output."""
HOLD_MICROS = (len("Hold the note.") + 2 * 16) * 2 + 100 * 8
"""Of the smallest request: its bytes, the frames of a message and of the conversation, the longest answer."""


@pytest.fixture
def payer(paid: Operator) -> Iterator[Caller]:
    """A new account with a key; afterwards nothing of it is held, and the whole ledger adds up."""
    made = paid.caller(credit=CREDIT)
    yield made
    settled(paid, made)
    assert [] == [finding.summary for finding in paid.database.read(all_checks.audit)]


def settled(operator: Operator, caller: Caller) -> int:
    """What the caller has available once no call of it is open any more: the end of some is written later."""
    until = time.monotonic() + HANG_S
    while (money := operator.money(caller))[1]:
        assert time.monotonic() < until, money
        time.sleep(0.02)
    return money[0]


def lines(caller: Caller) -> list[tuple[str, str]]:
    """Types and amounts of the account's lines, newest first; those of calls name their call."""
    entries = caller.get("/v1/account/ledger").json()["data"]
    assert all(
        (entry["type"] == "credit") != (entry["call_id"] or "").startswith("call_") for entry in entries
    )
    assert {None} == {entry["job_id"] for entry in entries}
    return [(entry["type"], entry["amount"]) for entry in entries]


def test_an_answer_costs_the_tokens_that_the_upstream_counts(
    paid: Operator, payer: Caller, upstream: UpstreamServer
) -> None:
    """Held by the bound, charged by the count before the answer is sent; the ledger and the usage say so."""
    answer = post(payer, body(model=PRICED))

    assert (200, "0.000026 CNY") == (answer.status_code, answer.headers["x-service-charged"])
    assert (CREDIT_MICROS - CHARGE_MICROS, 0) == paid.money(payer)
    assert [("settle", "0.000026"), ("hold", f"0.{HOLD_MICROS:06d}"), ("credit", "1.000000")] == lines(payer)
    [line] = payer.get("/v1/usage").json()["data"]
    assert (PRICED, "chat", 1, 5, 2, 0, "0.000026") == tuple(
        line[name]
        for name in (
            *("model", "kind", "chats", "prompt_tokens", "completion_tokens", "estimated_chats", "charged"),
        )
    )
    assert 100 == upstream.seen.bodies[-1]["max_tokens"]


def test_a_free_model_holds_and_charges_nothing(payer: Caller, upstream: UpstreamServer) -> None:
    """No entry, no header, and no limit that the caller did not ask for."""
    answer = post(payer, body(model="there/chat"))

    assert (200, None) == (answer.status_code, answer.headers.get("x-service-charged"))
    assert [("credit", "1.000000")] == lines(payer)
    assert "max_tokens" not in upstream.seen.bodies[-1]


def test_the_callers_own_limit_bounds_the_hold(payer: Caller, upstream: UpstreamServer) -> None:
    """Times the answers asked for. It is sent under the server's name for it, whichever name the caller used:
    a server ignores a name that it does not know, and would make more than is held for (P3)."""
    said(payer, body(model=PRICED, max_completion_tokens=10, n=3))
    [_, (_, held), _] = lines(payer)

    assert f"0.{(14 + 32) * 2 + 3 * 10 * 8:06d}" == held
    sent = upstream.seen.bodies[-1]
    assert (10, None, 3) == (sent["max_tokens"], sent.get("max_completion_tokens"), sent["n"])


def test_a_stream_is_charged_before_its_end_is_sent(paid: Operator, payer: Caller) -> None:
    """By the usage of its last chunk, once."""
    streamed = events(payer, body(model=PRICED, stream=True))

    assert "[DONE]" == streamed[-1]
    assert (CREDIT_MICROS - CHARGE_MICROS, 0) == paid.money(payer)
    assert ["settle", "hold", "credit"] == [type_ for type_, _ in lines(payer)]


@pytest.mark.parametrize("fault", ["status=500", "status=429", "unmetered", "cut"])
def test_without_an_answer_nothing_is_charged(paid: Operator, payer: Caller, fault: str) -> None:
    """Refused, failed or unreadable: the hold is released."""
    answer = post(payer, body(f"[up:{fault}]", model=PRICED))

    assert answer.status_code in (400, 429, 503)
    assert CREDIT_MICROS == settled(paid, payer)
    assert ["void", "hold", "credit"] == [type_ for type_, _ in lines(payer)]


def test_a_key_is_answered_and_charged_once(paid: Operator, payer: Caller, upstream: UpstreamServer) -> None:
    """While its call runs, an SDK is asked to come back; afterwards it is refused, on every route, and not
    sent to the upstream. A call that cost nothing leaves its key free, and a free model takes any."""
    key = {"Content-Type": "application/json", "Idempotency-Key": "mine"}

    def ask(text: str, path: str = "/v1/chat/completions", model: str = PRICED) -> httpx2.Response:
        value = {"model": model, "input": text} if path == "/v1/responses" else body(text, model=model)
        return payer.request("POST", path, headers=key, content=json.dumps(value).encode())

    failed = ask("[up:status=500]")
    settled(paid, payer)
    upstream.seen.gate.clear()
    before = len(upstream.seen.bodies)
    with ThreadPoolExecutor() as beside:
        first = beside.submit(ask, "[up:gate]")
        until(lambda: len(upstream.seen.bodies) > before, HANG_S, "the upstream is asked")
        while_open = ask("[up:gate]")
        upstream.seen.gate.set()
    later = [ask("Hold the note."), ask("Hold the note.", "/v1/responses")]
    free = [ask("Hold the note.", model=THERE).status_code for _ in range(2)]

    assert 503 == failed.status_code
    assert [200, *free] == [first.result().status_code, 200, 200]
    assert [(409, "idempotency_conflict")] * 3 == [error_code(each) for each in (while_open, *later)]
    assert ["true", "false", "false"] == [each.headers["x-should-retry"] for each in (while_open, *later)]
    assert ["2", None] == [each.headers.get("retry-after") for each in (while_open, later[0])]
    assert before + 1 + len(free) == len(upstream.seen.bodies)
    assert (CREDIT_MICROS - CHARGE_MICROS, 0) == paid.money(payer)


def test_a_stream_that_the_upstream_cuts_costs_nothing(paid: Operator, payer: Caller) -> None:
    """Some pieces were sent, and an error: nobody pays for half an answer; the tokens are counted."""
    streamed = events(payer, body("[up:broken]", model=PRICED, stream=True))

    assert ["one", " two"] == [chunk["choices"][0]["delta"]["content"] for chunk in streamed[1:-1]]
    assert "model_unavailable" == streamed[-1]["error"]["code"]
    assert CREDIT_MICROS == settled(paid, payer)
    [line] = payer.get("/v1/usage").json()["data"]
    assert (1, 1, "0.000000") == (line["chats"], line["estimated_chats"], line["charged"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/v1/chat/completions", body("[up:gate]", model=PRICED)),
        ("/v1/responses", {"model": PRICED, "input": "[up:gate]", "stream": True}),
        ("/v1/embeddings", {"model": PRICED_VECTORS, "input": "[up:gate]"}),
    ],
)
def test_who_leaves_before_the_answer_pays_for_it(
    paid: Operator, payer: Caller, upstream: UpstreamServer, path: str, value: Any
) -> None:
    """The upstream was asked, and charges the operator. Its key stays taken while the call is read on.

    tests/features/chat/test_stream_ends.py has every moment at which a caller may leave.
    """
    upstream.seen.gate.clear()
    before = len(upstream.seen.bodies)
    headers = {"Authorization": f"Bearer {payer.key}", "Idempotency-Key": "mine"}

    def ask(timeout_s: float) -> httpx2.Response:
        with httpx2.Client(timeout=timeout_s, base_url=paid.service.url) as client:
            return client.post(path, json=value, headers=headers)

    with pytest.raises(httpx2.TimeoutException):
        ask(0.5)
    until(lambda: len(upstream.seen.bodies) > before, 20, "the upstream is asked")
    while_open = ask(60)
    upstream.seen.gate.set()
    left = settled(paid, payer)
    later = ask(60)

    assert CREDIT_MICROS - left == (2 if path == "/v1/embeddings" else CHARGE_MICROS)
    assert [(409, "true"), (409, "false")] == [
        (each.status_code, each.headers["x-should-retry"]) for each in (while_open, later)
    ]
    assert before + 1 == len(upstream.seen.bodies)


def test_half_closing_saves_nothing(paid: Operator, payer: Caller, upstream: UpstreamServer) -> None:
    """Whoever closes its side has left, whatever it could still read."""
    content = json.dumps(body("[up:gate]", model=PRICED)).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {payer.key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    upstream.seen.gate.clear()
    before = len(upstream.seen.bodies)
    with socket.create_connection(("127.0.0.1", paid.service.port), timeout=60) as client:
        client.sendall(head.encode() + content)
        until(lambda: len(upstream.seen.bodies) > before, 20, "the upstream is asked")
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(1 << 16)
    upstream.seen.gate.set()

    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert CHARGE_MICROS == CREDIT_MICROS - settled(paid, payer)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("/v1/chat/completions", body(model=PRICED), "permission_error"),
        ("/v1/responses", {"model": PRICED, "input": "Hold.", "stream": True}, "insufficient_quota"),
        ("/v1/embeddings", {"model": PRICED_VECTORS, "input": "x" * 1000}, "insufficient_quota"),
    ],
)
def test_a_balance_that_does_not_cover_the_bound_refuses(
    paid: Operator, upstream: UpstreamServer, path: str, value: Any, expected: str
) -> None:
    """403 with both amounts, before anything is sent to the upstream or written."""
    poor = paid.caller(credit="0.0002")
    before = len(upstream.seen.bodies)
    answer = send(poor, path, value)
    error = answer.json()["error"]

    assert (403, "insufficient_balance") == error_code(answer)
    assert (expected, "0.000200") == (error["type"], error["balance"]["available"])
    assert before == len(upstream.seen.bodies)
    assert [("credit", "0.000200")] == lines(poor)
    if path == "/v1/chat/completions":  # A smaller limit makes it affordable.
        assert 200 == send(poor, path, value | {"max_tokens": 10}).status_code


def test_embeddings_and_responses_are_charged_alike(paid: Operator, payer: Caller) -> None:
    """Four tokens of the one, five and two of the other."""
    vectors = send(payer, "/v1/embeddings", {"model": PRICED_VECTORS, "input": ["one", "two"]})
    response = send(payer, "/v1/responses", {"model": PRICED, "input": "Hold the note."})

    assert ["0.000002 CNY", "0.000026 CNY"] == [
        answer.headers["x-service-charged"] for answer in (vectors, response)
    ]
    assert CREDIT_MICROS - 2 - CHARGE_MICROS == settled(paid, payer)


def test_the_catalog_shows_both_prices(payer: Caller) -> None:
    """For a million tokens; a free model has none."""
    pricing = {entry["id"]: entry["pricing"] for entry in payer.get("/v1/models").json()["data"]}

    assert {
        "currency": "CNY",
        "unit": "million_tokens",
        "price": "2.000000",
        "hold": "0.000000",
        "output_price": "8.000000",
    } == pricing[PRICED]
    assert ("0.500000", "0.000000") == (
        pricing[PRICED_VECTORS]["price"],
        pricing[PRICED_VECTORS]["output_price"],
    )
    assert ("job", "0.000000") == (pricing["there/chat"]["unit"], pricing["there/chat"]["price"])
