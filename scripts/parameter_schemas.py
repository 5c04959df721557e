"""Writes what the studio's forms know of jobs: the parameters of each kind as JSON Schema, and its limits.

    python scripts/parameter_schemas.py

Everything is read from the kinds' declarations; `tests/features/speech/test_declaration.py` fails if the
file is old.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tenuto.features.speech.parameters import Numbers
from tenuto.kind.kinds import kinds
from tenuto.rules import Boolean, Choice, Field, Integer, Number, Rule, Text, Texts

TABLE = Path(__file__).parents[1] / "studio" / "src" / "lib" / "kinds.json"


def main() -> None:
    """Write the file."""
    TABLE.write_text(table(), "utf-8")


def table() -> str:
    """What the file holds."""
    known = {
        name: {
            "limits": dict(kind.limits),
            "parameters": {field.name: property_of(field) for field in kind.fields},
        }
        for name, kind in kinds().items()
    }
    return json.dumps(known, indent=1) + "\n"


def property_of(field: Field) -> dict[str, Any]:
    """A parameter as a property of a JSON Schema, without its description."""
    return schema(field.rule) | ({} if field.default is None else {"default": field.default})


def schema(rule: Rule) -> dict[str, Any]:
    """A rule as a JSON Schema. A length in bytes of UTF-8 is the most characters that it can be."""
    match rule:
        case Boolean():
            return {"type": "boolean"}
        case Choice(values):
            return {"type": "string", "enum": list(values)}
        case Integer() | Number():
            return _number(rule)
        case Text(most, may_be_empty=may_be_empty):
            return {"type": "string"} | ({} if may_be_empty else {"minLength": 1}) | {"maxLength": most}
        case Numbers(length, low, high):
            return _array(length, Number(low, high)) | {"minItems": length}
        case Texts(int(most), item):
            return _array(most, item)
    raise AssertionError(rule)


def _number(rule: Integer | Number) -> dict[str, Any]:
    within = {"minimum": rule.minimum, "maximum": rule.maximum}
    if isinstance(rule, Number):
        return {"type": "number", **within}
    return {"type": "integer", **within} | ({"multipleOf": rule.step} if rule.step > 1 else {})


def _array(most: int, item: Rule) -> dict[str, Any]:
    return {"type": "array", "maxItems": most, "items": schema(item)}


if __name__ == "__main__":
    main()
