"""Chat completions: the fields of a request, and the rules their values obey.

Every field of OpenAI's is named here: honoured, accepted without effect, or refused. Nothing here knows which
models there are, or how they answer.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from tenuto.bodies.envelope import MAX_MODEL_CHARACTERS, Metadata
from tenuto.bodies.fields import (
    Boolean,
    Choice,
    Field,
    Integer,
    Number,
    Rule,
    Text,
    by_name,
    declared,
    quoted,
    read_fields,
    read_items,
    wrong_type,
)
from tenuto.errors import Fault

ROLES = ("system", "user", "assistant")
MAX_MESSAGES = 4096
MAX_PARTS = 256
MAX_TOKENS = 10_000_000
MAX_STOPS = 4
MAX_STOP_CHARACTERS = 256
MAX_USER_CHARACTERS = 512
MAX_TEXT_CHARACTERS = 1 << 30
"""Of a part of a message: only the body has a limit."""


class Message(msgspec.Struct, frozen=True):
    """One message. `content` is a text, or the texts of its parts in order."""

    role: str
    content: str | tuple[str, ...]

    @property
    def text(self) -> str:
        """The content as one text; each part on a line of its own."""
        return self.content if isinstance(self.content, str) else "\n".join(self.content)


class _Message:
    """One message: role and content."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Message | None:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object with role and content"))
            return None
        values = read_fields(_MESSAGE, value, f"{param}.", faults)
        return Message(**values) if len(values) == len(_MESSAGE) else None


class _Part:
    """One part of a content: a text."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> str:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object with type and text"))
            return ""
        text: str = read_fields(_PART, value, f"{param}.", faults).get("text", "")
        return text


class _Items:
    """An array of 1 to `most` items; or, with `or_text`, a string instead."""

    def __init__(self, item: Rule, most: int, noun: str, expected: str, *, or_text: bool = False) -> None:
        self.item, self.most, self.noun, self.expected, self.or_text = item, most, noun, expected, or_text

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if self.or_text and type(value) is str:
            return value
        if type(value) is not list:
            faults.append(wrong_type(param, value, self.expected))
            return value
        if not 1 <= len(value) <= self.most:
            message = f"has {len(value)} {self.noun}; from 1 to {self.most} are allowed"
            faults.append(Fault(param, "wrong_length", message))
            return value
        return tuple(read_items(self.item, param, value, faults))


class _TokenLimit:
    """A number of tokens. The contract says number, so a whole one is taken in either form (`30`, `30.0`)."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        whole = int(value) if type(value) is float and value.is_integer() else value
        return Integer(1, MAX_TOKENS, "tokens").read(param, whole, faults)


class _Stop:
    """One text that ends the answer, or up to four; the answer ends before it."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        rule = Text(MAX_STOP_CHARACTERS, "characters")
        if type(value) is str:
            return (rule.read(param, value, faults),)
        return _Items(rule, MAX_STOPS, "items", "a string or an array of strings").read(param, value, faults)


class _Only:
    """A field of which one value is supported."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not type(self.value) or value != self.value:
            faults.append(
                Fault(param, "not_allowed", f"is {quoted(value)}; only {quoted(self.value)} is supported")
            )
        return value


class _Object:
    """An object with fields of its own."""

    def __init__(self, *fields: Field) -> None:
        self.fields = by_name(fields)

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object"))
            return value
        return read_fields(self.fields, value, f"{param}.", faults)


class _Refused:
    """A field of OpenAI's that is not supported, whatever its value."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        faults.append(Fault(param, "not_allowed", "is not supported by this service; leave it out"))
        return value


_MESSAGES = _Items(_Message(), MAX_MESSAGES, "messages", "an array of messages")
_CONTENT = _Items(_Part(), MAX_PARTS, "parts", "a string or an array of text parts", or_text=True)
_ANY_TEXT = Text(MAX_TEXT_CHARACTERS, "characters", may_be_empty=True)


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request. Each field is declared once; `openapi.yaml` and the documents are compared with it.

    None: the caller left it out, and the model's own default holds.
    """

    model: Annotated[str, Text(MAX_MODEL_CHARACTERS, "characters"), "The model's full public name."]
    messages: Annotated[tuple[Message, ...], _MESSAGES, "The conversation, oldest first."]
    temperature: Annotated[float | None, Number(0, 2), "Randomness; 0 takes the likeliest token."] = None
    top_p: Annotated[
        float | None, Number(0, 1), "Only the likeliest tokens that together have this probability."
    ] = None
    max_tokens: Annotated[int | None, _TokenLimit(), "The most tokens of the answer."] = None
    max_completion_tokens: Annotated[int | None, _TokenLimit(), "The same under its newer name."] = None
    seed: Annotated[int | None, Integer(-(2**63), 2**63 - 1), "Fixes the randomness."] = None
    presence_penalty: Annotated[
        float | None, Number(-2, 2), "Above 0: fewer tokens that occurred at all."
    ] = None
    frequency_penalty: Annotated[
        float | None, Number(-2, 2), "Above 0: fewer tokens that occurred often."
    ] = None
    stop: Annotated[tuple[str, ...], _Stop(), "Texts before which the answer ends."] = ()
    stream: Annotated[bool, Boolean(), "Send the answer in pieces."] = False
    # From `stream_options`.
    include_usage: bool = False

    @property
    def limit(self) -> int | None:
        """The most tokens that the answer may have, under whichever of its two names."""
        return self.max_completion_tokens if self.max_tokens is None else self.max_tokens


FIELDS = (
    *declared(ChatRequest),
    Field(
        "stream_options",
        _Object(Field("include_usage", Boolean(), "A last piece with the usage.")),
        "Only with `stream`.",
    ),
    Field("n", _Only(1), "One answer."),
    Field("response_format", _Object(Field("type", _Only("text"), "Text.", required=True)), "Text."),
    Field("user", Text(MAX_USER_CHARACTERS, "characters", may_be_empty=True), "Accepted, without effect."),
    Field("metadata", Metadata(), "Accepted, without effect."),
    Field("store", _Only(False), "Nothing of a chat is kept."),
)

NOT_SUPPORTED = (
    *("tools", "tool_choice", "parallel_tool_calls", "functions", "function_call", "logprobs"),
    *("top_logprobs", "logit_bias", "modalities", "audio", "prediction", "reasoning_effort"),
    *("service_tier", "verbosity", "web_search_options", "prompt_cache_key", "safety_identifier"),
    *("best_of", "echo"),
)

_BY_NAME: Mapping[str, Field] = by_name(FIELDS)
_READ: Mapping[str, Field] = {
    **by_name(Field(name, _Refused(), "Not supported.") for name in NOT_SUPPORTED),
    **_BY_NAME,
}
_ROLE = Field("role", Choice(ROLES), "Who speaks.", required=True)
_MESSAGE = by_name(
    (
        _ROLE,
        Field(
            "content",
            _CONTENT,
            "What is said.",
            required=True,
        ),
    )
)
_PART = by_name(
    (
        Field("type", _Only("text"), "Text is the only type of part.", required=True),
        Field(
            "text",
            _ANY_TEXT,
            "The text of the part.",
            required=True,
        ),
    )
)


def check(body: Any) -> tuple[ChatRequest | None, list[Fault]]:
    """The request, or None and all that is wrong with it."""
    if type(body) is not dict:
        return None, [wrong_type("body", body, "an object")]
    faults: list[Fault] = []
    values = read_fields(_READ, body, "", faults)
    if "max_tokens" in body and "max_completion_tokens" in body:
        message = "excludes max_completion_tokens, its newer name; send one of the two"
        faults.append(Fault("max_tokens", "conflict", message))
    if "stream_options" in body and body.get("stream") is not True:
        message = "is used only with stream true; send that too or leave it out"
        faults.append(Fault("stream_options", "requires", message))
    if faults:
        return None, faults
    options = values.get("stream_options", {})
    own = {name: value for name, value in values.items() if name in ChatRequest.__struct_fields__}
    return ChatRequest(**own, include_usage=options.get("include_usage", False)), faults
