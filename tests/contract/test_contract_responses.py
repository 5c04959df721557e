"""POST /v1/responses: text in, text out, whole and as events; what needs memory or tools is refused."""

import json
from typing import Any

import httpx2
import pytest

from servers.callers import Caller, Operator, faults
from servers.chats import CHAT, THERE, used
from servers.openai_calls import package, post
from servers.upstream import PRIVATE, UpstreamServer
from tenuto.features.history.rows import Used

pytestmark = pytest.mark.variant("database", only="postgresql")


def ask(caller: Caller, given: Any = "one two", *, model: str = CHAT, **fields: Any) -> httpx2.Response:
    return post(caller, "/v1/responses", {"model": model, "input": given} | fields)


def said(caller: Caller, given: Any = "one two", **fields: Any) -> Any:
    """The answer to a request that succeeds."""
    answer = ask(caller, given, **fields)
    assert (200, "application/json") == (answer.status_code, answer.headers["content-type"]), answer.text
    return answer.json()


def events(caller: Caller, given: Any = "one two", **fields: Any) -> list[Any]:
    """The events of a stream, each under its own name, numbered without a gap."""
    answer = ask(caller, given, stream=True, **fields)
    assert "text/event-stream; charset=utf-8" == answer.headers["content-type"], answer.text
    parts = answer.text.split("\n\n")
    assert "" == parts.pop()
    sent = [json.loads(part.partition("\ndata: ")[2]) for part in parts]
    assert [part.partition("\n")[0] for part in parts] == [f"event: {one['type']}" for one in sent]
    assert [*range(len(sent))] == [one["sequence_number"] for one in sent]
    return sent


def test_a_text_is_answered(operator: Operator) -> None:
    """`output` holds one message with one text; the usage is recorded as a chat's."""
    caller = operator.caller()
    answer = said(caller, max_output_tokens=9, metadata={"a": "b"})

    assert ("response", "completed", CHAT, False) == tuple(
        answer[name] for name in ("object", "status", "model", "store")
    )
    [item] = answer["output"]
    text = {"type": "output_text", "text": "one two", "annotations": [], "logprobs": []}
    assert ("message", "assistant", "completed", [text]) == tuple(
        item[name] for name in ("type", "role", "status", "content")
    )
    usage = answer["usage"]
    assert (2, 2, 4) == (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"])
    assert {CHAT: Used(calls=1, prompt_tokens=2, completion_tokens=2)} == used(operator, caller, 1)


def test_a_conversation_goes_there_as_a_chat(visitor: Caller, upstream: UpstreamServer) -> None:
    """Instructions first, then the messages; what a program got back may be sent again as it was."""
    first = said(visitor, "Hello.", model=THERE)
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
    question = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "And?"}, picture],
    }
    schema = {"type": "json_schema", "name": "a", "schema": {"type": "object"}, "strict": True}
    said(
        visitor,
        [{"role": "user", "content": "Hello."}, *first["output"], question],
        model=THERE,
        instructions="Be brief.",
        max_output_tokens=5,
        temperature=0.5,
        top_p=0.9,
        text={"format": schema},
        reasoning={"effort": "low"},
    )

    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
    assert {
        "model": "their-name",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello."},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
            {"role": "user", "content": [{"type": "text", "text": "And?"}, image]},
        ],
        "max_tokens": 5,
        "temperature": 0.5,
        "top_p": 0.9,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": True},
        },
        "reasoning_effort": "low",
    } == upstream.seen.bodies[-1]


def test_a_refusal_may_be_sent_back_as_it_came(visitor: Caller, upstream: UpstreamServer) -> None:
    """A part of the output here, a field of the message in a chat; what was said beside it stays."""
    refused = said(visitor, "[up:refuse]", model=THERE)["output"]
    doubted = said(visitor, "[up:doubt]", model=THERE)["output"]
    said(visitor, [*refused, *doubted, {"role": "user", "content": "Why?"}], model=THERE)

    refusal = "No, I won't."
    assert [{"type": "refusal", "refusal": refusal}] == refused[0]["content"]
    assert [
        {"role": "assistant", "content": None, "refusal": refusal},
        {"role": "assistant", "content": [{"type": "text", "text": "[up:doubt]"}], "refusal": refusal},
        {"role": "user", "content": "Why?"},
    ] == upstream.seen.bodies[-1]["messages"]


def test_a_refusal_streams_as_a_part_of_its_own(visitor: Caller) -> None:
    """From its beginning, with its own deltas and end; after a text it is a second part."""
    refused = events(visitor, "[up:refuse]", model=THERE)
    doubted = events(visitor, "[up:doubt]", model=THERE)

    assert [
        ("response.content_part.added", {"type": "refusal", "refusal": ""}),
        ("response.refusal.delta", "No, I"),
        ("response.refusal.delta", " won't."),
        ("response.refusal.done", "No, I won't."),
        ("response.content_part.done", {"type": "refusal", "refusal": "No, I won't."}),
    ] == [(one["type"], one.get("part", one.get("delta", one.get("refusal")))) for one in refused[3:-2]]
    assert [0] * 3 + [1] * 3 + [0] * 2 + [1] * 2 == [one["content_index"] for one in doubted[3:-2]]
    for sent in (refused, doubted):
        done = [one["part"] for one in sent if one["type"] == "response.content_part.done"]
        assert done == sent[-1]["response"]["output"][0]["content"]


def test_a_stream_is_events_of_one_response(caller: Caller) -> None:
    """OpenAI's events in their order; the last has the whole response with its usage."""
    sent = events(caller)

    assert [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ] == [one["type"] for one in sent]
    assert ["one", " two", "one two"] == [one.get("delta", one.get("text")) for one in sent[4:7]]
    final = sent[-1]["response"]
    assert ("completed", "one two") == (final["status"], final["output"][0]["content"][0]["text"])
    assert 4 == final["usage"]["total_tokens"]
    assert {final["id"]} == {one["response"]["id"] for one in sent if "response" in one}


def test_an_answer_at_its_limit_is_incomplete(caller: Caller) -> None:
    """Whole and streamed: the status says so, and why."""
    whole = said(caller, max_output_tokens=1)
    last = events(caller, max_output_tokens=1)[-1]

    assert "response.incomplete" == last["type"]
    for response in (whole, last["response"]):
        assert ("incomplete", {"reason": "max_output_tokens"}) == (
            response["status"],
            response["incomplete_details"],
        )


def test_a_stream_that_breaks_says_so(visitor: Caller) -> None:
    """What came stays; the last event is `response.failed`, and nothing of the upstream's is in it."""
    sent = events(visitor, "[up:broken]", model=THERE)

    assert "response.failed" == sent[-1]["type"]
    assert "server_error" == sent[-1]["response"]["error"]["code"]
    assert PRIVATE not in json.dumps(sent)


def test_openais_own_package_works(visitor: Caller) -> None:
    """Whole, streamed, and refused."""
    import openai

    client = package(visitor)
    answer = client.responses.create(model=THERE, input="Hello.", instructions="Be brief.", store=False)
    [*_, last] = client.responses.create(model=THERE, input="Hello.", stream=True)
    assert last.type == "response.incomplete"
    final = last.response

    assert ("Hello.", 7) == (answer.output_text, answer.usage.total_tokens if answer.usage else None)
    assert ("one two", "incomplete") == (final.output_text, final.status)
    with pytest.raises(openai.BadRequestError, match="previous_response_id"):
        client.responses.create(model=THERE, input="x", previous_response_id=answer.id)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"previous_response_id": "resp_1"}, [("previous_response_id", "not_allowed")]),
        ({"store": True}, [("store", "not_allowed")]),
        ({"tools": [{"type": "web_search"}]}, [("tools", "not_allowed")]),
        ({"temperature": 3}, [("temperature", "out_of_range")]),
        ({"reasoning": {"effort": "low"}}, [("reasoning.effort", "not_allowed")]),
        ({"text": {"format": {"type": "json_object"}}}, [("text.format", "not_allowed")]),
        ({"input": ["x"]}, [("input[0]", "wrong_type")]),
        (
            {"input": [{"role": "user", "content": "x"}, {"role": "me", "content": "x"}]},
            [("input[1].role", "not_allowed")],
        ),
        ({"input": [{"type": "item_reference", "id": "x"}]}, None),
        ({"input": "x", "model": "none/such"}, [("model", "unknown_model")]),
    ],
)
def test_what_is_wrong_is_named_as_it_was_sent(
    caller: Caller, wrong: dict[str, Any], expected: list[tuple[str, str]] | None
) -> None:
    """What needs memory or tools, and wrong values: a 400 under the names of this route."""
    answer = ask(caller, **{"given" if name == "input" else name: value for name, value in wrong.items()})

    if expected is None:
        assert ("input[0].type", "not_allowed") in faults(answer)
    else:
        assert expected == faults(answer)


def test_what_asks_for_nothing_is_taken(caller: Caller) -> None:
    """Nulls, empty lists and usual values; unknown fields are named in a header."""
    nothing: dict[str, Any] = {"tools": [], "tool_choice": "auto", "previous_response_id": None}
    answer = ask(caller, **nothing, store=False, truncation="disabled", service_tier="auto")

    assert (200, "service_tier") == (answer.status_code, answer.headers["x-service-ignored"])
