"""The fields of a chat completion: what is taken, what is refused, and that all faults are named at once."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenuto.config import ModelSettings, Settings, UpstreamSettings
from tenuto.features.chat import chat_body as chat
from tenuto.features.chat.catalog import taken_by
from tenuto.features.chat.chat_body import ChatRequest
from tenuto.features.chat.messages import Image, Message
from tenuto.kind.model import models

MESSAGES = [{"role": "user", "content": "Hello."}]


TOOLS = [
    {"type": "function", "function": {"name": "a", "parameters": {"b": [1, None]}, "strict": None}},
    {"type": "function", "function": {"name": "c", "description": ""}},
]
BEYOND_TEXT: dict[str, Any] = {
    "tools": TOOLS,
    "tool_choice": {"type": "function", "function": {"name": "a"}},
    "parallel_tool_calls": False,
    "logprobs": True,
    "top_logprobs": 20,
    "logit_bias": {"50256": -100, "11": 0.5},
    "reasoning_effort": "low",
    "n": 8,
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "a", "arguments": "{}"}}


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "a/b", "messages": MESSAGES} | fields


def faults(value: Any) -> list[tuple[str, str]]:
    request, found = chat.check(value)
    assert request is None
    assert all(fault.message for fault in found)
    return sorted((fault.param, fault.code) for fault in found)


def read(value: Any) -> ChatRequest:
    request, found = chat.check(value)
    assert request is not None, found
    return request


def test_model_and_messages_are_enough() -> None:
    """What the caller leaves out stays unset, so that the model's own defaults hold (R191, R192)."""
    assert ChatRequest(model="a/b", messages=(Message("user", "Hello."),)) == read(body())


def test_every_honoured_field_is_kept() -> None:
    """Each field of OpenAI's that changes an answer comes through as it was sent (R193, R194)."""
    sent: dict[str, Any] = {
        "temperature": 0,
        "top_p": 0.5,
        "max_tokens": 7,
        "stop": ["a", "b"],
        "seed": -(2**63),
        "presence_penalty": -2,
        "frequency_penalty": 2.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "response_format": {"type": "text"},
        **BEYOND_TEXT,
    }

    plain = {name: value for name, value in sent.items() if name not in ("stop", "stream_options", "tools")}
    expected = ChatRequest(
        model="a/b",
        messages=(Message("user", "Hello."),),
        stop=("a", "b"),
        include_usage=True,
        tools=tuple(TOOLS),
        **plain,
    )
    assert expected == read(body(**sent))


def test_fields_without_effect_are_taken() -> None:
    hints = ("prompt_cache_key", "prompt_cache_retention", "safety_identifier")
    usual = {"service_tier": "default", "verbosity": "medium", "modalities": ["text"]}
    other = {"service_tier": "flex", "verbosity": "low", "modalities": ["text", "audio"]}

    assert read(body()) == read(body(user="", metadata={"a": "b"}, store=False))
    assert read(body()) == read(body(**dict.fromkeys(hints, "x"), **usual))
    assert [(name, "not_allowed") for name in sorted(other)] == faults(body(**other))


@pytest.mark.parametrize(
    "name", sorted({field.name for field in chat.FIELDS if not field.required} | {*chat.NOT_SUPPORTED})
)
def test_a_field_that_is_null_counts_as_left_out(name: str) -> None:
    """Programs made for OpenAI send null for what was not given, as its API allows (R192)."""
    assert read(body()) == read(body(**{name: None}))


def test_an_answer_can_be_sent_back_as_openai_packages_give_it() -> None:
    """Their message has a null for each field that the answer did not have."""
    nothing: dict[str, Any] = dict.fromkeys(("refusal", "audio", "function_call", "tool_calls", "name"))
    answer = {"role": "assistant", "content": "Hello.", "annotations": [], **nothing}

    assert (Message("assistant", "Hello."),) == read(body(messages=[answer])).messages
    assert (Message("assistant", "Hello."),) == read(body(messages=[answer | {"annotations": None}])).messages


def test_null_counts_as_left_out_in_every_object_of_a_chat() -> None:
    """In tools, schemas, pictures and calls; only within a JSON Schema it is a value of its own."""
    schema = {"name": "a", "schema": {"default": None}}
    image = {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AAAA"}}
    bare = {"name": "c", "parameters": {"default": None}}
    sent = body(
        messages=[{"role": "user", "content": [{"type": "text", "text": "x"}, image]}],
        tools=[{"type": "function", "function": bare}],
        response_format={"type": "json_schema", "json_schema": schema},
        stream=True,
        stream_options={},
    )
    given = msgspec.json.decode(msgspec.json.encode(sent))
    given["messages"][0]["content"][1]["image_url"]["detail"] = None
    given["tools"][0]["function"]["description"] = None
    given["response_format"]["json_schema"]["description"] = None
    given["stream_options"]["include_usage"] = None

    assert read(sent) == read(given)


def test_pictures_calls_and_their_results_are_kept() -> None:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny"}
    asked = {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "what?"}, IMAGE]}
    calling = {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None}
    without = {"role": "assistant", "tool_calls": [CALL]}

    assert (
        Message("user", ("what?", Image("data:image/png;base64,AA==", "low")), {"name": "Ann"}),
        Message("assistant", None, {"tool_calls": (CALL,)}),
        Message("assistant", None, {"tool_calls": (CALL,)}),
        Message("tool", "sunny", {"tool_call_id": "call_1"}),
    ) == read(body(messages=[asked, calling, without, result])).messages


def test_what_a_model_does_not_take_is_named() -> None:
    content = [{"type": "text", "text": "x"}, IMAGE]
    messages = [
        {"role": "user", "name": "Ann", "content": content},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "x"},
    ]
    sent = body(**BEYOND_TEXT | {"response_format": {"type": "json_object"}, "messages": messages})
    nothing = {"n": 1, "logprobs": False, "response_format": {"type": "text"}}

    beyond = [*BEYOND_TEXT, "response_format", "messages[0].content", "messages[0].name"]
    beyond += ["messages[1].tool_calls", "messages[2].role"]
    found = chat.check(sent, ())[1]
    assert sorted((name, "not_allowed") for name in beyond) == sorted((one.param, one.code) for one in found)
    assert [] == chat.check(body(**nothing), ())[1]
    assert ["n"] == [
        one.param for one in chat.check(body(**BEYOND_TEXT), set(chat.NEEDS.values()) - {"n"})[1]
    ]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_tokens_is_a_whole_number(name: str) -> None:
    """Parts of a token, 0 and `true` are no limit (R194)."""
    assert 30 == read(body(**{name: 30})).limit
    for wrong, code in ((0, "out_of_range"), (1.5, "wrong_type"), (True, "wrong_type"), ("9", "wrong_type")):
        assert [(name, code)] == faults(body(**{name: wrong}))


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"temperature": 2.1}, [("temperature", "out_of_range")]),
        ({"seed": 1.5}, [("seed", "wrong_type")]),
        ({"seed": 2**63}, [("seed", "out_of_range")]),
        ({"stop": []}, [("stop", "wrong_length")]),
        ({"stop": ["a", ""]}, [("stop[1]", "empty")]),
        ({"stop": 7}, [("stop", "wrong_type")]),
        ({"n": 9}, [("n", "out_of_range")]),
        ({"response_format": {"type": "xml"}}, [("response_format.type", "not_allowed")]),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            [
                ("response_format.json_schema.name", "required"),
                ("response_format.json_schema.schema", "wrong_type"),
            ],
        ),
        (
            {"response_format": {"type": "text", "json_schema": {}}},
            [("response_format.json_schema", "unknown_name")],
        ),
        ({"stream": "true"}, [("stream", "wrong_type")]),
        ({"stream_options": {}}, [("stream_options", "requires")]),
        (
            {"stream": True, "stream_options": {"include_obfuscation": True}},
            [("stream_options.include_obfuscation", "not_allowed")],
        ),
        ({"store": True}, [("store", "not_allowed")]),
        ({"max_tokens": 1, "max_completion_tokens": 1}, [("max_tokens", "conflict")]),
        ({"tools": []}, [("tools", "wrong_length")]),
        (
            {"tools": [{"type": "custom", "function": {}}]},
            [("tools[0].function.name", "required"), ("tools[0].type", "not_allowed")],
        ),
        ({"tool_choice": "any"}, [("tool_choice", "not_allowed")]),
        ({"top_logprobs": 2}, [("top_logprobs", "requires")]),
        (
            {"logit_bias": {"x": 101, "y": "1"}},
            [("logit_bias.x", "out_of_range"), ("logit_bias.y", "wrong_type")],
        ),
        ({"functions": []}, [("functions", "not_allowed")]),
        ({"top_k": 40}, [("top_k", "unknown_name")]),
        ({"messages": []}, [("messages", "wrong_length")]),
        ({"messages": "Hello."}, [("messages", "wrong_type")]),
        ({"messages": [{"role": "tool", "content": "x"}]}, [("messages[0].tool_call_id", "required")]),
        ({"messages": [{"role": "function", "content": "x"}]}, [("messages[0].role", "not_allowed")]),
        (
            {"messages": [{"role": "user", "content": "x", "tool_calls": []}]},
            [("messages[0].tool_calls", "unknown_name")],
        ),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
            [("messages[0].content", "wrong_type"), ("messages[0].tool_calls", "wrong_length")],
        ),
        ({"messages": [{"role": "user", "content": None}]}, [("messages[0].content", "wrong_type")]),
        (
            {"messages": [{"role": "assistant", "content": "", "audio": {"id": "x"}}]},
            [("messages[0].audio", "unknown_name")],
        ),
        ({"messages": [{"role": "user", "content": []}]}, [("messages[0].content", "wrong_length")]),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "text": "x"}]}]},
            [
                ("messages[0].content[0].image_url", "required"),
                ("messages[0].content[0].text", "unknown_name"),
            ],
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///x"}}]}
                ]
            },
            [("messages[0].content[0].image_url.url", "not_allowed")],
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio", "text": "x"}]}]},
            [("messages[0].content[0].type", "not_allowed")],
        ),
    ],
)
def test_what_is_wrong_is_named(sent: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """Ranges, types, unsupported and private fields: each is refused by name (R192–R194, R199)."""
    assert expected == faults(body(**sent))


def pictured(url: str) -> dict[str, Any]:
    content = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": url}}]
    return body(messages=[{"role": "tool", "tool_call_id": "1", "content": content}])


@pytest.mark.parametrize(
    "url",
    [
        "https://host/a.png",
        "HTTPS://10.0.0.1:8000/v1?a=b",
        "http://169.254.169.254/latest/meta-data/",
        "https:///a.png",
        "https://host",
        "https://me@host/a.png",
        "https://host\\@other/a.png",
        " https://host/a.png",
        "https://host/\ndata:image/png;base64,AAAA",
        "file:///etc/passwd",
        "data:image/svg+xml;base64,AAAA",
        "data:image/png,AAAA",
        "data:image/png;base64,",
        "data:image/png;base64,AAAA http://host/",
    ],
)
def test_a_picture_is_no_address(url: str) -> None:
    """Its server would open it from within the operator's network; SVG can name addresses itself."""
    request, found = chat.check(pictured(url))

    assert (None, ["messages[0].content[1].image_url.url"]) == (request, [fault.param for fault in found])
    assert "data:image/png;base64, with the picture" in found[0].message


def test_addresses_of_pictures_are_the_operators_choice() -> None:
    there = UpstreamSettings("https://there/v1", image_addresses=True)
    settings = Settings(Path(), models={"a/b": ModelSettings(upstream=there)})
    takes = taken_by(models(settings)["a/b"])
    taken = [
        "https://host/a.png?b=c%20#d",
        "https://host",
        "HTTPS://host:8000/",
        "data:image/JPEG;base64,AA==",
    ]
    refused = [
        "http://host/a.png",
        "https:///a.png",
        "https://me@host/",
        "https://host/a b",
        "https://host\\a",
    ]

    assert [[]] * len(taken) == [chat.check(pictured(url), takes)[1] for url in taken]
    assert [1] * len(refused) == [len(chat.check(pictured(url), takes)[1]) for url in refused]


@pytest.mark.parametrize("name", ["$ref", "$dynamicRef", "$recursiveRef"])
def test_a_schema_refers_only_to_itself(name: str) -> None:
    """Some servers open what a schema refers to. A property of this name, `$id` and `$schema` are none."""

    def sent(reference: Any) -> dict[str, Any]:
        inner = {"properties": {name: {}, "b": {name: reference}}}
        schema = {"$schema": "https://json-schema.org/schema", "$id": "https://a", "anyOf": [inner]}
        return body(
            tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}],
            response_format={"type": "json_schema", "json_schema": {"name": "a", "schema": schema}},
        )

    for address in ("http://10.0.0.1/", "https://host/a.json", "file:///etc/passwd", "a.json"):
        assert [
            ("response_format.json_schema.schema", "not_allowed"),
            ("tools[0].function.parameters", "not_allowed"),
        ] == faults(sent(address))
    assert read(sent("#/$defs/a"))


@pytest.mark.parametrize("name", ["$id", "id"])
def test_a_part_of_a_schema_has_no_address(name: str) -> None:
    """Some servers resolve a reference within the schema from the id of the part that it is in, and open
    that. Until draft 4 an `id` is one. Where nothing is referred to, or it is the whole schema's, or an
    example's, nothing is opened."""

    def sent(part: dict[str, Any], **more: Any) -> list[Any]:
        old = {"$schema": "http://json-schema.org/draft-04/schema#"} if name == "id" else {}
        schema = {**old, "properties": {"a": {"anyOf": [part]}, name: {"type": "string"}}, **more}
        _, found = chat.check(
            body(tools=[{"type": "function", "function": {"name": "f", "parameters": schema}}])
        )
        return [fault.param for fault in found]

    refused = ["tools[0].function.parameters"]
    for address in ("http://10.0.0.1/", "//10.0.0.1/", "a.json"):
        part = {name: address, "items": {"$ref": "#/$defs/a"}}
        assert refused == sent(part) == sent({name: address}, items={"$ref": "#"})
        assert [] == sent({name: address}) == sent({"$ref": "#/$defs/a"}, **{name: address})
    assert [] == sent({name: "#a", "$ref": "#a"})
    example = {"examples": [{"id": "https://host/1"}], "$ref": "#/$defs/a"}
    assert name == "id" or [] == sent(example)


def test_all_faults_are_named_at_once() -> None:
    assert [
        ("messages", "required"),
        ("model", "required"),
        ("n", "out_of_range"),
        ("temperature", "wrong_type"),
    ] == faults({"n": 9, "temperature": "hot"})
    assert [("body", "wrong_type")] == faults([])


def test_a_hostile_body_makes_no_long_answer() -> None:
    """After many faults of one sort the rest is not looked at (P14)."""
    assert len(faults(body(messages=[{}] * 4096))) < 64


def test_the_fields_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "chat.md").read_text("utf-8")
    cells = re.findall(r"^\| (`.*?) \|", page.partition("## Fields")[2].partition("\n## ")[0], re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}

    assert {field.name for field in chat.FIELDS} == named
