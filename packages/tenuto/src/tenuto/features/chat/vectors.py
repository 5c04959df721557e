"""Vectors in OpenAI's format: numbers, or base64 of little-endian 32-bit floats."""

import base64
import math
import sys
from array import array
from collections.abc import Sequence

import msgspec

encode = msgspec.json.Encoder().encode


def in_form(vector: list[float] | str, encoding_format: str) -> msgspec.Raw:
    """A vector of either form as JSON in the requested form. ValueError: it is not a vector."""
    made: str | list[float] = _base64(vector) if encoding_format == "base64" else _numbers(vector)
    return msgspec.Raw(encode(made))


def _base64(vector: list[float] | str) -> str:
    numbers = _numbers(vector)
    if isinstance(vector, str):
        return vector
    floats = array("f", numbers)
    _check(floats)
    return base64.b64encode(_little_endian(floats).tobytes()).decode("ascii")


def _numbers(vector: list[float] | str) -> list[float]:
    if isinstance(vector, list):
        numbers = vector
    else:
        try:
            floats = array("f", base64.b64decode(vector, validate=True))
        except ValueError as error:
            raise ValueError("not base64 of 32-bit floats") from error
        numbers = _little_endian(floats).tolist()
    _check(numbers)
    return numbers


def _check(numbers: "Sequence[float]") -> None:
    if not numbers:
        raise ValueError("a vector without numbers")
    if not math.isfinite(sum(numbers)):
        raise ValueError("a number that is none, or beyond 32 bits")


def _little_endian(floats: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def floats_of(content: bytes) -> "array[float]":
    """The little-endian 32-bit floats in these bytes."""
    return _little_endian(array("f", content))
