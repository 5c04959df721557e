"""Chat completions: the fields of a request, and the rules for their values.

Every field of OpenAI's API is named here: honoured, accepted without effect, or refused. Nothing here knows
which models there are, or how they answer.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

import msgspec

from tenuto.config import CHAT_FEATURES, IMAGE_ADDRESSES
from tenuto.errors import Fault
from tenuto.features.chat.messages import (
    MAX_NAME_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    MESSAGES,
    TOOLS,
    Items,
    Message,
    Nullable,
    Object,
    Only,
    Schema,
    ToolChoice,
    addresses,
    without_nulls,
)
from tenuto.kind.envelope import MAX_MODEL_CHARACTERS, Metadata
from tenuto.rules import (
    MAX_FAULTS_NAMED,
    Boolean,
    Choice,
    Field,
    Integer,
    Number,
    Text,
    by_name,
    declared,
    read_fields,
    short,
    wrong_type,
)

MAX_TOKENS = 10_000_000
TOKENS = Integer(1, MAX_TOKENS, "tokens")
MAX_STOPS = 4
MAX_STOP_CHARACTERS = 256
MAX_USER_CHARACTERS = 512
MAX_CHOICES = 8
MAX_TOP_LOGPROBS = 20
MAX_BIASES = 1024


class _Stop:
    """One to four texts; the answer ends before the first that occurs."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        rule = Text(MAX_STOP_CHARACTERS, "characters")
        if type(value) is str:
            return (rule.read(param, value, faults),)
        return Items(rule, MAX_STOPS, "items", "a string or an array of strings").read(param, value, faults)


class _Biases:
    """Numbers by token: how much likelier each token becomes."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object of numbers by token"))
            return value
        if len(value) > MAX_BIASES:
            message = f"has {len(value)} tokens; at most {MAX_BIASES} are allowed"
            faults.append(Fault(param, "wrong_length", message))
            return value
        before = len(faults)
        for name, item in value.items():
            if len(faults) - before < MAX_FAULTS_NAMED:
                Number(-100, 100).read(f"{param}.{short(name)}", item, faults)
        return value


class _Format:
    """Text, JSON, or JSON that follows a schema."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        has_schema = type(value) is dict and value.get("type") == "json_schema"
        return (_BY_SCHEMA if has_schema else _PLAIN).read(param, value, faults)


class _Refused:
    """A field of OpenAI's API that is not supported, whatever its value."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        faults.append(Fault(param, "not_allowed", "is not supported by this service; leave it out"))
        return value


_FORMAT_TYPE = Field("type", Choice(("text", "json_object", "json_schema")), "The form.", required=True)
_PLAIN = Object(_FORMAT_TYPE)
_BY_SCHEMA = Object(
    _FORMAT_TYPE,
    Field(
        "json_schema",
        Object(
            Field("name", Text(MAX_NAME_CHARACTERS, "characters"), "Its name.", required=True),
            Field("description", Text(MAX_TEXT_CHARACTERS, "characters", may_be_empty=True), "What it is."),
            Field("schema", Schema(), "The JSON Schema."),
            Field("strict", Nullable(Boolean()), "Whether the answer follows it exactly."),
        ),
        "The schema.",
        required=True,
    ),
)


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request. Each field is declared once; `openapi.yaml` and the documents are checked against it.

    None: the caller left it out, and the model's own default applies.
    """

    model: Annotated[str, Text(MAX_MODEL_CHARACTERS, "characters"), "The model's full public name."]
    messages: Annotated[tuple[Message, ...], MESSAGES, "The conversation, oldest first."]
    temperature: Annotated[float | None, Number(0, 2), "Randomness; 0 takes the likeliest token."] = None
    top_p: Annotated[
        float | None, Number(0, 1), "Only the likeliest tokens that together have this probability."
    ] = None
    max_tokens: Annotated[int | None, TOKENS, "The most tokens of the answer."] = None
    max_completion_tokens: Annotated[int | None, TOKENS, "The same under its newer name."] = None
    seed: Annotated[int | None, Integer(-(2**63), 2**63 - 1), "Fixes the randomness."] = None
    presence_penalty: Annotated[
        float | None, Number(-2, 2), "Above 0: fewer tokens that occurred at all."
    ] = None
    frequency_penalty: Annotated[
        float | None, Number(-2, 2), "Above 0: fewer tokens that occurred often."
    ] = None
    tools: Annotated[tuple[dict[str, Any], ...] | None, TOOLS, "Functions that the model may call."] = None
    tool_choice: Annotated[
        str | dict[str, Any] | None, ToolChoice(), "Whether it may, must, or which one."
    ] = None
    parallel_tool_calls: Annotated[bool | None, Boolean(), "Whether it may call several at once."] = None
    logprobs: Annotated[bool | None, Boolean(), "Tell how likely each token was."] = None
    top_logprobs: Annotated[
        int | None, Integer(0, MAX_TOP_LOGPROBS), "And how likely the likeliest others were."
    ] = None
    logit_bias: Annotated[dict[str, float] | None, _Biases(), "Makes tokens likelier or less likely."] = None
    reasoning_effort: Annotated[str | None, Text(32, "characters"), "How much it thinks first."] = None
    response_format: Annotated[dict[str, Any] | None, _Format(), "Text, JSON, or JSON by a schema."] = None
    n: Annotated[int, Integer(1, MAX_CHOICES), "How many answers."] = 1
    stop: Annotated[tuple[str, ...], _Stop(), "Texts before which the answer ends."] = ()
    stream: Annotated[bool, Boolean(), "Send the answer in pieces."] = False
    # From `stream_options`.
    include_usage: bool = False

    @property
    def limit(self) -> int | None:
        """The most tokens that the answer may have, whichever of its two names was used."""
        return self.max_completion_tokens if self.max_tokens is None else self.max_tokens


_HINT = Text(MAX_USER_CHARACTERS, "characters", may_be_empty=True)
FIELDS = (
    *declared(ChatRequest),
    Field(
        "stream_options",
        Object(
            Field("include_usage", Boolean(), "A last piece with the usage."),
            Field("include_obfuscation", Only(False), "Nothing is added to the pieces."),
        ),
        "Only with `stream`.",
    ),
    Field("user", _HINT, "Accepted, without effect."),
    Field("metadata", Metadata(), "Accepted, without effect."),
    Field("store", Only(False), "Nothing of a chat is kept."),
    # Clients send these by default. Other values ask for another answer or price, so they are refused.
    Field("service_tier", Choice(("auto", "default")), "Accepted, without effect."),
    Field("verbosity", Only("medium"), "Accepted, without effect."),
    Field("modalities", Only(["text"]), "Accepted, without effect."),
    # Hints for OpenAI's cache and abuse detection, which change no answer.
    Field("prompt_cache_key", _HINT, "Accepted, without effect."),
    Field("prompt_cache_retention", _HINT, "Accepted, without effect."),
    Field("safety_identifier", _HINT, "Accepted, without effect."),
)

NOT_SUPPORTED = ("functions", "function_call", "audio", "prediction", "web_search_options", "best_of", "echo")

NEEDS: Mapping[str, str] = {
    **dict.fromkeys(("tools", "tool_choice", "parallel_tool_calls"), "tools"),
    **dict.fromkeys(("logprobs", "top_logprobs"), "logprobs"),
    **{name: name for name in ("logit_bias", "reasoning_effort", "n")},
    "response_format": "json",
}
"""The feature (of the setting `takes`) that a model needs for each field that not every model accepts."""
_USUAL = {"n": 1, "response_format": {"type": "text"}, "logprobs": False}
"""Values of these fields that every model accepts, as they ask for nothing special."""

_BY_NAME: Mapping[str, Field] = by_name(FIELDS)
_READ: Mapping[str, Field] = {
    **by_name(Field(name, _Refused(), "Not supported.") for name in NOT_SUPPORTED),
    **_BY_NAME,
}


def check(body: Any, takes: Collection[str] = CHAT_FEATURES) -> tuple[ChatRequest | None, list[Fault]]:
    """The request, or None and everything that is wrong with it, for a model that takes these features."""
    if type(body) is not dict:
        return None, [wrong_type("body", body, "an object")]
    body = without_nulls(_READ, body)
    faults: list[Fault] = []
    values = read_fields(_READ, body, "", faults)
    if "max_tokens" in body and "max_completion_tokens" in body:
        message = "excludes max_completion_tokens, its newer name; send one of the two"
        faults.append(Fault("max_tokens", "conflict", message))
    if "stream_options" in body and body.get("stream") is not True:
        message = "is used only with stream true; send that too or leave it out"
        faults.append(Fault("stream_options", "requires", message))
    if "top_logprobs" in body and body.get("logprobs") is not True:
        message = "is used only with logprobs true; send that too or leave it out"
        faults.append(Fault("top_logprobs", "requires", message))
    faults.extend(
        Fault(param, "not_allowed", "this model does not accept it; GET /v1/models lists what it honours")
        for param, feature in _needed(values)
        if feature not in takes
    )
    if IMAGE_ADDRESSES not in takes:
        faults.extend(addresses(values.get("messages", ())))
    if faults:
        return None, faults
    options = values.get("stream_options", {})
    own = {name: value for name, value in values.items() if name in ChatRequest.__struct_fields__}
    return ChatRequest(**own, include_usage=options.get("include_usage", False)), faults


def _needed(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The path of each field that asks more of a model than plain text chat, with the feature it needs."""
    for name, feature in NEEDS.items():
        if name in values and values[name] != _USUAL.get(name):
            yield name, feature
    for number, message in enumerate(values.get("messages", ())):
        param = f"messages[{number}]"
        if message.images:
            yield f"{param}.content", "images"
        if message.role == "tool":
            yield f"{param}.role", "tools"
        for name, feature in (("tool_calls", "tools"), ("name", "names")):
            if name in message.more:
                yield f"{param}.{name}", feature
