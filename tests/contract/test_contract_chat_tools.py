"""Chats beyond text: tools, pictures, JSON by a schema, log probabilities, several answers of an upstream."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from servers.callers import ON_ONE_DATABASE, Caller, Operator, faults
from servers.chats import CHAT, NARROW, THERE, body, events, post, said, used
from servers.upstream import CALL_DELTAS, CALLS, LOGPROBS, UpstreamServer

pytestmark = ON_ONE_DATABASE

if TYPE_CHECKING:
    import openai

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


@pytest.fixture
def visitor(chatting: Operator) -> Caller:
    """A new account with a key, on the service with upstreams."""
    return chatting.caller()


@pytest.fixture
def client(visitor: Caller) -> Iterator["openai.OpenAI"]:
    """OpenAI's own package, on our base address."""
    import openai  # Not above: it takes a second, which every process that collects this file would spend.

    url = str(visitor.http.base_url).rstrip("/") + "/v1"
    with openai.OpenAI(base_url=url, api_key=visitor.key, max_retries=0) as client:
        yield client


def test_everything_that_an_upstream_takes_goes_there_unchanged(
    visitor: Caller, upstream: UpstreamServer
) -> None:
    """Tools, pictures, a schema and the rest, word for word; and a conversation that has called tools."""
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "Here?"}, PICTURE]},
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "noon"}]},
        {"role": "assistant", "content": "", "refusal": "No."},
        {"role": "user", "content": "Go on."},
    ]
    fields = {
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "response_format": SCHEMA,
        "logprobs": True,
        "top_logprobs": 3,
        "logit_bias": {"11": -100},
        "reasoning_effort": "low",
        "n": 2,
        "seed": 7,
        "stop": ["."],
    }
    said(visitor, {"model": THERE, "messages": messages, **fields})

    assert {"model": "their-name", "messages": messages, **fields} == upstream.seen.bodies[-1]


def test_deltas_of_tool_calls_are_sent_on_one_by_one(chatting: Operator, visitor: Caller) -> None:
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
    assert 5 == used(chatting, visitor, 1)[THERE].prompt_tokens


def test_calls_that_a_server_does_not_number_are_numbered(visitor: Caller, client: "openai.OpenAI") -> None:
    """As in streams of older versions of Ollama: OpenAI's package puts each call together."""
    messages: list[Any] = [{"role": "user", "content": "[up:unnumbered]"}]
    sent = events(visitor, {"model": THERE, "messages": messages, "tools": TOOLS, "stream": True})
    with client.chat.completions.stream(model=THERE, messages=messages, tools=TOOLS) as stream:
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


def test_several_answers_keep_their_numbers(chatting: Operator, visitor: Caller) -> None:
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
    assert 2 == used(chatting, visitor, 2)[THERE].calls


def test_openais_own_package_calls_tools(client: "openai.OpenAI") -> None:
    """The model's message goes back as the package gives it, with the tools' results behind it."""
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


def test_calls_that_were_collected_from_a_stream_can_be_sent_back(
    visitor: Caller, upstream: UpstreamServer
) -> None:
    """As Open WebUI does it, with the `index` of each call; and a result may name its function."""
    sent = events(visitor, body("[up:tools]", model=THERE, tools=TOOLS, stream=True))[:-1]
    collected: dict[int, Any] = {}
    for part in (one for chunk in sent for one in chunk["choices"][0]["delta"].get("tool_calls", ())):
        if part["index"] in collected:
            collected[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
        else:
            collected[part["index"]] = part
    result = {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "sunny"}
    messages = [
        {"role": "user", "content": "Here?"},
        {"role": "assistant", "content": "", "tool_calls": list(collected.values())},
        result,
    ]
    said(visitor, {"model": THERE, "messages": messages, "tools": TOOLS})

    messages[1] = {"role": "assistant", "content": "", "tool_calls": CALLS}
    assert messages == upstream.seen.bodies[-1]["messages"]


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
    content = json.dumps({"model": THERE, **conversation}).encode()
    headers = {"Content-Type": "application/json"}
    answer = visitor.request("POST", f"/v1/{route}", headers=headers, content=content)

    assert 200 == answer.status_code, answer.text
    assert 4096 == len(upstream.seen.bodies[-1]["messages"])


def test_a_model_refuses_by_name_what_it_does_not_take(
    caller: Caller, visitor: Caller, upstream: UpstreamServer
) -> None:
    """An embedded model takes text alone; a narrowed upstream what its table says; nothing is sent."""
    before = len(upstream.seen.bodies)
    content = [{"type": "text", "text": "x"}, PICTURE]
    messages = [{"role": "user", "content": content}, {"role": "assistant", "tool_calls": CALLS}]
    value = {"messages": messages, "tools": TOOLS, "n": 2, "response_format": SCHEMA, "logprobs": True}

    assert [
        ("logprobs", "not_allowed"),
        ("messages[0].content", "not_allowed"),
        ("messages[1].tool_calls", "not_allowed"),
        ("n", "not_allowed"),
        ("response_format", "not_allowed"),
        ("tools", "not_allowed"),
    ] == faults(post(caller, {"model": CHAT, **value}))
    assert [
        ("logprobs", "not_allowed"),
        ("messages[0].content", "not_allowed"),
        ("n", "not_allowed"),
    ] == faults(post(visitor, {"model": NARROW, **value}))
    assert before == len(upstream.seen.bodies)


def test_no_address_reaches_an_upstream(visitor: Caller, upstream: UpstreamServer) -> None:
    """Of a picture in either format, of a schema, of a tool, a file or a recording: refused by name."""
    before = len(upstream.seen.bodies)
    address = "http://169.254.169.254/latest/meta-data/"
    tool = {"type": "mcp", "server_label": "x", "server_url": address}
    schema = {"type": "json_schema", "name": "x", "schema": {"$ref": address}}

    def asked(path: str, **fields: Any) -> list[str]:
        headers = {"Content-Type": "application/json"}
        content = json.dumps({"model": THERE} | fields).encode()
        answer = visitor.request("POST", f"/v1/{path}", headers=headers, content=content)
        return [param for param, _ in faults(answer)]

    def chat(part: Any, role: str = "user") -> list[str]:
        return asked("chat/completions", messages=[{"role": role, "content": [part]}])

    def response(part: Any) -> list[str]:
        return asked("responses", input=[{"role": "user", "content": [part]}])

    picture = {"type": "image_url", "image_url": {"url": address}}
    assert ["messages[0].content[0].image_url.url"] * 2 == chat(picture) + chat(picture, "system")
    assert "messages[0].content[0].type" in chat({"type": "input_audio", "input_audio": {"data": address}})
    assert "messages[0].content[0].type" in chat({"type": "file", "file": {"file_data": address}})
    assert ["tools[0].type"] == asked(
        "chat/completions", messages=[{"role": "user", "content": "x"}], tools=[tool]
    )[-1:]
    for url in (address, {"url": address}):
        assert any(
            param.startswith("input[0].content[0]")
            for param in response({"type": "input_image", "image_url": url})
        )
    assert response({"type": "input_file", "file_url": address})
    assert ["tools"] == asked("responses", input="x", tools=[tool])
    assert ["text.format.schema"] == asked("responses", input="x", text={"format": schema})
    assert before == len(upstream.seen.bodies)


def test_the_catalog_says_what_a_model_takes(visitor: Caller) -> None:
    """Fields that a model takes are among those that it honours; pictures are `image_url`."""
    listed = {entry["id"]: entry["honoured_parameters"] for entry in visitor.get("/v1/models").json()["data"]}

    beyond = {"tools", "tool_choice", "logprobs", "logit_bias", "image_url"}
    assert beyond <= set(listed[THERE])
    assert {"tools", "tool_choice"} == beyond & set(listed[NARROW])
    assert not beyond & set(listed[CHAT])
