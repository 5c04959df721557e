"""What hostile JSON of 4 MiB costs: processor time, whatever it holds."""

import time
from contextlib import suppress

import pytest

from tenuto.errors import InvalidRequest
from tenuto.strict_json import parse

SIZE = 4 << 20
MAX_VALUES = 10_000
HOSTILE = {
    "objects": b"[" + b"{}," * (SIZE // 3),
    "lists": b"[" + b"[]," * (SIZE // 3),
    "numbers": b"[" + b"1," * (SIZE // 2),
    "texts": b"[" + b'"",' * (SIZE // 3),
    "names": b"{" + b'"a":1,' * (SIZE // 6),
    "not numbers": b"[" + b"NaN," * (SIZE // 4),
    "commas in a text": b'"' + b"," * SIZE + b'"',
    "quotes in a text": b'"' + b'\\"' * (SIZE // 2) + b'"',
    "backslashes in a text": b'"' + b"\\\\" * (SIZE // 2) + b'"',
    "NUL in a text": b'"' + b"\\u0000" * (SIZE // 6) + b'"',
    "as many as may be": b"[" + b"{}," * 4999 + b'"' + b"x" * SIZE + b'"]',
    "as many in depth": b"[" * 20
    + b"{}," * 4900
    + b'"'
    + b"\\ud83d\\ude00" * (SIZE // 12)
    + b'"'
    + b"]" * 20,
    "as many that are wrong": b"[" + b"NaN," * 9999 + b"1]",
    "quotes without end": b'"' * SIZE,
    "long numbers": b"[" + b"9" * SIZE + b"]",
    "deep": b"[" * SIZE,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_costs_little(name: str) -> None:
    """4 MiB take less than a second of the processor, whatever they hold (P14)."""
    began = time.thread_time()  # Other threads of this process are not the parser's.
    with suppress(InvalidRequest):
        parse(HOSTILE[name], max_values=MAX_VALUES)

    assert time.thread_time() - began < 1
