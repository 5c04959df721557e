"""Chats beyond text: tools, pictures, JSON by a schema, log probabilities, several answers of an upstream."""

from typing import Any

import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Operator, faults
from servers.chats import THERE, body, events, said, used
from servers.openai_calls import package
from servers.openai_calls import post as openai_post
from servers.upstream import CALL_DELTAS, CALLS, LOGPROBS, UpstreamServer

pytestmark = ON_ONE_DATABASE


TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Of a city.",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Köln", "京都"], "x-a": [1, 2.5, None]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    },
    {"type": "function", "function": {"name": "time"}},
]
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "high"}}
SCHEMA: Any = {
    "type": "json_schema",
    "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object", "$defs": {"a": {}}}},
}


def test_everything_that_an_upstream_takes_goes_there_unchanged(
    visitor: Caller, upstream: UpstreamServer
) -> None:
    """Tools, pictures, a schema and the rest, word for word, under the upstream's own name of the model; a
    conversation that has called tools, as Open WebUI collects them from a stream (R192, R199)."""
    messages: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "Here?"}, PICTURE]},
        {"role": "assistant", "content": "", "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "noon"}]},
        {"role": "assistant", "content": "", "refusal": "No."},
        {"role": "user", "content": "Go on."},
    ]
    fields: dict[str, Any] = {
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "response_format": SCHEMA,
        "logprobs": True,
        "top_logprobs": 3,
        "logit_bias": {"11": -100},
        "reasoning_effort": "low",
        "n": 2,
        "seed": 2**62 + 1,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_completion_tokens": 9,
        "presence_penalty": 1.5,
        "frequency_penalty": -1.0,
    }
    taken = {"user": "ann", "metadata": {"a": "b"}, "store": False, "stop": "x"}
    collected = [{"index": number, **call} for number, call in enumerate(CALLS)]
    given = [one | {"tool_calls": collected} if "tool_calls" in one else one for one in messages]
    said(visitor, {"model": THERE, "messages": given} | fields | taken)

    sent = {"model": "their-name", "messages": messages, "stop": ["x"], **fields}
    assert sent == upstream.seen.bodies[-1]
    assert "/v1/chat/completions" == upstream.seen.paths[-1]
    assert "Bearer secret-of-the-upstream" == upstream.seen.authorizations[-1]


def test_deltas_of_tool_calls_are_sent_on_one_by_one(paid: Operator, visitor: Caller) -> None:
    """Each part of a call in a chunk of its own, in order and whole; the usage is recorded."""
    sent = events(visitor, body("[up:tools]", model=THERE, tools=TOOLS, stream=True))

    assert "[DONE]" == sent.pop()
    deltas = [chunk["choices"][0]["delta"] for chunk in sent]
    assert [
        {"role": "assistant", "content": ""},
        *({"tool_calls": [one]} for one in CALL_DELTAS),
        {},
    ] == deltas
    assert "tool_calls" == sent[-1]["choices"][0]["finish_reason"]
    assert 5 == used(paid, visitor, 1)[THERE].prompt_tokens


def test_calls_that_a_server_does_not_number_are_numbered(visitor: Caller) -> None:
    """As in streams of older versions of Ollama: OpenAI's package puts each call together."""
    messages: list[Any] = [{"role": "user", "content": "[up:unnumbered]"}]
    sent = events(visitor, {"model": THERE, "messages": messages, "tools": TOOLS, "stream": True})
    with package(visitor).chat.completions.stream(model=THERE, messages=messages, tools=TOOLS) as stream:
        gathered = stream.get_final_completion().choices[0].message.tool_calls

    parts = [part for chunk in sent[:-1] for part in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [0, 0, 1] == [part["index"] for part in parts]
    assert gathered is not None
    assert [("weather", '{"city": "Köln"}'), ("time", "")] == [
        (call.function.name, call.function.arguments) for call in gathered
    ]


def test_an_empty_reason_is_no_end(visitor: Caller) -> None:
    """A server that sends `""` until the end has answered only if `[DONE]` follows."""
    whole, lost = (
        events(visitor, body(f"[up:{name}]", model=THERE, stream=True)) for name in ("vague", "lost")
    )

    assert ("stop", "[DONE]") == (whole[-2]["choices"][0]["finish_reason"], whole[-1])
    assert "model_unavailable" == lost[-1]["error"]["code"]


def test_log_probabilities_come_only_where_they_are_asked_for(visitor: Caller) -> None:
    """As the upstream gives them, whole and streamed; what it gives unasked stays there."""
    asked, unasked = (said(visitor, body(model=THERE, logprobs=one))["choices"][0] for one in (True, False))
    streamed = events(visitor, body(model=THERE, logprobs=True, stream=True))

    assert (LOGPROBS, None) == (asked["logprobs"], unasked["logprobs"])
    assert [LOGPROBS] * 2 == [
        choice["logprobs"] for chunk in streamed[:-1] for choice in chunk["choices"] if "logprobs" in choice
    ]


def test_several_answers_keep_their_numbers(paid: Operator, visitor: Caller) -> None:
    """`n` answers, whole and streamed, each with its end; the usage of all of them is one call's."""
    whole = said(visitor, body("Hello.", model=THERE, n=3))
    streamed = events(visitor, body("Hello.", model=THERE, n=2, stream=True))[:-1]

    assert [0, 1, 2] == [choice["index"] for choice in whole["choices"]]
    assert ["Hello."] * 3 == [choice["message"]["content"] for choice in whole["choices"]]
    choices = [chunk["choices"][0] for chunk in streamed]
    for index in (0, 1):
        own = [choice for choice in choices if choice["index"] == index]
        assert ["", "one", " two", None] == [choice["delta"].get("content") for choice in own]
        assert [None, None, None, "length"] == [choice["finish_reason"] for choice in own]
    assert 2 == used(paid, visitor, 2)[THERE].calls


def test_openais_own_package_calls_tools(visitor: Caller) -> None:
    """The model's message goes back as the package gives it, with the tools' results behind it."""
    client = package(visitor)
    history: list[Any] = [{"role": "user", "content": "[up:tools]"}]
    answer = client.chat.completions.create(model=THERE, messages=history, tools=TOOLS)
    message = answer.choices[0].message
    assert message.tool_calls is not None
    results = [{"role": "tool", "tool_call_id": call.id, "content": "x"} for call in message.tool_calls]
    history += [message, *results]
    final = client.chat.completions.create(model=THERE, messages=history, tools=TOOLS)
    with client.chat.completions.stream(model=THERE, messages=history[:1], tools=TOOLS) as stream:
        gathered = stream.get_final_completion().choices[0].message.tool_calls

    assert ["weather", "time"] == [
        call.function.name for call in message.tool_calls if call.type == "function"
    ]
    assert "x" == final.choices[0].message.content
    assert gathered is not None
    assert ['{"city": "Köln"}', ""] == [call.function.arguments for call in gathered]


@pytest.mark.parametrize("route", ["chat/completions", "responses"])
def test_a_conversation_may_be_as_long_as_the_documents_say(
    visitor: Caller, upstream: UpstreamServer, route: str
) -> None:
    """4,096 messages, in a chat half of them calls and half results, with 128 tools as agents have them."""
    is_chat = route == "chat/completions"
    properties = {name: {"type": "string", "description": "x", "enum": ["a", "b"]} for name in "abcdefgh"}
    parameters = {"type": "object", "properties": properties, "required": ["a", "b"]}
    tool = {"type": "function", "function": {"name": "f", "description": "x", "parameters": parameters}}
    rounds = [
        {"role": "assistant", "content": None, "tool_calls": CALLS[:1]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    texts = [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]
    conversation = {"messages": rounds * 2048, "tools": [tool] * 128} if is_chat else {"input": texts * 4096}
    answer = openai_post(visitor, f"/v1/{route}", {"model": THERE, **conversation})

    assert 200 == answer.status_code, answer.text
    assert 4096 == len(upstream.seen.bodies[-1]["messages"])


def test_no_address_reaches_an_upstream(visitor: Caller, upstream: UpstreamServer) -> None:
    """Of a picture, a recording, a file, a tool or a schema: refused by name; features/chat has more."""
    before = len(upstream.seen.bodies)
    address = "http://169.254.169.254/latest/meta-data/"
    schema = {"type": "json_schema", "name": "x", "schema": {"$ref": address}}
    parts: list[Any] = [
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "input_audio", "input_audio": {"data": address}},
        {"type": "input_image", "image_url": address},
        {"type": "input_image", "image_url": {"url": address}},
        {"type": "input_file", "file_url": address},
    ]
    asked: list[tuple[str, Any]] = [
        ("chat/completions", {"messages": [{"role": "user", "content": [part]}]}) for part in parts[:2]
    ]
    asked += [("responses", {"input": [{"role": "user", "content": [part]}]}) for part in parts[2:]]
    asked += [
        ("responses", {"input": "x", "tools": [{"type": "mcp", "server_url": address}]}),
        ("responses", {"input": "x", "text": {"format": schema}}),
    ]
    answers = [openai_post(visitor, f"/v1/{path}", {"model": THERE} | value) for path, value in asked]
    named = [[param for param, _ in faults(answer)] for answer in answers]

    assert ["messages[0].content[0].image_url.url"] == named[0]
    assert "messages[0].content[0].type" in named[1]
    assert all(params[0].startswith("input[0].content[0]") for params in named[2:5])
    assert [["tools"], ["text.format.schema"]] == named[5:]
    assert before == len(upstream.seen.bodies)
