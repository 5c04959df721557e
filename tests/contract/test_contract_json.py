"""Bodies that JSON parsers could interpret differently: 400, and nothing is stored."""

import gzip
import json

import pytest

from servers.callers import Caller, Faults, error_code, job

pytestmark = pytest.mark.variant("database", only="postgresql")

TEXT = b'{"model": "fake/speech", "parameters": {"text": %s}}'
TOP_P = b'{"model": "fake/speech", "parameters": {"text": "x", "top_p": %s}}'
SOUND = json.dumps(job()).encode()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", [("body", "invalid_json")]),
        (b" ", [("body", "invalid_json")]),
        (SOUND[:-1], [("body", "invalid_json")]),
        (SOUND + b"x", [("body", "invalid_json")]),
        (SOUND + SOUND, [("body", "invalid_json")]),
        (SOUND + b"\0", [("body", "invalid_json")]),
        (SOUND.replace(b'"', b"'"), [("body", "invalid_json")]),
        (TEXT % b'"x",', [("body", "invalid_json")]),
        (TEXT % b'"a\nb"', [("body", "invalid_json")]),
        (TOP_P % b"01", [("body", "invalid_json")]),
        (TOP_P % b".5", [("body", "invalid_json")]),
        (TOP_P % b"+1", [("body", "invalid_json")]),
        (b"\xef\xbb\xbf" + SOUND, [("body", "byte_order_mark")]),
        (SOUND.decode().encode("utf-16"), [("body", "invalid_utf8")]),
        (TEXT % b'"\xff"', [("body", "invalid_utf8")]),
        (TEXT % b'"\xed\xa0\x80"', [("body", "invalid_utf8")]),
        (TEXT % b'"\xc0\xaf"', [("body", "invalid_utf8")]),
        (TOP_P % b"NaN", [("parameters.top_p", "not_a_number")]),
        (TOP_P % b"Infinity", [("parameters.top_p", "not_a_number")]),
        (TOP_P % b"-Infinity", [("parameters.top_p", "not_a_number")]),
        (TOP_P % b"1e400", [("parameters.top_p", "number_too_large")]),
        (TOP_P % (b"1" + b"0" * 400), [("parameters.top_p", "number_too_large")]),
        (TOP_P % (b"9" * 500_000), [("parameters.top_p", "number_too_large")]),
        (
            b'{"model": "fake/speech", "model": "fake/speech", "parameters": {}}',
            [("model", "duplicate_name")],
        ),
        (TEXT % b'"x", "\\u0074ext": "x"', [("parameters.text", "duplicate_name")]),
        (TEXT % b'"\\ud800"', [("parameters.text", "unstorable_text")]),
        (TEXT % b'"\\udfff\\ud800"', [("parameters.text", "unstorable_text")]),
        (TEXT % b'"a\\u0000b"', [("parameters.text", "unstorable_text")]),
        (SOUND[:-1] + b', "metadata": {"a\\u0000": "x"}}', [("metadata.a\\u0000", "unstorable_text")]),
        (b"[" * 33 + b"]" * 33, [("[0]" * 32, "too_deep")]),
        (TOP_P % (b"[" * 31 + b"]" * 31), [("parameters.top_p" + "[0]" * 30, "too_deep")]),
        (b"[" * 1_500, [("body", "too_deep")]),
        (b'{"a":' * 1_500, [("body", "too_deep")]),
        (b"[" * 500_000, [("body", "too_many_values")]),
        (b'{"a":' * 150_000, [("body", "too_many_values")]),
    ],
    ids=lambda value: repr(value)[:50],
)
def test_json_is_read_strictly(caller: Caller, body: bytes, expected: Faults) -> None:
    """What readers disagree about or no database holds is a 400 that says where, no 500 (R11, R92)."""
    assert expected == caller.refused(body)


def test_every_number_that_is_none_is_named(caller: Caller) -> None:
    """All of them are reported at once (R92, R207)."""
    body = b'{"model": "fake/speech", "parameters": {"text": "x", "top_p": NaN, "emo_vector": [0, Infinity]}}'

    assert [
        ("parameters.emo_vector[1]", "not_a_number"),
        ("parameters.top_p", "not_a_number"),
    ] == caller.refused(body)


@pytest.mark.parametrize(
    "body",
    [
        b" \t\r\n" + SOUND + b"\n",
        TEXT % b'"\\u4f60\\ud83d\\ude00"',
        TEXT % '"你\U0001f600"'.encode(),
        TOP_P % b"1e-1",
        TOP_P % b"0.5000000000000000000000000001",
        TEXT % (b'"' + b"[" * 40 + b'"'),
    ],
)
def test_sound_json_is_taken_however_it_is_written(caller: Caller, body: bytes) -> None:
    """Spaces, escapes and forms of numbers do not matter (R11)."""
    assert 202 == caller.post_job(body).status_code


@pytest.mark.parametrize("number", [b"30.0", b"3e1", b"3.00E+1", b"300e-1"])
def test_an_integer_may_be_written_as_any_number(caller: Caller, number: bytes) -> None:
    """JSON has one kind of number: an integer field takes every spelling of 30 (R92)."""
    body = b'{"model": "fake/speech", "parameters": {"text": "x", "top_k": %s}}' % number

    assert 202 == caller.post_job(body).status_code


@pytest.mark.parametrize("number", [b'"30"', b"true", b"30.5", b"30.000000000000000000001"])
def test_an_integer_is_whole(caller: Caller, number: bytes) -> None:
    """Whether it is one is told from its digits, not from the nearest double (R92)."""
    found = caller.refused(b'{"model": "fake/speech", "parameters": {"text": "x", "top_k": %s}}' % number)

    assert [("parameters.top_k", "wrong_type")] == found


@pytest.mark.parametrize(
    "media_type", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonx", "json"]
)
def test_another_media_type_is_refused(caller: Caller, media_type: str) -> None:
    """Only application/json is a job (R11)."""
    answer = caller.post_job(job(), headers={"Content-Type": media_type})

    assert (415, "unsupported_media_type") == error_code(answer)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/jobs"), ("POST", "/v1/chat/completions"), ("PUT", "/v1/voice-preference")],
)
@pytest.mark.parametrize("charset", ["utf-16", '"ISO-8859-1"', "gbk", ""])
def test_a_charset_that_is_not_read_is_refused_by_name(
    caller: Caller, method: str, path: str, charset: str
) -> None:
    """A body is read as UTF-8: one that is declared otherwise would be misread without a word (R11)."""
    headers = {"Content-Type": f"application/json; profile=x;Charset={charset}", "Idempotency-Key": "other"}
    answer = caller.request(method, path, headers=headers, content=SOUND)
    message = answer.json()["error"]["message"]

    assert (415, "unsupported_media_type") == error_code(answer)
    assert f'"{charset.strip(chr(34))}"' in message and "send the body as UTF-8" in message


@pytest.mark.parametrize(
    "media_type",
    [
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;Charset="UTF-8"',
        "application/json; charset=us-ascii",
        "application/json; q=1",
    ],
)
def test_the_media_type_may_be_written_in_any_way(caller: Caller, media_type: str) -> None:
    """Case and parameters of the media type do not matter (R11)."""
    assert 202 == caller.post_job(job(), headers={"Content-Type": media_type}).status_code


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
def test_a_compressed_body_is_refused_by_name(
    caller: Caller, method: str, path: str, media_type: str
) -> None:
    """The error names the encoding, not invalid JSON or FLAC (R1, R11, R149, R163)."""
    headers = {"Content-Type": media_type, "Content-Encoding": "identity, GZip", "Idempotency-Key": "zipped"}
    answer = caller.request(method, path, headers=headers, content=gzip.compress(SOUND))

    assert (415, "unsupported_media_type") == error_code(answer)
    assert "Content-Encoding" in answer.json()["error"]["message"]
    assert 202 == caller.post_job(SOUND, headers={"Content-Encoding": "identity"}).status_code


def test_a_body_has_at_most_a_mebibyte(caller: Caller) -> None:
    """1,048,576 bytes are read, one more is 413 and nothing is stored."""
    padded = SOUND + b" " * (1024 * 1024 - len(SOUND))

    assert 202 == caller.post_job(padded).status_code
    assert (413, "payload_too_large") == error_code(caller.post_job(padded + b" "))
    assert 1 == len(caller.newest())
