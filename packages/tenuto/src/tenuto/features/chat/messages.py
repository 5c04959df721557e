"""Messages and tools of a chat: what a conversation consists of, and the rules for its parts.

Nothing here knows which models there are, or what each of them accepts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tenuto.errors import Fault
from tenuto.rules import (
    Boolean,
    Choice,
    Field,
    Integer,
    Rule,
    Text,
    by_name,
    quoted,
    read_fields,
    read_items,
    short,
    wrong_type,
)

ROLES = ("system", "developer", "user", "assistant", "tool")
MAX_MESSAGES = 4096
MAX_PARTS = 256
MAX_TOOLS = 128
MAX_NAME_CHARACTERS = 256
MAX_TEXT_CHARACTERS = 1 << 30
"""For a part of a message and for a tool call: in effect only the whole body is limited."""
_OF_ANSWERS = frozenset({"annotations", "audio", "function_call"})
"""Fields that OpenAI's packages give an answer's message; sent back with the conversation, they are empty."""
# SVG is not among them: it can name addresses, which its reader would open.
_PICTURE = re.compile(
    r"(?i:data:image/(png|jpe?g|gif|webp|bmp|tiff|avif|hei[cf]);base64,)[A-Za-z0-9+/]++={0,2}\Z"
)
_ADDRESS = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?][!-\[\]-~]{0,4096})?\Z", re.IGNORECASE)
_EXPECTED = "data:image/png;base64, with the picture in base64 (or jpeg, gif, webp)"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_OLD_DRAFT = re.compile("draft-0[34]")
"""Drafts of JSON Schema in which `id` is what `$id` is in later ones."""


class Image(msgspec.Struct, frozen=True):
    """A picture in a message: itself as a `data:` URL, or its address. The model's server reads it."""

    url: str
    detail: str | None = None

    @property
    def is_address(self) -> bool:
        """Whether it is elsewhere."""
        return self.url[:5].lower() != "data:"


class Message(msgspec.Struct, frozen=True):
    """One message. `content` is a text, its parts in order, or None next to tool calls."""

    role: str
    content: str | tuple[str | Image, ...] | None
    more: dict[str, Any] = {}
    """`name`, `tool_calls`, `tool_call_id` and `refusal`, as sent, but for nulls and a call's `index`."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of the content, in order."""
        if self.content is None:
            return ()
        parts = (self.content,) if isinstance(self.content, str) else self.content
        return tuple(part for part in parts if isinstance(part, str))

    @property
    def text(self) -> str:
        """The content as one text; each part on a line of its own."""
        return "\n".join(self.texts)

    @property
    def images(self) -> int:
        """How many pictures it has."""
        return sum(isinstance(part, Image) for part in self.content) if type(self.content) is tuple else 0


class Items:
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


class Only:
    """A field with only one supported value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not type(self.value) or value != self.value:
            faults.append(
                Fault(param, "not_allowed", f"is {quoted(value)}; only {quoted(self.value)} is supported")
            )
        return value


class Object:
    """An object with fields of its own."""

    def __init__(self, *fields: Field, expected: str = "an object") -> None:
        self.fields, self.expected = by_name(fields), expected

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, self.expected))
            return value
        return read_fields(self.fields, without_nulls(self.fields, value), f"{param}.", faults)


class Schema:
    """A JSON Schema, which its consumer validates: here, any object that refers only to itself. Some
    consumers open what a reference names, from within their own network.
    """

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object, a JSON Schema"))
            return value
        reference = _reference(value)
        if reference is not None:
            message = f'refers to "{short(reference)}"; a reference within the schema is expected: #/$defs/…'
            faults.append(Fault(param, "not_allowed", message))
        return value


def _reference(schema: dict[str, Any]) -> str | None:
    """A reference to something outside of the schema, if it has any.

    An id of a part counts if anything is referred to: some consumers resolve `#…` from it, and open it.
    """
    ids = ("$id", "id") if _OLD_DRAFT.search(str(schema.get("$schema"))) else ("$id",)
    waiting: list[Any] = [schema]
    refers, part = False, None
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            references = [one[name] for name in _REFERENCES if type(one.get(name)) is str]
            outside = [each for each in references if not each.startswith("#")]
            if outside:
                return str(outside[0])
            refers |= bool(references)
            named = [one[name] for name in ids if one is not schema and type(one.get(name)) is str]
            part = next((each for each in named if not each.startswith("#")), part)
        waiting += one.values() if type(one) is dict else one if type(one) is list else ()
    return part if refers else None


class Nullable:
    """What another rule accepts, or null."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        return None if value is None else self.rule.read(param, value, faults)


def without_nulls(fields: Mapping[str, Field], value: Mapping[str, Any]) -> dict[str, Any]:
    """What an object has beside null for fields that cannot be null: in OpenAI's API that leaves them out."""
    return {
        name: item
        for name, item in value.items()
        if item is not None or (field := fields.get(name)) is None or isinstance(field.rule, Nullable)
    }


class ToolChoice:
    """A word, or the one function that must be called."""

    words = ("none", "auto", "required")

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is dict:
            return _CHOSEN.read(param, value, faults)
        return Choice(self.words).read(param, value, faults)


class _ImageUrl:
    """The picture itself, or an `https:` address: anything else would name something on the upstream's side.
    Whether a model takes addresses is checked by `chat.check`.
    """

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(wrong_type(param, value, "a string"))
        elif not _PICTURE.match(value) and not _ADDRESS.match(value):
            faults.append(Fault(param, "not_allowed", f'is "{short(value)}"; {_EXPECTED} is expected'))
        return value


def addresses(messages: Sequence[Message]) -> list[Fault]:
    """A fault for each picture that is an address, for a model that takes none."""
    return [
        Fault(
            f"messages[{number}].content[{index}].image_url.url",
            "not_allowed",
            f"is an address, and this model takes none; {_EXPECTED} is expected",
        )
        for number, message in enumerate(messages)
        if message.images
        for index, part in enumerate(message.content or ())
        if isinstance(part, Image) and part.is_address
    ]


class _Part:
    """One part of a message's content: a text or a picture."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> str | Image:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object with type and text"))
            return ""
        if value.get("type") != "image_url":
            text: str = _TEXT_PART.read(param, value, faults).get("text", "")
            return text
        image = _IMAGE_PART.read(param, value, faults).get("image_url")
        return Image(image["url"], image.get("detail")) if image and "url" in image else ""


class _Call:
    """A call of a tool. Its `index` among the streamed calls, which programs that collect a stream send
    back with the rest, means nothing in a message, and is left out.
    """

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        call = _CALL.read(param, value, faults)
        return {name: item for name, item in call.items() if name != "index"} if type(call) is dict else call


class _Message:
    """One message: role, content and the role's other fields."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Message | None:
        if type(value) is not dict:
            faults.append(wrong_type(param, value, "an object with role and content"))
            return None
        before = len(faults)
        fields = _fields_of(value)
        sent = {name: item for name, item in value.items() if item or name not in _OF_ANSWERS}
        values = read_fields(fields, without_nulls(_OF_ALL_ROLES, sent), f"{param}.", faults)
        if len(faults) > before:
            return None
        role, content = values.pop("role"), values.pop("content", None)
        return Message(role, content, values)


def _fields_of(message: dict[str, Any]) -> Mapping[str, Field]:
    match message.get("role"):
        case "assistant" if message.get("tool_calls") or message.get("refusal"):
            return _CALLING
        case "assistant":
            return _ASSISTANT
        case "tool":
            return _TOOL
    return _MESSAGE


_ANY_TEXT = Text(MAX_TEXT_CHARACTERS, "characters", may_be_empty=True)
_NAME = Text(MAX_NAME_CHARACTERS, "characters")
_TEXT_PART = Object(
    Field("type", Only("text"), "A text, or `image_url`.", required=True),
    Field("text", _ANY_TEXT, "The text of the part.", required=True),
)
_IMAGE = Object(
    Field("url", _ImageUrl(), "Where it is, or what it is.", required=True),
    Field("detail", Text(16, "characters"), "How closely it is looked at."),
)
_IMAGE_PART = Object(
    Field("type", Only("image_url"), "A picture.", required=True),
    Field("image_url", _IMAGE, "The picture.", required=True),
)
_CONTENT = Items(_Part(), MAX_PARTS, "parts", "a string or an array of parts", or_text=True)
_ROLE = Field("role", Choice(ROLES), "Who speaks.", required=True)
_SAID = Field("content", _CONTENT, "What is said.", required=True)
_OF_NAME = Field("name", _NAME, "Who speaks, among several of a role.")
_CHOSEN = Object(
    Field("type", Only("function"), "A function.", required=True),
    Field(
        "function", Object(Field("name", _NAME, "Its name.", required=True)), "The function.", required=True
    ),
    expected="auto, none, required or an object that names a function",
)
_CALL = Object(
    Field("id", _NAME, "What its result names.", required=True),
    Field("index", Integer(0, MAX_TOOLS), "Its number in the stream that it comes from."),
    Field("type", Only("function"), "A function.", required=True),
    Field(
        "function",
        Object(
            Field("name", _NAME, "Which function.", required=True),
            Field("arguments", _ANY_TEXT, "Its arguments, JSON as a text.", required=True),
        ),
        "The call.",
        required=True,
    ),
)
_CALLS = Field("tool_calls", Items(_Call(), MAX_TOOLS, "calls", "an array of calls"), "What the model calls.")
_REFUSAL = Field("refusal", _ANY_TEXT, "Why the model did not answer.")
_MESSAGE = by_name((_ROLE, _SAID, _OF_NAME))
_ASSISTANT = by_name((_ROLE, _SAID, _OF_NAME, _CALLS, _REFUSAL))
_CALLING = by_name(
    (
        _ROLE,
        Field("content", Nullable(_CONTENT), "What is said beside the calls."),
        _OF_NAME,
        _CALLS,
        _REFUSAL,
    )
)
_TOOL = by_name(
    (_ROLE, _SAID, _OF_NAME, Field("tool_call_id", _NAME, "Which call it answers.", required=True))
)
_OF_ALL_ROLES = {**_TOOL, **_CALLING}
_FUNCTION = Object(
    Field("name", _NAME, "Its name.", required=True),
    Field("description", _ANY_TEXT, "What it does."),
    Field("parameters", Schema(), "Its parameters, a JSON Schema."),
    Field("strict", Nullable(Boolean()), "Whether arguments follow the schema exactly."),
)
_TOOL_RULE = Object(
    Field("type", Only("function"), "A function.", required=True),
    Field("function", _FUNCTION, "The function.", required=True),
    expected="an object with type and function",
)

MESSAGES = Items(_Message(), MAX_MESSAGES, "messages", "an array of messages")
TOOLS = Items(_TOOL_RULE, MAX_TOOLS, "tools", "an array of tools")
