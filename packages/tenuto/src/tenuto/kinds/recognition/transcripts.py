"""What an engine wrote about one part, checked: an engine is not trusted to know what it is writing.

Only what is known is kept. Nothing here knows jobs, hosts or other parts.
"""

import json
import math
from typing import Any

from tenuto.engines.registry import SEGMENT_TEXT
from tenuto.hosts.host import HostResult
from tenuto.kinds.recognition.result import MEDIA_TYPE
from tenuto.worker.calls import ResultInvalid

TYPES = ("speech", "music", "singing", "silence", "noise")
MAX_CONTENT_BYTES = 16 << 20
MAX_SEGMENTS = 50_000
MAX_SPEAKERS = 100
MAX_EMBEDDING = 4096
MAX_WARNINGS = 100
MAX_WARNING_CHARACTERS = 500
BEYOND_S = 0.5
"""So far behind its part's end a segment may end: the engine's frames are longer than samples are."""


def checked(result: HostResult, role: str, length_s: float) -> dict[str, Any]:
    """The transcript of a part of so many seconds. Raises ResultInvalid."""
    if result.media_type != MEDIA_TYPE or len(result.content) > MAX_CONTENT_BYTES:
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of a transcript")
    try:
        value = json.loads(result.content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ResultInvalid("the engine's transcript is not JSON") from error
    _require(isinstance(value, dict), "is no object")
    segments = _list(value.get("segments"), "segments", MAX_SEGMENTS)
    kept: dict[str, Any] = {
        "segments": [_segment(segment, role, length_s) for segment in segments],
        "warnings": _sentences(value, "warnings"),
        "doubts": _sentences(value, "doubts"),
    }
    if role == SEGMENT_TEXT:
        kept["speakers"] = _speakers(value.get("speakers", {}))
    return kept


def _sentences(value: dict[str, Any], name: str) -> list[str]:
    listed = _list(value.get(name, []), name, MAX_WARNINGS)
    return [_text(one, name)[:MAX_WARNING_CHARACTERS] for one in listed]


def _segment(segment: Any, role: str, length_s: float) -> dict[str, Any]:
    _require(isinstance(segment, dict), "has a segment that is no object")
    start, end = _number(segment.get("start"), "start"), _number(segment.get("end"), "end")
    _require(0 <= start <= end <= length_s + BEYOND_S, f"has a segment from {start} to {end} s")
    kept = {
        "start": min(start, length_s),
        "end": min(end, length_s),
        "text": _text(segment.get("text"), "text"),
    }
    if role == SEGMENT_TEXT:
        speaker, kind = segment.get("speaker"), segment.get("type")
        _require(kind in TYPES, "has a segment of an unknown type")
        kept |= {"speaker": None if speaker is None else _text(speaker, "speaker"), "type": kind}
    return kept


def _speakers(value: Any) -> dict[str, list[float]]:
    _require(isinstance(value, dict) and len(value) <= MAX_SPEAKERS, "has speakers that are no object")
    return {
        _text(name, "speaker"): [
            _number(number, "embedding") for number in _list(embedding, "embedding", MAX_EMBEDDING)
        ]
        for name, embedding in value.items()
    }


def _list(value: Any, name: str, limit: int) -> list[Any]:
    _require(isinstance(value, list) and len(value) <= limit, f"has no list of {name}, or too long a one")
    return list(value)


def _number(value: Any, name: str) -> float:
    is_number = type(value) in (int, float) and abs(value) < 1e9 and math.isfinite(value)
    _require(is_number, f"has a {name} that is no number")
    return float(value)


def _text(value: Any, name: str) -> str:
    _require(isinstance(value, str), f"has a {name} that is no text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ResultInvalid(f"the engine's transcript has a {name} that is no text") from error
    return str(value)


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise ResultInvalid(f"the engine's transcript {fault}")
