"""Bodies that JSON parsers could interpret differently: 400, and nothing is stored."""

import gzip
import json

import pytest

from servers.callers import Caller, Faults, error_code, job

pytestmark = pytest.mark.variant("database", only="postgresql")

TEXT = b'{"model": "fake/speech", "parameters": {"text": %s}}'
TOP_P = b'{"model": "fake/speech", "parameters": {"text": "x", "top_p": %s}}'
TOP_K = b'{"model": "fake/speech", "parameters": {"text": "x", "top_k": %s}}'
SOUND = json.dumps(job()).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", [("body", "invalid_json")]),
        (b"\xef\xbb\xbf" + SOUND, [("body", "byte_order_mark")]),
        (TEXT % b'"\xff"', [("body", "invalid_utf8")]),
        (
            b'{"model": "fake/speech", "parameters": {"text": "x", "top_p": NaN, "top_k": Infinity}}',
            [("parameters.top_k", "not_a_number"), ("parameters.top_p", "not_a_number")],
        ),
        (TEXT % b'"x", "\\u0074ext": "x"', [("parameters.text", "duplicate_name")]),
        (TEXT % b'"a\\u0000b"', [("parameters.text", "unstorable_text")]),
        (b"[" * 1_500, [("body", "too_deep")]),
        (b'{"a":' * 150_000, [("body", "too_many_values")]),
        (TOP_K % b"30.000000000000000000001", [("parameters.top_k", "wrong_type")]),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_json_is_read_strictly(caller: Caller, body: bytes, expected: Faults) -> None:
    """What readers disagree about or no database holds is a 400 that says where, no 500 (R11, R92).

    One of each kind of fault; tests/core/test_strict_json.py has the others.
    """
    assert expected == caller.refused(body)


def test_sound_json_is_taken_however_it_is_written(caller: Caller) -> None:
    """Spaces, escapes and forms of numbers do not matter, nor the case of a media type (R11, R92)."""
    bodies = (
        b" \t\r\n" + SOUND + b"\n",
        TEXT % b'"\\u4f60\\ud83d\\ude00"',
        TOP_P % b"1e-1",
        TOP_K % b"3.00E+1",
    )
    types = (
        "Application/JSON",
        'application/json;Charset="UTF-8"',
        "application/json; charset=us-ascii; q=1",
    )
    answers = [
        caller.post_job(SOUND, headers={"Content-Encoding": "identity"}),
        *(caller.post_job(body) for body in bodies),
        *(caller.post_job(job(), headers={"Content-Type": media_type}) for media_type in types),
    ]

    assert [202] * len(answers) == [answer.status_code for answer in answers]


def test_another_media_type_is_refused(caller: Caller) -> None:
    """Only application/json is a job (R11)."""
    types = ("text/plain", "", "application/x-www-form-urlencoded", "application/jsonx", "json")
    answers = [caller.post_job(job(), headers={"Content-Type": media_type}) for media_type in types]

    assert {(415, "unsupported_media_type")} == {error_code(answer) for answer in answers}


@pytest.mark.parametrize(
    ("method", "path", "media_type"),
    [
        ("POST", "/v1/jobs", "application/json"),
        ("POST", "/v1/chat/completions", "application/json"),
        ("PUT", "/v1/voice-preference", "application/json"),
        ("POST", "/v1/input-artifacts", "audio/flac"),
        ("POST", "/v1/voices", "audio/wav"),
    ],
)
def test_a_body_that_is_not_read_is_refused_by_name(
    caller: Caller, method: str, path: str, media_type: str
) -> None:
    """Compressed, or in another encoding of characters: the error names it, not invalid JSON or FLAC (R1,
    R11, R149, R163)."""
    headers = {"Content-Type": media_type, "Content-Encoding": "identity, GZip", "Idempotency-Key": "zipped"}
    answer = caller.request(method, path, headers=headers, content=gzip.compress(SOUND))

    assert (415, "unsupported_media_type") == error_code(answer)
    assert "Content-Encoding" in answer.json()["error"]["message"]
    for charset in ("utf-16", '"ISO-8859-1"', "") if media_type == "application/json" else ():
        headers = {"Content-Type": f"application/json; profile=x;Charset={charset}", "Idempotency-Key": "x"}
        answer = caller.request(method, path, headers=headers, content=SOUND)
        assert (415, "unsupported_media_type") == error_code(answer)
        assert f'"{charset.strip(chr(34))}"' in answer.json()["error"]["message"]


def test_a_body_has_at_most_a_mebibyte(caller: Caller) -> None:
    """1,048,576 bytes are read, one more is 413 and nothing is stored."""
    padded = SOUND + b" " * (1024 * 1024 - len(SOUND))

    assert 202 == caller.post_job(padded).status_code
    assert (413, "payload_too_large") == error_code(caller.post_job(padded + b" "))
    assert 1 == len(caller.newest())
