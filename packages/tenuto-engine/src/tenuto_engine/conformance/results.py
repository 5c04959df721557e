"""What a result of each kind looks like: media type, header, size, duration. Raises Nonconformance."""

from __future__ import annotations

import json
import math
import struct
import zlib
from array import array
from collections.abc import Mapping
from typing import Any

from tenuto_engine.conformance.process import Nonconformance, Outcome
from tenuto_engine.conformance.samples import RATE
from tenuto_engine.wav import duration_ms, read_pcm16_wav

SILENT = 33
"""No louder than -60 dB of full scale: nothing can be heard."""
LONGEST_S, LONGEST_PER_CHARACTER_S = 60.0, 5.0
BEYOND_S = 0.5
"""How far behind the end of the audio a segment of a transcript may end."""
FINISH_REASONS = ("stop", "length")
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def check_result(
    kind: str, outcome: Outcome, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]
) -> None:
    """Check what a run of this kind gave."""
    media_type = {
        "speech": "audio/wav",
        "image": "image/png",
        "recognition": "application/json",
        "chat": "text/plain",
        "embedding": "application/octet-stream",
    }.get(kind)
    actual = outcome.header["media_type"]
    require(media_type in (None, actual), f"the media type is {actual!r}, not {media_type!r}")
    warnings = outcome.header["metadata"].get("warnings", [])
    is_list = isinstance(warnings, list) and all(isinstance(one, str) for one in warnings)
    require(is_list, "metadata.warnings is not a list of texts")
    if kind == "speech":
        _check_speech(outcome, str(parameters["text"]))
    elif kind == "image":
        _check_image(outcome.content, int(parameters["width"]), int(parameters["height"]))
    elif kind == "recognition":
        _check_transcript(outcome, inputs["audio"])
    elif kind == "chat":
        _check_answer(outcome)
    elif kind == "embedding":
        _check_vectors(outcome, len(json.loads(inputs["inputs"])))


def _check_vectors(outcome: Outcome, count: int) -> None:
    """A row of finite 32-bit floats for each text, and the tokens of all."""
    require(len(outcome.content) % (4 * count) == 0, f"the result is not {count} rows of 32-bit floats")
    require(bool(outcome.content), "the vectors have no numbers")
    require(all(map(math.isfinite, array("f", outcome.content))), "a number is none")
    tokens = outcome.header["metadata"].get("prompt_tokens")
    require(type(tokens) is int and tokens > 0, f"metadata.prompt_tokens is {tokens!r}")


def require(condition: bool, fault: str) -> None:
    """Raise Nonconformance unless the condition holds."""
    if not condition:
        raise Nonconformance(fault)


def samples_of(content: bytes, what: str) -> tuple[bytes, int, int]:
    """The samples, rate and channels of a WAV."""
    try:
        return read_pcm16_wav(content)
    except ValueError as error:
        raise Nonconformance(f"{what} is not a PCM16 WAV: {error}") from error


def require_duration(reported: Any, measured: int, what: str) -> None:
    """A duration that is reported is that of the samples, to a millisecond."""
    is_right = reported is None or (type(reported) in (int, float) and abs(reported - measured) <= 1)
    require(is_right, f"{what} is {reported} ms; its samples last {measured} ms")


def _check_speech(outcome: Outcome, text: str) -> None:
    samples, rate, channels = samples_of(outcome.content, "the result")
    measured, metadata = duration_ms(samples, rate, channels), outcome.header["metadata"]
    require(any(abs(one) > SILENT for one in array("h", samples)), "the result is silent")
    longest = LONGEST_S + LONGEST_PER_CHARACTER_S * len(text)
    require(measured <= 1000 * longest, f"the result lasts {measured} ms, for {len(text)} characters")
    require_duration(outcome.header["duration_ms"], measured, "duration_ms")
    require_duration(metadata.get("duration_ms"), measured, "metadata.duration_ms")
    for name, value in (("sample_rate", rate), ("channels", channels)):
        reported = metadata.get(name, value)
        require(reported == value, f"metadata.{name} is {reported}; the WAV has {value}")


def _check_image(content: bytes, width: int, height: int) -> None:
    require(content.startswith(_SIGNATURE), "the result is not a PNG")
    at, pixels, size = len(_SIGNATURE), b"", (0, 0)
    name = b""
    while at < len(content) and name != b"IEND":
        length = int.from_bytes(content[at : at + 4], "big")
        name, chunk = content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        declared = content[at + 8 + length : at + 12 + length]
        require(
            declared == struct.pack(">I", zlib.crc32(name + chunk)), f"the PNG's {name!r} chunk is broken"
        )
        if name == b"IHDR":
            size = struct.unpack(">II", chunk[:8])
        pixels += chunk if name == b"IDAT" else b""
        at += 12 + length
    require(name == b"IEND" and at == len(content), "the PNG does not end where its last chunk does")
    require(size == (width, height), f"the PNG is {size[0]} × {size[1]}, not {width} × {height}")
    try:
        zlib.decompress(pixels)
    except zlib.error as error:
        raise Nonconformance("the PNG's pixels cannot be decompressed") from error


def _check_transcript(outcome: Outcome, audio: bytes) -> None:
    length_s = len(audio) / (2 * RATE)
    try:
        value = json.loads(outcome.content, parse_constant=_refuse)
    except ValueError as error:
        raise Nonconformance("the transcript is not JSON") from error
    segments = value.get("segments") if isinstance(value, dict) else None
    require(isinstance(segments, list), "the transcript has no list of segments")
    for segment in segments or ():
        require(isinstance(segment, dict), "a segment of the transcript is not an object")
        start, end = segment.get("start"), segment.get("end")
        numbers = type(start) in (int, float) and type(end) in (int, float)
        is_inside = numbers and 0 <= start <= end <= length_s + BEYOND_S and math.isfinite(end)
        require(is_inside, f"a segment lies from {start} to {end} s of {length_s:.1f} s")
        require(isinstance(segment.get("text"), str), "a segment of the transcript has no text")
    for name in ("warnings", "doubts"):
        texts = value.get(name, [])
        is_list = isinstance(texts, list) and all(isinstance(one, str) for one in texts)
        require(is_list, f"{name} of the transcript is not a list of texts")
    require_duration(outcome.header["duration_ms"], round(1000 * length_s), "duration_ms")


def check_pieces(outcome: Outcome, audio: bytes) -> None:
    """Check the text that a recognition reported while it ran, against its transcript."""
    length_s, before_s = len(audio) / (2 * RATE), 0.0
    texts = []
    for content, metadata in outcome.segments:
        start: Any = metadata.get("start")
        end: Any = metadata.get("end")
        numbers = type(start) in (int, float) and type(end) in (int, float)
        is_inside = numbers and 0 <= start <= end <= length_s + BEYOND_S and math.isfinite(end)
        require(is_inside, f"a piece lies from {start} to {end} s of {length_s:.1f} s")
        require(start >= before_s, f"a piece starts at {start} s, behind one that starts at {before_s} s")
        before_s = start
        try:
            texts.append(content.decode())
        except UnicodeDecodeError as error:
            raise Nonconformance("a piece of text is not UTF-8") from error
    segments = json.loads(outcome.content)["segments"]
    # Only who joins segments knows where spaces belong.
    whole = _letters("".join(one["text"] for one in segments))
    require(_letters("".join(texts)) == whole, "the pieces joined are not the text of the transcript")


def _letters(text: str) -> str:
    return "".join(text.split())


def _check_answer(outcome: Outcome) -> None:
    metadata = outcome.header["metadata"]
    for name in ("prompt_tokens", "completion_tokens"):
        count = metadata.get(name)
        require(type(count) is int and count >= 0, f"metadata.{name} is {count!r}, not a count")
    reason = metadata.get("finish_reason")
    require(reason in FINISH_REASONS, f"metadata.finish_reason is {reason!r}, not stop or length")
    try:
        outcome.content.decode()
    except UnicodeDecodeError as error:
        raise Nonconformance("the answer is not UTF-8") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")
