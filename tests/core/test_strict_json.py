"""Strict JSON and the digest of a body."""

import hashlib
import json
import string
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenuto.errors import InvalidRequest
from tenuto.strict_json import MAX_FAULTS, body_sha256, parse

STORABLE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | DOUBLES | STORABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STORABLE, inner, max_size=4),
    max_leaves=12,
)


def faults(body: bytes) -> list[tuple[str, str]]:
    with pytest.raises(InvalidRequest) as refused:
        parse(body)
    return [(fault.param, fault.code) for fault in refused.value.faults]


def message(body: bytes) -> str:
    with pytest.raises(InvalidRequest) as refused:
        parse(body)
    return refused.value.message


def same(left: Any, right: Any) -> bool:
    """Whether two values are the same JSON, told without the code under test."""
    if isinstance(left, int | float) and isinstance(right, int | float):
        is_equal = left == right if type(left) is int and type(right) is int else float(left) == float(right)
        return isinstance(left, bool) == isinstance(right, bool) and is_equal
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"{}", {}),
        (b" \t\r\n[1, 1.0, -0.0, 1e2]\n", [1, 1.0, -0.0, 100.0]),
        (b"9223372036854775807", 2**63 - 1),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        ('"你好 \U0001f600"'.encode(), "你好 \U0001f600"),
        (rb'"\u4f60\ud83d\ude00"', "你\U0001f600"),
        (rb'"\\u0000 \\ud800"', r"\u0000 \ud800"),
        (b'{"a": {"a": 1}, "b": {"a": 2}}', {"a": {"a": 1}, "b": {"a": 2}}),
        (b"[" * 32 + b"]" * 32, None),
        (b'"' + b"[" * 40 + b'"', "[" * 40),
        (b"[" + b"[]," * 40 + b"[]]", [[]] * 41),
        (b"1e-400", 0.0),
    ],
)
def test_accepted(body: bytes, value: Any) -> None:
    """Sound JSON is read as it stands: integers exactly, text character by character, 32 levels at most."""
    parsed = parse(body)

    if value is None:
        value = json.loads(body)
    assert same(value, parsed)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", [("body", "invalid_json")]),
        (b"{}x", [("body", "invalid_json")]),
        (b"{} {}", [("body", "invalid_json")]),
        (b"{'a': 1}", [("body", "invalid_json")]),
        (b'{"a": 1,}', [("body", "invalid_json")]),
        (b'{"a": 01}', [("body", "invalid_json")]),
        (b'{"a": "\x01"}', [("body", "invalid_json")]),
        (b'"\0"', [("body", "invalid_json")]),
        (b'"open', [("body", "invalid_json")]),
        (b"\xef\xbb\xbf{}", [("body", "byte_order_mark")]),
        ("{}".encode("utf-16"), [("body", "invalid_utf8")]),
        (b'"\xff"', [("body", "invalid_utf8")]),
        (b'"\xed\xa0\x80"', [("body", "invalid_utf8")]),
        (b'"\xc0\xaf"', [("body", "invalid_utf8")]),
        (b"NaN", [("body", "not_a_number")]),
        (b'{"a": [1, -Infinity]}', [("a[1]", "not_a_number")]),
        (b'{"a": Infinity, "b": NaN}', [("a", "not_a_number"), ("b", "not_a_number")]),
        (b'{"a": 1e400}', [("a", "number_too_large")]),
        (b'{"a": -1e400}', [("a", "number_too_large")]),
        (b"[1" + b"0" * 309 + b"]", [("[0]", "number_too_large")]),
        (b"-" + b"9" * 400_000, [("body", "number_too_large")]),
        (b'{"a": 1, "a": 1}', [("a", "duplicate_name")]),
        (b'{"a": 1, "\\u0061": 2}', [("a", "duplicate_name")]),
        (b'{"p": {"b": [{"c": 1, "c": 2}]}}', [("p.b[0].c", "duplicate_name")]),
        (b'{"a": "\\ud800"}', [("a", "unstorable_text")]),
        (b'{"a": "\\uDFFF\\uD800"}', [("a", "unstorable_text")]),
        (b'{"a": "x\\u0000"}', [("a", "unstorable_text")]),
        (b'{"a\\u0000": 1}', [("a\\u0000", "unstorable_text")]),
        (b'{"\\udc00": 1}', [("\\udc00", "unstorable_text")]),
        (b"[" * 33 + b"]" * 33, [("[0]" * 32, "too_deep")]),
        (b'{"a":' * 33 + b"1" + b"}" * 33, [(".".join("a" * 32), "too_deep")]),
        (b"[" * 500_000, [("body", "too_deep")]),
        (b"[NaN, " + b"[" * 500_000, [("body", "too_deep")]),
        (b"[NaN, }", [("body", "invalid_json")]),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused(body: bytes, expected: list[tuple[str, str]]) -> None:
    """What readers disagree about, or a database cannot hold, is an invalid request that names the place."""
    refused = faults(body)

    assert expected == refused


def test_messages_say_what_and_where() -> None:
    """The message tells what is wrong and where, by line and column or by path."""
    expected = [
        "body: is not JSON: Expecting ':' delimiter, line 2, column 6",
        "a.b: is 1e999, beyond a double",
        "body: is not UTF-8: invalid start byte at byte 2",
        "t: holds half of a surrogate pair (U+D800); send whole characters (character 2)",
    ]
    messages = [
        message(b'{"a": 1,\n "b" 2}'),
        message(b'{"a": {"b": 1e999}}'),
        message(b'"a\xff"'),
        message(b'{"t": "ab\\ud800"}'),
    ]

    assert expected == messages


def test_faults_are_limited() -> None:
    """A body full of faults is answered with a bounded number of them, each of bounded length."""
    expected = [(f"[{index}]", "not_a_number") for index in range(MAX_FAULTS)]
    found = faults(b"[" + b"NaN," * 1000 + b"NaN]")

    assert expected == found

    expected = [("n" * 64 + "…", "not_a_number")]
    found = faults(b'{"' + b"n" * 100_000 + b'": NaN}')

    assert expected == found


def test_the_largest_double_as_an_integer() -> None:
    """An integer is kept exactly up to the largest double and refused from where a double overflows."""
    largest = int(float.fromhex("0x1.fffffffffffffp+1023"))

    assert largest == parse(str(largest).encode())
    assert -largest == parse(str(-largest).encode())

    too_large = [("body", "number_too_large")]

    assert too_large == faults(str(2**1024).encode())
    assert too_large == faults(str(-(2**1024)).encode())


@given(VALUES, st.booleans())
def test_agrees_with_the_standard_reader(value: Any, escaped: bool) -> None:
    """Whatever is sound is read just as the standard library reads it, escaped or raw."""
    parsed = parse(json.dumps(value, ensure_ascii=escaped).encode())

    assert same(value, parsed)


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_digest_of_the_same_value(value: Any, escaped: bool, indent: int | None) -> None:
    """The digest does not depend on spacing, escapes or the order of names."""

    def reversed_names(item: Any) -> Any:
        if isinstance(item, dict):
            return {name: reversed_names(item[name]) for name in reversed(item)}
        return [reversed_names(child) for child in item] if isinstance(item, list) else item

    rewritten = parse(json.dumps(reversed_names(value), ensure_ascii=escaped, indent=indent).encode())

    assert body_sha256(value) == body_sha256(rewritten)


SMALL = st.recursive(
    st.sampled_from(
        [None, False, True, 0, 1, 0.0, -0.0, 1.0, "", "0", "1", "null", "\u00e9", "e\u0301", '"', "a,b"]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["", "a", "b", '":']), inner, max_size=2)
    ),
    max_leaves=3,
)


@given(SMALL, SMALL)
def test_digest_tells_values_apart(left: Any, right: Any) -> None:
    """Two values have the same digest just when they are the same JSON."""
    assert same(left, right) == (body_sha256(left) == body_sha256(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (b"1", b"true"),
        (b"1", b'"1"'),
        (b"0.1", b"0.1000000000000000055511151231257827"),
        (b"0", b"1e-400"),
        (b"9223372036854775807.0", b"9223372036854775806.0"),
        (b"1e22", b"10000000000000000000001"),
        (b"1e300", b"1000000000000000000001e279"),
        (b"30", b"30.000000000000000000001"),
        (b"9223372036854775807", b"9223372036854775806"),
        (b"9007199254740993", b"9007199254740992"),
        (b'{"a": null}', b"{}"),
        (rb'"\u00e9"', rb'"e\u0301"'),
        (b'{"a": [1, 2]}', b'{"a": [2, 1]}'),
    ],
)
def test_digests_differ(left: bytes, right: bytes) -> None:
    """Close but different bodies are different requests: large seeds, many digits, omitted and null."""
    assert body_sha256(parse(left)) != body_sha256(parse(right))


@given(st.integers(-(10**25), 10**25), st.integers(-40, 40), st.integers(0, 12), st.booleans())
@example(10**22, 0, 0, False)
@example(2**63, 0, 1, True)
@example(0, 3, 2, True)
@example(-1_198_538_268_647, 7, 0, False)
def test_a_number_is_compared_by_its_value(figures: int, power: int, zeros: int, is_upper: bool) -> None:
    """However one number is written, it is the same body, and a whole one reads as an integer (R19, R92)."""
    plain = format(Decimal(figures).scaleb(power, Context(prec=100)), "f")
    longer = f"{plain}{'' if '.' in plain else '.'}{'0' * (zeros + 1)}"
    scaled = f"{figures}{'0' * zeros if figures else ''}{'E' if is_upper else 'e'}{power - zeros:+04d}"
    written = {body_sha256(parse(number.encode())) for number in (plain, longer, scaled)}

    assert 1 == len(written)
    if abs(value := Fraction(plain)) < 10**20 and value.denominator == 1:
        assert [int, int] == [type(parse(number.encode())) for number in (longer, scaled)]


def test_a_zero_has_one_value() -> None:
    """No sign and no exponent makes another number of it; one too long to read is refused."""
    zeros = [b"0", b"-0", b"-0.0", b"0e999999999999", b"0.000E-7"]

    assert 1 == len({body_sha256(parse(number)) for number in zeros})
    assert [("body", "number_too_long")] == faults(b"1e-" + b"9" * 5_000)
    assert [("body", "number_too_long")] == faults(b"0." + b"7" * 5_000)


def test_digest_is_pinned() -> None:
    """The digest of a body never changes: idempotency keys are bound to it for ever."""
    body = '{"b": [1, 1.0, -0.0, 1E22, 9223372036854775807, 0.5, 1e-400, true, null],'
    body += ' "a": "你\U0001f600\\n\\u007f/", "": {}}'
    canonical = rb'{"":{},"a":"\u4f60\ud83d\ude00\n'
    canonical += rb'\u007f/","b":[1,1,0,10000000000000000000000,9223372036854775807,0.5,'
    canonical += rb'{"\u0000":"1e-400"},true,null]}'
    expected = hashlib.sha256(canonical).hexdigest()

    digest = body_sha256(parse(body.encode()))

    assert expected == digest


def test_names_are_sorted_by_code_points() -> None:
    """Names beyond U+FFFF sort after all others, which UTF-16 order would not do."""
    names = ["\U0001f600", "\uffee", "a", "B", *string.digits]
    value = {name: index for index, name in enumerate(names)}

    ordered = {name: value[name] for name in sorted(names, key=lambda name: [ord(mark) for mark in name])}

    assert body_sha256(ordered) == body_sha256(value)


def count(value: Any) -> tuple[int, int]:
    """How many values it holds, itself included, and how many of them are empty lists and objects."""
    if type(value) not in {list, dict}:
        return 1, 0
    inner = [count(child) for child in (value.values() if type(value) is dict else value)]
    return 1 + sum(each[0] for each in inner), sum(each[1] for each in inner) + (not value)


@given(VALUES, st.booleans())
@example([",[{", {'a","b': '\\"[,'}, "\\", [], {}], False)
def test_values_are_counted_before_they_are_read(value: Any, is_ascii: bool) -> None:
    """What stands in names and texts does not count; empty lists and objects count twice."""
    body = json.dumps(value, ensure_ascii=is_ascii).encode()
    values, empty = count(value)

    assert same(parse(body), parse(body, max_values=values + empty))
    if values > 1:
        with pytest.raises(InvalidRequest) as refused:
            parse(body, max_values=values - 1)
        assert ["too_many_values"] == [fault.code for fault in refused.value.faults]
