"""The query of a request: which names are allowed, what their values must look like, all faults at once.

A rule takes a value and returns what is wrong with it: a fault's code and message, or None.
"""

import datetime
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tenuto.api.call import Call
from tenuto.errors import Fault, InvalidRequest
from tenuto.ids import is_id

Rule = Callable[[str], tuple[str, str] | None]

MAX_LIMIT = 100
DEFAULT_LIMIT = 20
FIRST_YEAR = 1970


def read_query(
    call: Call,
    rules: Mapping[str, Rule],
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
        elif (wrong := rules[name](value)) is not None:
            faults.append(Fault(name, *wrong))
    if faults:
        raise InvalidRequest(faults)
    return query


def days(
    call: Call, query: Mapping[str, str], first: str, last: str, *, default: int, most: int
) -> tuple[datetime.date, datetime.date]:
    """The days from `first` to `last`, both included; these name parameters that have the rule `day`.

    `last` defaults to today, `first` to a range of `default` days. InvalidRequest for more than `most`.
    """
    today = datetime.datetime.fromtimestamp(call.service.clock() / 1000, datetime.UTC).date()
    until = datetime.date.fromisoformat(query[last]) if last in query else today
    since = until - datetime.timedelta(days=default - 1)
    if first in query:
        since = datetime.date.fromisoformat(query[first])
    if not 0 <= (until - since).days < most:
        message = f"must be at most {most} days before `{last}`, and not after it"
        raise InvalidRequest([Fault(first, "out_of_range", message)])
    return since, until


def integer(low: int, high: int) -> Rule:
    """A plain decimal integer within bounds."""

    def rule(value: str) -> tuple[str, str] | None:
        if value.isascii() and value.isdigit() and len(value) <= 12 and low <= int(value) <= high:
            return None
        return "out_of_range", f"must be an integer from {low} to {high}"

    return rule


def choice(*values: str) -> Rule:
    """One of a few words."""
    return lambda value: None if value in values else ("not_allowed", f"must be one of {', '.join(values)}")


def cursor(kind: str) -> Rule:
    """The `next_cursor` of a list of this kind of record."""
    message = "must be the next_cursor of the page before"
    return lambda value: None if is_id(value, kind) else ("not_allowed", message)


def day(value: str) -> tuple[str, str] | None:
    """A day such as 2026-11-21."""
    try:
        sound = len(value) == len("2026-11-21") and datetime.date.fromisoformat(value).year >= FIRST_YEAR
    except ValueError:
        sound = False
    return None if sound else ("not_allowed", "must be a day such as 2026-11-21")


def text(meaning: str) -> Rule:
    """Any text that a database can hold."""
    return lambda value: None if value and "\0" not in value else ("not_allowed", f"must be {meaning}")


limit: Rule = integer(1, MAX_LIMIT)
"""How many records a page holds."""


def limit_of(query: Mapping[str, str]) -> int:
    """The page size in a query that was checked by the rule `limit`."""
    return int(query.get("limit", DEFAULT_LIMIT))
