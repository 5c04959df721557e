"""`openapi.yaml` as a list of operations, so that tests cover every route, including new ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DOCUMENT = Path(__file__).parents[2] / "openapi.yaml"
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # The one in C takes 0.1 s, the other 0.8 s.
METHODS = ("get", "put", "post", "patch", "delete")


@dataclass(frozen=True)
class Route:
    """One operation of the document."""

    name: str
    method: str
    path: str
    """With names in braces."""
    path_names: tuple[str, ...]
    query_names: tuple[str, ...]
    body_type: str | None
    """The media type of its body, where it has one."""
    wants_key: bool

    def at(self, **ids: str) -> str:
        """The path with these ids in it, as they are."""
        return self.path.format(**ids)


@cache
def document() -> Any:
    return yaml.load(DOCUMENT.read_text("utf-8"), Loader=_Loader)


@cache
def routes() -> tuple[Route, ...]:
    """All operations."""
    return tuple(_routes())


def fields_of_bodies() -> set[str]:
    """The names of all fields that the JSON of any request may have, at any depth."""
    found: set[str] = set()
    for path in document()["paths"].values():
        for method in METHODS:
            content = path.get(method, {}).get("requestBody", {}).get("content", {})
            for media in content.values():
                found |= set(_fields(media.get("schema", {})))
    return found


def _routes() -> Iterator[Route]:
    for path, item in document()["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            named = [_resolved(each) for each in item.get("parameters", []) + operation.get("parameters", [])]
            content = operation.get("requestBody", {}).get("content", {})
            yield Route(
                name=operation["operationId"],
                method=method.upper(),
                path=path,
                path_names=tuple(each["name"] for each in named if each["in"] == "path"),
                query_names=tuple(each["name"] for each in named if each["in"] == "query"),
                body_type=next(iter(content), None),
                wants_key=operation.get("security", document()["security"]) != [],
            )


def _fields(schema: Any) -> Iterator[str]:
    schema = _resolved(schema)
    for name, inner in schema.get("properties", {}).items():
        yield name
        yield from _fields(inner)
    for inner in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), schema.get("items", {})):
        if inner:
            yield from _fields(inner)


def _resolved(thing: Any) -> Any:
    """What a reference stands for."""
    found = thing
    while "$ref" in found:
        steps = found["$ref"].removeprefix("#/").split("/")
        found = document()
        for step in steps:
            found = found[step]
    return found
