"""Damaged text in a row, read so that other rows and other columns stay readable.

Bytes that are not UTF-8 become lone surrogates (PEP 383). Knows no drivers and no tables.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from tenuto.logs import get_logger

_Text = TypeVar("_Text", str, str | None)
_Json = TypeVar("_Json")
_log = get_logger("tenuto.db")


def decoded(text: bytes) -> str:
    """The text, damaged or not; damaged text cannot be encoded again."""
    return text.decode("utf-8", "surrogateescape")


def values(row: Sequence[bytes | None], loads: Sequence[Callable[[bytes], Any]]) -> list[Any]:
    """A row's values, loaded by each column's loader; some of its text may be damaged."""
    made: list[Any] = []
    for value, load in zip(row, loads, strict=True):
        try:
            made.append(None if value is None else load(value))
        except UnicodeDecodeError:
            made.append(decoded(value or b""))
    return made


def sound_json(text: str | None, otherwise: str, *, of: str, column: str) -> msgspec.Raw:
    """JSON as it stands in a record, if valid; else `otherwise`, and the record's id `of` is logged."""
    try:
        return msgspec.json.decode("" if text is None else text, type=msgspec.Raw).copy()
    except (ValueError, TypeError):
        _log.error("record.damaged", id=of, column=column)
        return msgspec.Raw(otherwise.encode())


def decoded_json(text: str | msgspec.Raw, type_: type[_Json]) -> _Json | None:
    """The value of JSON in a record; None if it is invalid, or of another type."""
    try:
        return msgspec.json.decode(text, type=type_)
    except (ValueError, TypeError):
        return None


def text_of(text: _Text) -> _Text:
    """Text that can be encoded again: what is not a character is shown as `?`."""
    return text if text is None or text.isascii() else text.encode("utf-8", "replace").decode()
