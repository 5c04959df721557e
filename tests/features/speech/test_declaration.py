"""A parameter is declared once, in its kind: whatever names it elsewhere is compared with that declaration.

The tables of the documents are compared in `tests/test_docs.py`.
"""

import collections.abc
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest
from scripts import parameter_schemas
from scripts.parameter_schemas import property_of

from servers.document import document
from tenuto.features.chat import chat_body as chat
from tenuto.features.speech.parameters import EMOTIONS
from tenuto.host.registry import CHAT_HONOURED
from tenuto.kind.kinds import Kind, kinds
from tenuto.rules import Boolean, Field, Integer, Number, Text
from tenuto_client import parameters as client

ROOT = Path(__file__).parents[3]
SCHEMAS = document()["components"]["schemas"]
STUDIO = ROOT / "studio" / "src"
TYPES: dict[str, Any] = {"boolean": bool, "integer": int, "number": float, "string": str}
EVERY_KIND = pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)


@EVERY_KIND
def test_openapi_has_the_parameters_of_a_kind(kind: Kind) -> None:
    """Names in order, types, bounds, defaults, and which are required; words and patterns are its own."""
    described = SCHEMAS[f"{kind.name.capitalize()}Parameters"]
    properties = {
        name: {word: value for word, value in known.items() if word not in ("description", "pattern")}
        for name, known in described["properties"].items()
    }

    assert {field.name: property_of(field) for field in kind.fields} == properties
    assert [field.name for field in kind.fields] == list(properties)
    assert [field.name for field in kind.fields if field.required] == described.get("required", [])
    assert described["additionalProperties"] is False


def test_openapi_has_the_fields_of_a_chat() -> None:
    """Names, which are required, the bounds of plain values, or null; what a model honours is among them."""
    described = SCHEMAS["ChatRequest"]
    plain = [field for field in chat.FIELDS if isinstance(field.rule, Boolean | Integer | Number | Text)]
    properties = {
        name: {word: value for word, value in described["properties"][name].items() if word != "description"}
        for name in (field.name for field in plain)
    }

    assert {field.name: or_null(field) for field in plain} == properties
    assert {field.name for field in chat.FIELDS} == set(described["properties"])
    assert [field.name for field in chat.FIELDS if field.required] == described["required"]
    assert set(CHAT_HONOURED) <= set(described["properties"])


@EVERY_KIND
def test_the_client_has_the_parameters_of_a_kind(kind: Kind) -> None:
    """Names in order and types; what is required is an argument of its own."""
    known = getattr(client, f"{kind.name.capitalize()}Parameters")
    optional = [field for field in kind.fields if not field.required]

    assert {field.name: type_of(field) for field in optional} == {
        name: (get_origin(hint), get_args(hint)) if get_origin(hint) else hint
        for name, hint in get_type_hints(known).items()
    }
    assert [field.name for field in optional] == list(known.__annotations__)


def test_the_studio_has_the_parameters_of_every_kind() -> None:
    """Its forms read the file that `scripts/parameter_schemas.py` writes."""
    speech = (STUDIO / "lib" / "speech.ts").read_text("utf-8")
    [emotions] = re.findall(r"EMOTIONS = \[(.*?)\]", speech)

    assert parameter_schemas.table() == parameter_schemas.TABLE.read_text("utf-8")
    assert list(EMOTIONS) == re.findall(r"\w+", emotions)


def or_null(field: Field) -> dict[str, Any]:
    """A field of a chat as a property; one that may be left out may be null."""
    known = property_of(field)
    return known if field.required else known | {"type": [known["type"], "null"]}


def type_of(field: Field) -> Any:
    """The type that a caller's program gives."""
    schema = property_of(field)
    if schema["type"] == "array":
        return collections.abc.Sequence, (TYPES[schema["items"]["type"]],)
    if "enum" in schema:
        return Literal, tuple(schema["enum"])
    return TYPES[schema["type"]]
