"""What an engine may say about a part: anything else is no transcript, and the job fails."""

import json
from typing import Any

import pytest

from tenuto.features.recognition.recognise_chunk import checked
from tenuto.host.host import HostResult
from tenuto.host.registry import SEGMENT_TEXT, WORD_TIMESTAMPS
from tenuto.worker.engine_calls import ResultInvalid

LENGTH_S = 10.0
SOUND = {"start": 1, "end": 2.5, "text": "one", "speaker": "S01", "type": "speech"}


def read(value: Any, role: str = SEGMENT_TEXT, media_type: str = "application/json") -> dict[str, Any]:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    return checked(HostResult(media_type, content, {}, None), role, LENGTH_S)


def test_a_sound_transcript_is_kept_without_what_is_not_known() -> None:
    """Of the second role neither speakers nor a list of words stay (R127)."""
    value = {
        "language": "en",
        "segments": [{**SOUND, "words": [1]}],
        "speakers": {"S01": [1, 0.5]},
        "warnings": ["x"],
        "doubts": ["y"],
    }

    said = {"language": "en", "warnings": ["x"], "doubts": ["y"]}

    assert {"segments": [SOUND], "speakers": {"S01": [1.0, 0.5]}, **said} == read(value)
    assert {"segments": [{"start": 1.0, "end": 2.5, "text": "one"}], **said} == read(value, WORD_TIMESTAMPS)
    empty: dict[str, Any] = {"language": None, "segments": [], "speakers": {}, "warnings": [], "doubts": []}
    assert empty == read({"segments": []})


@pytest.mark.parametrize("reported", [None, 7, [], "", "e", "x" * 40, "the English language", "en\n"])
def test_a_language_that_is_not_a_code_is_not_reported(reported: Any) -> None:
    """It must not cost the caller a transcript."""
    assert None is read({"segments": [SOUND], "language": reported})["language"]


def test_a_little_beyond_the_end_is_the_end() -> None:
    """An engine counts in frames that are longer than samples; the segment ends with the part."""
    kept = read({"segments": [{**SOUND, "start": 9.9, "end": 10.4}]})["segments"][0]

    assert (9.9, 10.0) == (kept["start"], kept["end"])


@pytest.mark.parametrize(
    "segment",
    [
        7,
        {},
        SOUND | {"start": "1"},
        SOUND | {"start": True},
        SOUND | {"start": -0.1},
        SOUND | {"start": 3},
        SOUND | {"end": 11},
        SOUND | {"end": 1e300},
        SOUND | {"text": None},
        SOUND | {"text": "\ud800"},
        SOUND | {"speaker": 1},
        SOUND | {"type": "thunder"},
        SOUND | {"type": None},
    ],
)
def test_a_faulty_segment_is_no_segment(segment: Any) -> None:
    with pytest.raises(ResultInvalid):
        read({"segments": [segment]})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"[" * 100_000,
        b'{"segments": [{"start": NaN, "end": 1, "text": ""}]}',
        b'{"segments": [{"start": Infinity, "end": 1, "text": ""}]}',
        [],
        {},
        {"segments": {}},
        {"segments": [], "speakers": []},
        {"segments": [], "speakers": {"S01": ["x"]}},
        {"segments": [], "warnings": [1]},
        {"segments": [], "warnings": ["x"] * 101},
        {"segments": [], "doubts": "yes"},
    ],
)
def test_what_is_no_transcript_is_refused(value: Any) -> None:
    with pytest.raises(ResultInvalid):
        read(value)
