"""Translates the one SQL text, with `:name` parameters, for each driver. Knows no tables."""

import re
from functools import lru_cache

from tenuto.db.database import Dialect

# Statements are constants in the source; the bound keeps a mistake from becoming a leak.
CACHED_STATEMENTS = 2048

_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*'                    # a string
    | "(?:[^"]|"")*"                    # a quoted name
    | --[^\n]*                          # a comment to the end of the line
    | /\*.*?\*/                         # a comment
    | ::                                # a cast of PostgreSQL's
    | :(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)
    | (?P<lock>\s*\bfor\s+(?:no\s+key\s+)?(?:update|share)\b
        (?:\s+of\s+\w+(?:\s*,\s*\w+)*)?
        (?:\s+skip\s+locked\b|\s+nowait\b)?)
    | \b(?P<order>(?:transaction_number|unsettled_number)\(\))
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


# The number of this transaction, and the lowest of those that have not ended: PostgreSQL counts them itself.
# SQLite has one writer: its transactions end in the order in which they begin, and need no number.
_ORDER: dict[Dialect, dict[str, str]] = {
    "sqlite": {
        "transaction_number()": "cast(null as bigint)",
        "unsettled_number()": str((1 << 63) - 1),
    },
    "postgresql": {
        "transaction_number()": "pg_current_xact_id()::text::bigint",
        "unsettled_number()": "pg_snapshot_xmin(pg_current_snapshot())::text::bigint",
    },
}


@lru_cache(CACHED_STATEMENTS)
def for_sqlite(sql: str) -> str:
    """Drops row locks: SQLite has one writer, and knows `:name` itself."""

    def own(match: re.Match[str]) -> str:
        order = match["order"]
        return _ORDER["sqlite"][order] if order else "" if match["lock"] else match[0]

    return _TOKEN.sub(own, sql)


@lru_cache(CACHED_STATEMENTS)
def for_postgres(sql: str) -> tuple[str, tuple[str, ...]]:
    """The text with `$1`, `$2`, … and the names of the parameters in that order."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name, order = match["name"], match["order"]
        if order:
            return _ORDER["postgresql"][order]
        return f"${numbers.setdefault(name, len(numbers) + 1)}" if name else match[0]

    text = _TOKEN.sub(number, sql)
    return text, tuple(numbers)


def statements(script: str) -> list[str]:
    """The statements of a script; each ends with `;` at the end of a line."""
    return [text for part in re.split(r";[ \t]*(?:\n|\Z)", script) if _says_something(text := part.strip())]


def _says_something(text: str) -> bool:
    return any(line.strip() and not line.strip().startswith("--") for line in text.splitlines())
