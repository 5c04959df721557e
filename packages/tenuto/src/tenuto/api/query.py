"""The query of a request: which names are allowed, what their values must look like, all faults at once."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from tenuto.api.call import Call
from tenuto.errors import Fault, InvalidRequest
from tenuto.ids import is_id
from tenuto.rules import Form, Integer, PlainRule

Rules = Mapping[str, PlainRule]

MAX_LIMIT = 100
DEFAULT_LIMIT = 20

LIMIT = Integer(1, MAX_LIMIT)
"""How many records a page holds."""


def read_query(
    call: Call,
    rules: Rules,
    *,
    tolerant: bool = False,
    families: Mapping[re.Pattern[str], str] = MappingProxyType({}),
) -> dict[str, str]:
    """The values by name. Raises InvalidRequest; authenticate first.

    A name without a rule is a fault unless the route is `tolerant`, or the name matches one of `families`:
    then its value may be anything. `families` gives each pattern the name that messages use for it.
    """
    query = call.query()
    faults = []
    for name, value in query.items():
        if any(family.match(name) for family in families):
            continue
        if name not in rules:
            if not tolerant:
                message = f"there is no such filter; there are {', '.join((*rules, *families.values()))}"
                faults.append(Fault(name or "query", "unknown_name", message))
        else:
            faults.extend(_faults(name, value, rules[name]))
    if faults:
        raise InvalidRequest(faults)
    return query


def cursor(kind: str) -> Form:
    """The `next_cursor` of a list of this kind of record."""
    return Form("the next_cursor of the page before", lambda value: is_id(value, kind))


def text(meaning: str) -> Form:
    """Any text that a database can hold."""
    return Form(meaning, lambda value: "\0" not in value)


def limit_of(query: Mapping[str, str]) -> int:
    """The page size in a query that was checked by the rule `LIMIT`."""
    return int(query.get("limit", DEFAULT_LIMIT))


def _faults(name: str, value: str, rule: PlainRule) -> list[Fault]:
    """What is wrong with a value. An integer is a few plain digits."""
    is_integer = isinstance(rule, Integer)
    is_plain = value.isascii() and value.isdigit() and len(value) <= 12
    faults: list[Fault] = []
    rule.read(name, int(value) if is_integer and is_plain else value, faults)
    code = "out_of_range" if is_integer else "not_allowed"
    return [Fault(name, code, f"must be {rule.expected}")] if faults else []
