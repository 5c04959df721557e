"""The reference of the HTTP API, made from openapi.yaml: a page for each tag, and one with all schemas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

METHODS = ("get", "post", "put", "patch", "delete")
BOUNDS = {
    "const": "always `{}`",
    "enum": "one of {}",
    "default": "default `{}`",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "length at least {}",
    "maxLength": "length at most {}",
    "minItems": "number of items at least {}",
    "maxItems": "number of items at most {}",
    "multipleOf": "a multiple of {}",
    "pattern": "matches `{}`",
}


def pages(file: Path) -> dict[str, str]:
    """Each page's path on the site and its Markdown."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # The one in C is eight times as fast.
    document = yaml.load(file.read_text("utf-8"), Loader=loader)  # noqa: S506 (both are safe)
    written = {"reference/schemas.md": "".join(_schemas(document))}
    tags = {tag["name"]: tag["description"] for tag in document["tags"]}
    operations = list(_operations(document))
    for tag, description in tags.items():
        texts = [_operation(document, *each) for each in operations if tag in each[2]["tags"]]
        written[f"reference/api/{tag}.md"] = f"# API: {tag}\n\n{description}\n\n{''.join(texts)}"
    rows = [
        f"| [`{method.upper()} {path}`]({one['tags'][0]}.md#{_anchor(one)}) | {one['summary']} |\n"
        for path, method, one in operations
    ]
    text = document["info"]["description"].replace("`docs/errors.md`", "[errors](../../errors.md)")
    written["reference/api/index.md"] = (
        f"# API\n\n{text}\n| request | |\n|---|---|\n{''.join(rows)}\n"
        "Every request but those of [health](health.md) carries `Authorization: Bearer KEY`.\n"
    )
    to_schemas = {page: "" if page == "reference/schemas.md" else "../schemas.md" for page in written}
    return {page: text.replace("SCHEMAS#", f"{to_schemas[page]}#") for page, text in written.items()}


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and declaration; the parameters of the path are among its own."""
    for path, item in document["paths"].items():
        for method in [each for each in item if each in METHODS]:
            parameters = [*item.get("parameters", []), *item[method].get("parameters", [])]
            yield path, method, {**item[method], "parameters": parameters}


def _operation(document: dict[str, Any], path: str, method: str, operation: dict[str, Any]) -> str:
    head = f"## {operation['summary']} {{#{_anchor(operation)}}}\n\n"
    text = f"{head}```http\n{method.upper()} {path}\n```\n\n{operation.get('description', '')}\n\n"
    parameters = [_resolved(document, one) for one in operation["parameters"]]
    if parameters:
        text += "| parameter | in | type | |\n|---|---|---|---|\n" + "".join(
            f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {_about(one, one['schema'])} |\n"
            for one in parameters
        )
    if "requestBody" in operation:
        body = operation["requestBody"]
        text += f"\n**Body.** {body.get('description', '')}\n\n" + _content(document, body["content"])
    responses = {status: _resolved(document, one) for status, one in operation["responses"].items()}
    text += "\n| status | |\n|---|---|\n" + "".join(
        f"| {status} | {_cell(response['description'])}{_schema_link(response)} |\n"
        for status, response in responses.items()
    )
    return text + "\n"


def _content(document: dict[str, Any], content: dict[str, Any]) -> str:
    """What a body holds, and its examples."""
    text = ""
    for media_type, one in content.items():
        schema = one.get("schema", {})
        text += f"`{media_type}`" + (f": {_type(schema)}" if schema else "") + "\n\n"
        if "properties" in schema:
            text += _fields(schema)
        for example in [_resolved(document, each) for each in one.get("examples", {}).values()]:
            value = json.dumps(example["value"], ensure_ascii=False, indent=2)
            text += f"{example.get('summary', 'Example')}:\n\n```json\n{value}\n```\n\n"
    return text


def _schemas(document: dict[str, Any]) -> Iterator[str]:
    yield "# Schemas\n\nThe JSON objects of the [API](api/index.md).\n\n"
    for name, schema in document["components"]["schemas"].items():
        yield f"## {name}\n\n{schema.get('description', '')}\n\n"
        yield _fields(schema) if "properties" in schema else f"{_type(schema)}{_bounds(schema)}\n\n"


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        f"| `{name}`{'' if name in required else ' (optional)'} | {_type(one)} | {_about(one, one)} |\n"
        for name, one in schema["properties"].items()
    ]
    return "| field | type | |\n|---|---|---|\n" + "".join(rows) + "\n"


def _anchor(operation: dict[str, Any]) -> str:
    return str(operation["operationId"]).lower()


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words; a named one as a link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](SCHEMAS#{name.lower()})"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " or ".join(_type(one) for one in schema[union])
    kinds = schema.get("type", "object" if "properties" in schema else "any value")
    words = [kinds] if isinstance(kinds, str) else kinds
    if words == ["array"]:
        return f"array of {_type(schema.get('items', {}))}"
    return " or ".join(words)


def _about(one: dict[str, Any], schema: dict[str, Any]) -> str:
    required = ["required"] if one.get("required") is True else []
    return ". ".join(filter(None, [_cell(one.get("description", "")).rstrip("."), *required])) + _bounds(
        schema
    )


def _bounds(schema: dict[str, Any]) -> str:
    texts = []
    for name, words in BOUNDS.items():
        if name in schema:
            value = schema[name]
            shown = ", ".join(f"`{each}`" for each in value) if name == "enum" else _json(value)
            texts.append(words.format(shown.replace("|", "&#124;") if name != "pattern" else _cell(shown)))
    return f" ({'; '.join(texts)})" if texts else ""


def _json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _schema_link(response: dict[str, Any]) -> str:
    schemas = [
        one["schema"] for one in response.get("content", {}).values() if "$ref" in one.get("schema", {})
    ]
    return "".join(f" {_type(schema)}" for schema in schemas)


def _cell(text: str) -> str:
    """Text as it may stand in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _resolved(document: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """What a `$ref` names."""
    if "$ref" not in one:
        return one
    value: Any = document
    for step in one["$ref"].removeprefix("#/").split("/"):
        value = value[step]
    resolved: dict[str, Any] = value
    return resolved
