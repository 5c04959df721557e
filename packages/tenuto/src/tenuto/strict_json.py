"""JSON bodies: parsed strictly, and identified by a digest that does not depend on how they were written.

JSON has one kind of number, so a number is what its digits say: `200.0` is the integer 200.

`parse` refuses what two parsers could read differently or a database cannot store. `body_sha256` gives
equal bodies equal digests, forever: idempotency keys are bound to it, so its form is pinned by tests.
Knows neither HTTP nor which fields a request has; the caller limits a body's size before it is parsed.
"""

import hashlib
import json
import math
import re
from itertools import chain
from typing import Any, NoReturn

from tenuto.errors import Fault, InvalidRequest

MAX_DEPTH = 32
MAX_FAULTS = 32
MAX_NAME_IN_MESSAGE = 64
_TOO_DEEP = f"is nested too deeply; at most {MAX_DEPTH} levels are allowed"

# Doubles end below 1.8e308, so an integer with more digits exceeds them; int() never gets a longer one.
_MAX_INTEGER_DIGITS = 309

# A whole number of more digits stays a float: no field is that large, and other servers may not read it.
_MAX_WHOLE_DIGITS = 20

# int() reads no longer text; a double's exponent has three digits.
_MAX_EXPONENT_DIGITS = 4_000

# How a NUL or a surrogate must be escaped; raw ones are refused by the JSON decoder and by UTF-8.
_SUSPECT_ESCAPE = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class _Suspect(Exception):
    """The fast decoder met a value that must be refused; the explaining one finds its path."""


class _Refused:
    """Takes the place of a refused value in the parsed one, so that its path can be named."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message


class Exact(float):
    """A number that no double holds exactly: the nearest double, and what the digits say."""

    __slots__ = ("figures",)
    figures: tuple[int, int]
    """An integer without zeros at its end, and the power of ten that it is multiplied by."""


# A path is a chain of (the parent's path, name or index): cheap to extend, written out only for a fault.
_Path = tuple[Any, str | int] | None
_WALKED = frozenset({dict, list, str, _Refused})


def parse(body: bytes, *, max_values: int | None = None) -> Any:
    """The value that a body holds; whole numbers are exact ints, others floats, some of them `Exact`.

    Raises InvalidRequest, saying what is wrong and where, for anything but one JSON value in UTF-8 with
    unique names, numbers within a double, strings of Unicode characters except U+0000, at most 32 levels.
    Values are counted before anything is parsed: each of them takes time, however short it is.
    """
    if max_values is not None and _may_hold_more(body, max_values):
        values = "an object, a list, a text, a number, true, false or null each"
        _refuse("too_many_values", f"holds more than {max_values} values ({values}); send fewer")
    try:
        value = _read(_FAST, body)
    except _Suspect:
        value = _read(_EXPLAINING, body)
    else:
        brackets = body.count(b"{") + body.count(b"[")
        if brackets <= MAX_DEPTH and not _SUSPECT_ESCAPE.search(body):
            return value
        if _is_sound(value):
            return value
    raise InvalidRequest(_faults(value))


def body_sha256(value: Any) -> str:
    """The SHA-256, in lower-case hex, of a parsed value: equal for two exactly if they are the same JSON.

    Names are sorted by code points, strings taken as they are without normalisation, numbers by their exact
    value: `1` and `true` differ, `1`, `1.0` and `10e-1` do not, nor do `0` and `-0.0`. Spacing, escapes and
    the order of names do not matter either.
    """
    return hashlib.sha256(_CANONICAL.encode(by_value(value)).encode("ascii")).hexdigest()


def by_value(value: Any) -> Any:
    """The value with one form for each number: an int if it is whole, the shortest decimal if that is exact.

    Others become an object with a name that no body can have.
    """
    if type(value) is dict:
        return {name: by_value(item) for name, item in value.items()}
    if type(value) is list:
        return [by_value(item) for item in value]
    if not isinstance(value, float):
        return value
    figures, power = value.figures if isinstance(value, Exact) else _figures(repr(value))
    if power >= 0:
        return figures * 10**power
    return {"\0": f"{figures}e{power}"} if isinstance(value, Exact) else value


def _may_hold_more(body: bytes, values: int) -> bool:
    """Whether a body holds more than this many values, judged by commas and brackets, in linear time.

    Each value but the first follows a comma or an opening bracket. An empty list or object counts twice.
    """
    if _marks(body) < values:
        return False
    # Marks within strings do not count: without escapes, every second piece between quotes is a string.
    bare = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 4 * values:  # a value has at most four: its name's and its own
        return True
    return _marks(b"".join(bare.split(b'"')[::2])) >= values


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _read(decoder: json.JSONDecoder, body: bytes) -> Any:
    try:
        return decoder.decode(body.decode())
    except UnicodeDecodeError as error:
        _refuse("invalid_utf8", f"is not UTF-8: {error.reason} at byte {error.start}")
    except json.JSONDecodeError as error:
        _refuse_text(body, error)
    except RecursionError:
        # The decoder's own limit is several hundred levels; a smaller depth is checked afterwards.
        _refuse("too_deep", _TOO_DEEP)


def _refuse(code: str, message: str) -> NoReturn:
    raise InvalidRequest([Fault("body", code, message)]) from None


def _refuse_text(body: bytes, error: json.JSONDecodeError) -> NoReturn:
    if body.startswith(b"\xef\xbb\xbf"):
        _refuse("byte_order_mark", "starts with a byte order mark; send the JSON without it")
    reason = error.msg.removesuffix(":").removesuffix(" at")
    _refuse("invalid_json", f"is not JSON: {reason}, line {error.lineno}, column {error.colno}")


def _is_sound(value: Any) -> bool:
    """Whether depth and strings are allowed: level by level and without paths, as most values pass."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        objects = [item for item in level if type(item) is dict]
        texts = [item for item in level if type(item) is str]
        texts.extend(chain.from_iterable(objects))
        if not _is_storable("".join(texts)):
            return False
        lists = [item for item in level if type(item) is list]
        level = list(chain.from_iterable([*lists, *(item.values() for item in objects)]))
        if not objects and not lists:
            return True
    return False


def _is_storable(text: str) -> bool:
    """Whether `_UNSTORABLE` would find nothing; takes a tenth of its time for a long text."""
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _faults(value: Any) -> list[Fault]:
    """The first faults of a value in document order, each with its path."""
    faults: list[Fault] = []
    waiting: list[tuple[_Path, Any, int]] = [(None, value, 0)]
    while waiting and len(faults) < MAX_FAULTS:
        path, item, depth = waiting.pop()
        if type(item) is _Refused:
            faults.append(Fault(_written(path), item.code, item.message))
        elif type(item) is str:
            faults.extend(_text_faults(path, item, "holds"))
        elif depth == MAX_DEPTH:
            faults.append(Fault(_written(path), "too_deep", _TOO_DEEP))
        else:
            if type(item) is dict:
                for name in item:
                    faults.extend(_text_faults((path, name), name, "has a name with"))
            children = item.items() if type(item) is dict else enumerate(item)
            inner = [((path, key), child, depth + 1) for key, child in children if type(child) in _WALKED]
            waiting.extend(reversed(inner))
    return faults[:MAX_FAULTS]


def _text_faults(path: _Path, text: str, verb: str) -> list[Fault]:
    match = _UNSTORABLE.search(text)
    if match is None:
        return []
    if match[0] == "\0":
        message = f"{verb} U+0000, which cannot be stored; send it without"
    else:
        message = f"{verb} half of a surrogate pair (U+{ord(match[0]):04X}); send whole characters"
    return [Fault(_written(path), "unstorable_text", f"{message} (character {match.start()})")]


def _written(path: _Path) -> str:
    """A path as text that is safe to send back: `parameters.emo_vector[3]`."""
    steps: list[str] = []
    while path is not None:
        path, key = path
        steps.append(f"[{key}]" if isinstance(key, int) else f".{_shortened(key)}")
    return "".join(reversed(steps)).removeprefix(".") or "body"


def _shortened(name: str) -> str:
    short = name if len(name) <= MAX_NAME_IN_MESSAGE else name[:MAX_NAME_IN_MESSAGE] + "…"
    return _UNSTORABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", short)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Suspect
    return members


def _object_explained(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            value = _Refused("duplicate_name", "is repeated in its object; send it once")  # noqa: PLW2901
        members[name] = value
    return members


def _integer(digits: str) -> int:
    if len(digits) < _MAX_INTEGER_DIGITS:
        return int(digits)
    # The sign counts as a digit here: at worst, an integer takes this slower, exact path needlessly.
    if len(digits) > _MAX_INTEGER_DIGITS + 1:
        raise _Suspect
    try:
        float(value := int(digits))
    except OverflowError:
        raise _Suspect from None
    return value


def _integer_explained(digits: str) -> Any:
    try:
        return _integer(digits)
    except _Suspect:
        count = len(digits.removeprefix("-"))
        return _Refused("number_too_large", f"is an integer of {count} digits, beyond a double")


def _number(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise _Suspect
    if repr(value) == digits and not value.is_integer():
        return value
    figures, power = _figures(digits)
    if power >= 0 and len(str(abs(figures))) + power <= _MAX_WHOLE_DIGITS:
        return figures * int(10**power)
    if _figures(repr(value)) == (figures, power):
        return value
    exact = Exact(value)
    exact.figures = figures, power
    return exact


def _figures(digits: str) -> tuple[int, int]:
    """A finite number as an integer that does not end in a zero, times a power of ten; zero is (0, 0)."""
    mantissa, _, exponent = digits.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = (whole + fraction).lstrip("-0")
    significant = written.rstrip("0")
    if not significant:
        return 0, 0
    # More than int() reads: only a number so long that it is nearly zero, or beyond a double.
    if len(significant) > _MAX_EXPONENT_DIGITS or len(exponent.lstrip("+-0")) > _MAX_EXPONENT_DIGITS:
        raise _Suspect
    power = int(exponent or 0) - len(fraction) + len(written) - len(significant)
    return int(significant) * (-1 if whole.startswith("-") else 1), power


def _number_explained(digits: str) -> Any:
    try:
        return _number(digits)
    except _Suspect:
        if math.isinf(float(digits)):
            return _Refused("number_too_large", f"is {digits[:MAX_NAME_IN_MESSAGE]}, beyond a double")
        return _Refused("number_too_long", f"has {len(digits)} digits; send at most {_MAX_EXPONENT_DIGITS}")


def _constant(_: str) -> NoReturn:
    raise _Suspect


def _constant_explained(name: str) -> _Refused:
    return _Refused("not_a_number", f"is {name}, which is not JSON; send a finite number")


_FAST = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_number, parse_constant=_constant
)
_EXPLAINING = json.JSONDecoder(
    object_pairs_hook=_object_explained,
    parse_int=_integer_explained,
    parse_float=_number_explained,
    parse_constant=_constant_explained,
)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
