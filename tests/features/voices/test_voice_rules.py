"""Names, recordings and preferences as rules: what is taken, what is refused, and why."""

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.api.json_body import decode_name
from tenuto.errors import InvalidRequest
from tenuto.features.decoding.wav import pcm16_wav
from tenuto.features.voices.rules import (
    check_recording,
    name_fault,
    parse_preference,
    parse_renaming,
)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Clara", "Clara"),
        (b"%E5%A3%B0%E9%9F%B3", "声音"),
        ("声音".encode(), "声音"),
        (b"UTF-8''%E5%A3%B0%20%E9%9F%B3", "声 音"),
        (b"utf-8'zh-CN'%E5%A3%B0", "声"),
        (b"a%20b", "a b"),
        (b"100%", "100%"),
        (b"50%25", "50%"),
        (b"%ff", "%ff"),
        ("音%20声".encode(), "音 声"),
        (b"iso-8859-1''%e9", "iso-8859-1''%e9"),
        (b"", ""),
        (b"\xe9t\xe9", None),
    ],
)
def test_a_name_is_read_from_its_header(header: bytes, name: str | None) -> None:
    """Percent-encoded, RFC 8187 or raw UTF-8; what is none of these stands as it is, unless it is no text."""
    assert name == decode_name(header)


@given(st.text(max_size=80))
def test_every_name_can_be_sent(name: str) -> None:
    """Percent-encoding brings any text through, by itself and in RFC 8187's form."""
    assert name == decode_name(quote(name, safe="").encode())
    assert name == decode_name(b"UTF-8''" + quote(name, safe="").encode())


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("x", None),
        ("声" * 80, None),
        ("👩‍👩‍👧", None),
        ("a  b", None),
        ("", "empty"),
        ("x" * 81, "too_long"),
        ("a\nb", "not_allowed"),
        ("a\x7f", "not_allowed"),
        ("a\x85b", "not_allowed"),
        (" a", "white_space"),
        ("a\u3000", "white_space"),
    ],
)
def test_a_name_is_for_people(name: str, code: str | None) -> None:
    """1 to 80 characters, no control characters, no white space at the ends."""
    fault = name_fault("name", name)

    assert code == (None if fault is None else fault.code)


@pytest.mark.parametrize(
    ("frames", "rate", "channels", "good"),
    [
        (8_000, 8_000, 1, True),
        (7_999, 8_000, 1, False),
        (15 * 8_000, 8_000, 2, True),
        (15 * 8_000 + 1, 8_000, 2, False),
    ],
)
def test_a_recording_lasts_1_to_15_seconds(frames: int, rate: int, channels: int, good: bool) -> None:
    """Counted on the frames that are there, both ends included (R168)."""
    content = pcm16_wav(bytes(2 * channels * frames), rate, channels)
    if good:
        assert frames == check_recording(content).frame_count
        return
    with pytest.raises(InvalidRequest) as refused:
        check_recording(content)

    assert [("body", "out_of_range")] == [(fault.param, fault.code) for fault in refused.value.faults]


@pytest.mark.parametrize(
    ("read", "body", "expected"),
    [
        (parse_preference, {"voice_id": "v"}, ("", "v")),
        (parse_preference, {"voice_id": "v", "content_account": "频道"}, ("频道", "v")),
        (parse_preference, {}, [("voice_id", "required")]),
        (parse_preference, [], [("body", "wrong_type")]),
        (parse_preference, {"voice_id": ""}, [("voice_id", "empty")]),
        (parse_preference, {"voice_id": "v", "content_account": None}, [("content_account", "wrong_type")]),
        (
            parse_preference,
            {"voice_id": "v", "content_account": "x" * 201},
            [("content_account", "too_long")],
        ),
        (
            parse_preference,
            {"voice_id": 1, "account": "x"},
            [("voice_id", "wrong_type"), ("account", "unknown_name")],
        ),
        (parse_renaming, {"name": "新"}, "新"),
        (parse_renaming, {"name": ""}, [("name", "empty")]),
        (parse_renaming, {"name": "x", "kind": "own"}, [("kind", "unknown_name")]),
    ],
)
def test_a_preference_is_a_voice_and_only_a_name_can_be_changed(
    read: Callable[[Any], Any], body: Any, expected: Any
) -> None:
    """The content account may be left out or empty; all faults at once; a recording never changes under its
    id (R175, R180, R181)."""
    try:
        found = read(body)
    except InvalidRequest as refused:
        found = [(fault.param, fault.code) for fault in refused.faults]

    assert expected == found
