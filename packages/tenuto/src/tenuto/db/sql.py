"""Translates the one SQL text, with `:name` parameters, for each driver. Knows no tables."""

import re
from functools import lru_cache

# Statements are constants of the source; a bound keeps a mistake from becoming a leak.
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
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@lru_cache(CACHED_STATEMENTS)
def for_sqlite(sql: str) -> str:
    """Drops row locks: SQLite has one writer, and knows `:name` itself."""
    return _TOKEN.sub(lambda match: "" if match["lock"] else match[0], sql)


@lru_cache(CACHED_STATEMENTS)
def for_postgres(sql: str) -> tuple[str, tuple[str, ...]]:
    """The text with `$1`, `$2`, … and the names of the parameters in that order."""
    numbers: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        return f"${numbers.setdefault(name, len(numbers) + 1)}" if name else match[0]

    text = _TOKEN.sub(number, sql)
    return text, tuple(numbers)


def statements(script: str) -> list[str]:
    """The statements of a script; each ends with `;` at the end of a line."""
    return [text for part in re.split(r";[ \t]*(?:\n|\Z)", script) if _says_something(text := part.strip())]


def _says_something(text: str) -> bool:
    return any(line.strip() and not line.strip().startswith("--") for line in text.splitlines())
