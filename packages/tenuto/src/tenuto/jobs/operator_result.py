"""A result that an operator supplies for a job whose outcome was unknown: is it what the kind makes? Pure."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tenuto import strict_json
from tenuto.errors import InvalidRequest, OperatorError
from tenuto.media.png import PngInvalid, read_png
from tenuto.media.wav import WavInvalid, read_pcm16_wav

RECOGNITION_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class OperatorResult:
    """Bytes that may be a job's result: their type, what is said of them, the duration that is charged."""

    content: bytes
    media_type: str
    metadata: dict[str, Any]
    duration_ms: int | None


def read(kind: str, content: bytes, parameters: str) -> OperatorResult:
    """The result of a job of this kind with these frozen parameters. Raises OperatorError."""
    reader = _READERS.get(kind)
    if reader is None:
        raise OperatorError(f"the job's record is damaged: there are no jobs of the kind {kind!r}; void it")
    try:
        return reader(content, json.loads(parameters))
    except (ValueError, TypeError, KeyError) as error:
        raise OperatorError("the job's record is damaged: its parameters cannot be read; void it") from error


def _speech(content: bytes, parameters: dict[str, Any]) -> OperatorResult:
    try:
        wav = read_pcm16_wav(content)
    except WavInvalid as error:
        raise OperatorError(f"the file is no result of a speech job, which is a WAV: {error}") from error
    return OperatorResult(content, "audio/wav", _by_operator(duration_ms=wav.duration_ms), wav.duration_ms)


def _image(content: bytes, parameters: dict[str, Any]) -> OperatorResult:
    try:
        png = read_png(content)
    except PngInvalid as error:
        raise OperatorError(f"the file is no result of an image job, which is a PNG: {error}") from error
    return OperatorResult(content, "image/png", _by_operator(width=png.width, height=png.height), None)


def _recognition(content: bytes, parameters: dict[str, Any]) -> OperatorResult:
    """Charged by the duration of the input, which was measured when it was uploaded."""
    bound = parameters["input"]
    try:
        value = strict_json.parse(content)
    except InvalidRequest as error:
        raise OperatorError(f"the file is no result of a recognition job: {error.message}") from error
    expected = {"schema_version": RECOGNITION_SCHEMA, "source_artifact_id": bound["artifact_id"]}
    if type(value) is not dict or any(value.get(name) != right for name, right in expected.items()):
        raise OperatorError(
            f"the file is no result of this recognition job: a JSON object with {json.dumps(expected)}"
        )
    metadata = _by_operator(schema_version=RECOGNITION_SCHEMA, duration_ms=bound["duration_ms"])
    return OperatorResult(content, "application/json", metadata, bound["duration_ms"])


def _by_operator(**metadata: Any) -> dict[str, Any]:
    return metadata | {"brought_by": "operator"}


_READERS: Mapping[str, Callable[[bytes, dict[str, Any]], OperatorResult]] = {
    "speech": _speech,
    "image": _image,
    "recognition": _recognition,
}
