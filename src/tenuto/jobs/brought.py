"""A result that an operator brings to a job whose outcome was unknown: is it what the kind makes? Pure."""

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
class Brought:
    """Bytes that may be a job's result: their type, what is said of them, the duration that is charged."""

    content: bytes
    media_type: str
    metadata: dict[str, Any]
    duration_ms: int | None


def read(kind: str, content: bytes, parameters: str) -> Brought:
    """The result of a job of this kind with these frozen parameters. Raises OperatorError."""
    return _READERS[kind](content, json.loads(parameters))


def _speech(content: bytes, parameters: dict[str, Any]) -> Brought:
    try:
        wav = read_pcm16_wav(content)
    except WavInvalid as error:
        raise OperatorError(f"the file is no result of a speech job, which is a WAV: {error}") from error
    return Brought(content, "audio/wav", _by_operator(duration_ms=wav.duration_ms), wav.duration_ms)


def _image(content: bytes, parameters: dict[str, Any]) -> Brought:
    try:
        png = read_png(content)
    except PngInvalid as error:
        raise OperatorError(f"the file is no result of an image job, which is a PNG: {error}") from error
    return Brought(content, "image/png", _by_operator(width=png.width, height=png.height), None)


def _recognition(content: bytes, parameters: dict[str, Any]) -> Brought:
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
    return Brought(content, "application/json", metadata, bound["duration_ms"])


def _by_operator(**metadata: Any) -> dict[str, Any]:
    return metadata | {"brought_by": "operator"}


_READERS: Mapping[str, Callable[[bytes, dict[str, Any]], Brought]] = {
    "speech": _speech,
    "image": _image,
    "recognition": _recognition,
}
