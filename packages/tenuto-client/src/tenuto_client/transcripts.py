"""Converts a recognition result to plain text, SubRip or WebVTT. Pure."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

FORMS = ("json", "txt", "srt", "vtt")

Json = Mapping[str, Any]


def written(result: Json, form: str, *, engine: str | None = None) -> str:
    """The transcript in one of `FORMS` except json.

    If there are two, the one with speakers is used, unless `engine` names the other: `segment_text` or
    `word_timestamps`. Times refer to the recording that was sent.
    """
    segments = list(spoken(result, engine))
    if form == "txt":
        return "".join(f"{line}\n" for line in _lines(segments))
    if form == "srt":
        cues = [
            f"{number}\n{_time(one, 'start', ',')} --> {_time(one, 'end', ',')}\n{_labelled(one, segments)}\n"
            for number, one in enumerate(segments, 1)
        ]
        return "\n".join(cues)
    cues = [f"{_time(one, 'start', '.')} --> {_time(one, 'end', '.')}\n{_cue(one)}\n" for one in segments]
    return "\n".join(["WEBVTT\n", *cues])


def spoken(result: Json, engine: str | None = None) -> Iterator[Json]:
    """The segments that contain text, in order."""
    engines: Mapping[str, Any] = result["engines"]
    name = engine or ("segment_text" if "segment_text" in engines else next(iter(engines)))
    for segment in engines[name]["segments"]:
        if segment["text"].strip():
            yield segment


def _lines(segments: list[Json]) -> Iterator[str]:
    """One line per segment, with the speaker if there are several speakers."""
    for segment in segments:
        yield _labelled(segment, segments)


def _labelled(segment: Json, segments: list[Json]) -> str:
    speakers = {one.get("speaker") for one in segments} - {None}
    text = " ".join(segment["text"].split())
    speaker = segment.get("speaker")
    return f"{speaker}: {text}" if len(speakers) > 1 and speaker else text


def _cue(segment: Json) -> str:
    text = html.escape(" ".join(segment["text"].split()), quote=False)
    speaker = segment.get("speaker")
    return f"<v {html.escape(str(speaker), quote=False)}>{text}" if speaker else text


def _time(segment: Json, name: str, point: str) -> str:
    """`01:02:03,004`."""
    whole = round(float(segment[name]) * 1000)
    seconds, milliseconds = divmod(whole, 1000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{point}{milliseconds:03}"
