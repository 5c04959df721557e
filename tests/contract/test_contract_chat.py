"""POST /v1/chat/completions: requests, answers, streams, refusals, what is recorded (R191–R199)."""

import json
import threading
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, error_code, faults
from servers.chats import CHAT, NARROW, THERE, body, events, post, said, used
from servers.openai_calls import package
from servers.speed import HANG_S
from servers.upstream import PRIVATE, UpstreamServer
from tenuto.features.history.rows import Used

pytestmark = pytest.mark.variant("database", only="postgresql")


def test_an_answer_has_a_choice_and_its_usage(caller: Caller) -> None:
    """Model and messages give `choices[0].message.content` and `usage` (R191, R195, R196)."""
    answer = said(caller, body("one two three"))

    assert answer["id"].startswith("chatcmpl_")
    assert ("chat.completion", CHAT) == (answer["object"], answer["model"])
    message = {"role": "assistant", "content": "one two three"}
    assert [
        {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"},
    ] == answer["choices"]
    assert {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6} == answer["usage"]


def test_the_limit_of_tokens_caps_the_answer(caller: Caller) -> None:
    """`max_tokens` ends the answer, and `finish_reason` says so; a stop text ends it before itself (R194)."""
    limited = said(caller, body("one two three", max_tokens=2.0))
    stopped = said(caller, body("one two three", stop="two"))

    assert ("one two", "length") == (
        limited["choices"][0]["message"]["content"],
        limited["choices"][0]["finish_reason"],
    )
    assert 2 == limited["usage"]["completion_tokens"]
    assert "one" == stopped["choices"][0]["message"]["content"]


def test_temperature_and_seed_act(caller: Caller) -> None:
    """At temperature 0 and for one seed the answer is the same again, else it differs (R193)."""

    def answer(**fields: Any) -> str:
        text: str = said(caller, body("x", **fields))["choices"][0]["message"]["content"]
        return text

    assert "x" == answer(temperature=0)
    assert answer(temperature=1, seed=7) == answer(temperature=1, seed=7) != answer(temperature=1, seed=8)


def test_nothing_private_of_an_upstream_comes_back(visitor: Caller) -> None:
    """Answers are rebuilt from known fields, whole and streamed; its own reasons become `stop` (R199)."""
    whole = said(visitor, body("Hello.", model=THERE))
    streamed = events(visitor, body("Hello.", model=THERE, stream=True))

    assert THERE == whole["model"]
    assert ("Hello.", "stop") == (
        whole["choices"][0]["message"]["content"],
        whole["choices"][0]["finish_reason"],
    )
    assert {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7} == whole["usage"]
    assert PRIVATE not in json.dumps([whole, streamed])


def test_private_fields_are_refused(visitor: Caller, upstream: UpstreamServer) -> None:
    """Fields outside the contract are refused by name, all at once, and nothing is sent anywhere (R199)."""
    before = len(upstream.seen.bodies)
    wrong = body("x", model=THERE, top_k=4, tools=[], n=9, temperature=9)

    assert [
        ("n", "out_of_range"),
        ("temperature", "out_of_range"),
        ("tools", "wrong_length"),
        ("top_k", "unknown_name"),
    ] == faults(post(visitor, wrong))
    assert before == len(upstream.seen.bodies)


def test_a_call_without_stream_never_streams(
    caller: Caller, visitor: Caller, upstream: UpstreamServer
) -> None:
    """The contract's own call is answered whole, and asked of an upstream whole (R198)."""
    for value in (body(), body(stream=False)):
        answer = post(caller, value)

        assert "application/json" == answer.headers["content-type"]
        assert len(answer.content) == int(answer.headers["content-length"])
    said(visitor, body(model=THERE))
    assert "stream" not in upstream.seen.bodies[-1]


def test_a_stream_is_chunks_of_one_answer(caller: Caller) -> None:
    """`stream: true` gives OpenAI's chunks and `[DONE]`; the usage comes only where it is asked for."""
    sent = events(caller, body("one two", stream=True, stream_options={"include_usage": True}))
    plain = events(caller, body("one two", stream=True))

    assert "[DONE]" == sent.pop() == plain.pop()
    assert 1 == len({(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in sent})
    assert "chat.completion.chunk" == sent[0]["object"]
    assert [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "one"}, None),
        ({"content": " two"}, None),
        ({}, "stop"),
    ] == [(chunk["choices"][0]["delta"], chunk["choices"][0]["finish_reason"]) for chunk in sent[:-1]]
    assert [] == sent[-1]["choices"]
    assert {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4} == sent[-1]["usage"]
    assert not [chunk for chunk in plain if "usage" in chunk]


def test_openais_own_package_works(caller: Caller) -> None:
    """The `openai` package lists models, chats, streams and reads refusals, on our base address (R197)."""
    import openai

    client = package(caller)
    listed = {model.id for model in client.models.list()}
    answer = client.chat.completions.create(
        model=CHAT,
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one two"}],
        temperature=0,
        max_tokens=100,
    )
    pieces = list(
        client.chat.completions.create(
            model=CHAT,
            messages=[{"role": "user", "content": "one two"}],
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    assert CHAT in listed
    assert "one two" == answer.choices[0].message.content
    assert answer.usage is not None
    assert (4, 2) == (answer.usage.prompt_tokens, answer.usage.completion_tokens)
    assert "one two" == "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
    assert pieces[-1].usage is not None
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model=CHAT, messages=[], temperature=3)
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").models.list()


def test_the_catalog_lists_chat_models(paid: Operator) -> None:
    """A chat model's entry says its interface, that it is free, and what it takes beyond text."""
    answer = paid.caller().get("/v1/models")
    listed = {entry["id"]: entry for entry in answer.json()["data"]}
    beyond = {"tools", "tool_choice", "logprobs", "logit_bias", "image_url"}

    assert "their-name" not in answer.text
    for name, more in ((CHAT, set()), (NARROW, {"tools", "tool_choice"}), (THERE, beyond)):
        entry = listed[name]
        assert ("chat", "chat", True, None) == tuple(
            entry[key] for key in ("interface", "kind", "callable", "callable_reason")
        )
        assert "0.000000" == entry["pricing"]["price"] == entry["pricing"]["hold"]
        assert {"temperature", "max_tokens", "stream"} <= set(entry["honoured_parameters"])
        assert more == beyond & set(entry["honoured_parameters"])


def test_a_body_has_at_most_four_mebibytes(caller: Caller) -> None:
    """Over it is 413, just below is read; another method than POST is 405."""
    long = "x" * (4 * 1024 * 1024 - 100)

    assert (413, "payload_too_large") == error_code(post(caller, body(long + "x" * 200)))
    assert long == said(caller, body(long))["choices"][0]["message"]["content"]
    assert 405 == caller.get("/v1/chat/completions").status_code


def test_a_prompt_over_the_context_is_refused_with_both_numbers(caller: Caller, visitor: Caller) -> None:
    """Never cut: 400 with the prompt's tokens and the context's, of our engine and of an upstream."""
    for value in (body("x " * 600), body("x " * 600, stream=True)):
        answer = post(caller, value)

        assert [("messages", "too_long")] == faults(answer)
        assert "600" in answer.text
        assert "512" in answer.text
    answer = post(visitor, body("[up:context]", model=THERE))
    assert [("messages", "too_long")] == faults(answer)
    assert "99" in answer.text
    assert "64" in answer.text


@pytest.mark.parametrize(
    ("fault", "streamed", "expected"),
    [
        ("status=429", False, (429, "rate_limited", "7")),
        ("status=429", True, (429, "rate_limited", "7")),
        ("status=503", True, (503, "model_unavailable", "7")),
        ("status=401", False, (503, "model_unavailable", "7")),
        ("status=422", False, (400, "invalid_request", None)),
        ("redirect", False, (503, "model_unavailable", "10")),
        ("garbage", True, (503, "model_unavailable", "10")),
        ("cut", False, (503, "model_unavailable", "10")),
        ("unmetered", False, (503, "model_unavailable", "10")),
    ],
)
def test_an_upstreams_faults_are_ours_to_tell(
    visitor: Caller,
    upstream: UpstreamServer,
    fault: str,
    expected: tuple[int, str, str | None],
    streamed: bool,
) -> None:
    """Each fault gets a status of the contract, never 500; nothing is sent twice, nothing private is passed
    on. An upstream that does not count tokens gives no answer: usage is never made up (R196, R199)."""
    before = len(upstream.seen.bodies)
    answer = post(visitor, body(f"[up:{fault}]", model=THERE, stream=streamed))

    assert expected == (*error_code(answer), answer.headers.get("retry-after"))
    assert PRIVATE not in answer.text
    assert before + 1 == len(upstream.seen.bodies)
    assert "/v1/elsewhere" not in upstream.seen.paths


def test_an_upstream_that_is_away_is_not_callable(visitor: Caller) -> None:
    """503 with Retry-After; after three connections that could not be made the catalog says so."""
    for _ in range(3):
        answer = post(visitor, body(model="there/closed"))
        assert (503, "model_unavailable") == error_code(answer)
        assert "retry-after" in answer.headers
    listed = {entry["id"]: entry for entry in visitor.get("/v1/models").json()["data"]}

    assert (False, "its upstream does not answer") == (
        listed["there/closed"]["callable"],
        listed["there/closed"]["callable_reason"],
    )


def test_an_engine_that_fails_is_a_503(caller: Caller) -> None:
    """An exception or a crash in our own engine is answered with 503; the next chat works."""
    for fault in ("raise", "crash"):
        answer = post(caller, body(f"[fake:{fault}] x"))

        assert (503, "model_unavailable") == error_code(answer)
        assert "x" == said(caller, body("x"))["choices"][0]["message"]["content"]


def test_chats_wait_in_a_bounded_queue(visitor: Caller, paid: Operator, upstream: UpstreamServer) -> None:
    """One runs, two wait, the fourth gets 429 with Retry-After (R212)."""
    statuses: list[int] = []
    is_refused = threading.Event()
    upstream.seen.gate.clear()

    def chat() -> None:
        with httpx2.Client(base_url=paid.service.url, timeout=120) as http:
            headers = {"Authorization": f"Bearer {visitor.key}"}
            value = body("[up:gate] x", model=NARROW)
            answer = http.post("/v1/chat/completions", headers=headers, json=value)
        statuses.append(answer.status_code)
        if answer.status_code == 429:
            assert "5" == answer.headers["retry-after"]
            is_refused.set()

    threads = [threading.Thread(target=chat) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert is_refused.wait(60)
    upstream.seen.gate.set()
    for thread in threads:
        thread.join()

    assert [429, 200, 200, 200] == statuses


def test_who_goes_away_stops_the_generation(
    caller: Caller, paid: Operator, visitor: Caller, upstream: UpstreamServer
) -> None:
    """A client that leaves frees its place and closes the upstream's stream, which is still recorded: its
    tokens are estimated."""
    headers = {"Authorization": f"Bearer {visitor.key}"}
    value = body("[up:endless]", model=NARROW, stream=True)
    upstream.seen.gone.clear()
    with visitor.http.stream("POST", "/v1/chat/completions", headers=headers, json=value) as answer:
        assert next(line for line in answer.iter_lines() if '"content":"one"' in line)

    assert upstream.seen.gone.wait(HANG_S)
    recorded = used(paid, visitor, 1)[NARROW]
    assert (1, 1) == (recorded.calls, recorded.estimated_calls)
    assert recorded.prompt_tokens and recorded.completion_tokens
    said(visitor, body("x", model=NARROW))
    # Four places: without them the fifth chat would wait for a minute.
    headers = {"Authorization": f"Bearer {caller.key}"}
    for _ in range(4):
        with pytest.raises(httpx2.TimeoutException):
            caller.http.post(
                "/v1/chat/completions", headers=headers, json=body("[fake:sleep=60] x"), timeout=0.1
            )
    assert "x" == said(caller, body("x"))["choices"][0]["message"]["content"]


def test_usage_is_recorded_and_nothing_is_charged(operator: Operator) -> None:
    """Calls and tokens of each account, key and model; balance and ledger stay as they were (R216)."""
    caller = operator.caller(credit="1")
    before = operator.money(caller)
    for value in (body("one two"), body("one two three", stream=True), body("x", n=2)):
        post(caller, value)
    recorded = used(operator, caller, 2)
    entries = operator.row("select count(*) as n from entry where account_id = :id", id=caller.account_id)

    assert {CHAT: Used(calls=2, prompt_tokens=5, completion_tokens=5)} == recorded
    assert (before, 1) == (operator.money(caller), entries["n"])


def test_the_key_of_an_upstream_is_never_shown(paid: Operator, visitor: Caller) -> None:
    """Neither answers nor logs contain it, nor the messages (P16)."""
    said(visitor, body("unmistakable words", model=THERE))
    post(visitor, body("[up:status=401]", model=THERE))
    listed = visitor.get("/v1/models").text
    log = paid.service.log_path.read_text()

    for secret in ("secret-of-the-upstream", "unmistakable words", PRIVATE):
        assert secret not in listed + log
