"""What each tool takes: models that give the tool's schema and check its arguments. They know no service."""

from __future__ import annotations

import base64
import string
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from tenuto_client.errors import InvalidSetting

WAIT_S = 45
"""How long a call waits for its job: clients commonly give up after 60 s."""
MAX_WAIT_S = 600
MAX_RECORDING_BYTES = 4 << 20
"""Of a recording that comes with a call, before base64: four minutes of MP3 at 128 kbit/s."""
MAX_FAULTS_NAMED = 16
"""Of one call; more are counted."""
MAX_NAME_CHARACTERS = 64
"""Of an argument, as far as a fault names it."""

Kind = Literal["speech", "recognition", "image", "chat", "embedding"]
Language = Literal["zh", "en", "ja", "es", "ar"]
T = TypeVar("T", bound="Arguments")


class Arguments(BaseModel):
    """The arguments of a tool; an unknown one is a fault."""

    model_config = ConfigDict(extra="forbid")


class Making(Arguments):
    """What every tool takes that makes something."""

    model: str | None = Field(
        None, description="The id of a model, from `models`; by default one that takes work."
    )
    take: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="The same request with the same number is the same job and is charged once, however "
        "often it is sent. Use the next number only to make another one.",
    )
    wait_s: int = Field(
        WAIT_S,
        ge=0,
        le=MAX_WAIT_S,
        description="Seconds to wait for the result. The job continues afterwards: ask `job` for it.",
    )


class Say(Making):
    """Speech from a text."""

    text: str = Field(min_length=1, max_length=8192, description="What to say, at most 8,192 bytes of UTF-8.")
    voice: str | None = Field(None, description="The id or name of a voice, from `voices`.")
    lang: Language | None = Field(None, description="The language of the text; by default it is detected.")
    speed: float | None = Field(None, ge=0.5, le=2, description="0.5 to 2; larger is faster.")
    format: Literal["wav", "mp3", "opus", "flac"] | None = Field(None, description="By default WAV.")


class Transcribe(Making):
    """A transcript of a recording."""

    lang: str = Field(
        "auto", min_length=1, max_length=16, description="The language spoken; `auto` detects it."
    )


class Draw(Making):
    """An image from a prompt."""

    prompt: str = Field(min_length=1, max_length=20_000, description="What the image should show.")
    width: int | None = Field(None, ge=256, le=2048, description="Pixels, a multiple of 8.")
    height: int | None = Field(None, ge=256, le=2048, description="Pixels, a multiple of 8.")
    seed: int | None = Field(None, ge=0, description="The same seed gives the same image.")
    steps: int | None = Field(None, ge=1, le=100, description="More steps take longer.")
    guidance: float | None = Field(None, ge=0, le=20, description="How closely the image follows the prompt.")
    format: Literal["png", "webp", "jpeg"] | None = Field(None, description="By default PNG.")


class Job(Arguments):
    """A job by its id."""

    job_id: str = Field(min_length=1, max_length=200, description="As a tool reported it.")
    wait_s: int = Field(0, ge=0, le=MAX_WAIT_S, description="Seconds to wait for the job to finish.")
    cancel: bool = Field(False, description="Cancel the job, unless it has finished.")


class Voices(Arguments):
    """Which voices to list."""

    lang: str | None = Field(None, description="Only voices of this language, such as `en`.")
    search: str | None = Field(None, description="Only voices whose name or id contains this.")


class Models(Arguments):
    """Which models to list."""

    kind: Kind | None = Field(None, description="Only models of this kind.")


class Balance(Arguments):
    """Nothing."""


OUTPUT = "The file's name in the folder; no file is overwritten. By default it is named after the job."


class SayToFile(Say):
    """Speech as a file of the folder."""

    output: str | None = Field(None, min_length=1, max_length=1024, description=OUTPUT)


class DrawToFile(Draw):
    """An image as a file of the folder."""

    output: str | None = Field(None, min_length=1, max_length=1024, description=OUTPUT)


class TranscribeFile(Transcribe):
    """A recording of the folder."""

    file: str = Field(
        min_length=1, max_length=1024, description="A recording in the folder, of at most 120 minutes."
    )
    format: Literal["txt", "srt", "vtt", "json"] | None = Field(None, description="By default plain text.")
    output: str | None = Field(None, min_length=1, max_length=1024, description=OUTPUT)


class JobToFile(Job):
    """A job, and where to put its result."""

    output: str | None = Field(
        None, min_length=1, max_length=1024, description=f"Saves the result, once there is one. {OUTPUT}"
    )


class TranscribeUpload(Transcribe):
    """A recording that comes with the call, or that the service has."""

    recording: str | None = Field(
        None,
        min_length=1,
        description="The recording's file in base64, or as a `data:` URL: at most "
        f"{MAX_RECORDING_BYTES >> 20} MiB before base64; WAV, MP3, FLAC, Ogg, AIFF, AU or CAF.",
    )
    input_artifact_id: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Instead of `recording`, for larger ones: the id of a FLAC that was uploaded with this "
        "key by `POST /v1/input-artifacts`.",
    )

    def content(self) -> bytes | None:
        """The recording, if it came with the call. InvalidSetting: neither, both, not base64, too large."""
        if (self.recording is None) == (self.input_artifact_id is None):
            raise InvalidSetting("give either `recording`, in base64, or `input_artifact_id`")
        if self.recording is None:
            return None
        head, separator, encoded = self.recording.partition(";base64,")
        text = encoded if separator and head.startswith("data:") else self.recording
        try:
            # Without an object for each of its lines, of which it may have millions.
            encoded_bytes = text.encode("ascii").translate(None, string.whitespace.encode())
            content = base64.b64decode(encoded_bytes, validate=True)
        except ValueError:
            raise InvalidSetting(
                "recording: is not base64; send its bytes in base64 (A–Z, a–z, 0–9, +, /, and = to fill up), "
                "alone or behind `data:audio/…;base64,`"
            ) from None
        if not 0 < len(content) <= MAX_RECORDING_BYTES:
            raise InvalidSetting(
                f"recording: has {len(content):,} bytes; 1 to {MAX_RECORDING_BYTES:,} are sent with a call. "
                "Upload a larger one as FLAC by `POST /v1/input-artifacts`, and send its `input_artifact_id`"
            )
        return content


def waiting_at_most(model: type[T], most_s: int) -> type[T]:
    """The same arguments where a call may wait no longer than this for its job."""
    about = f"Seconds to wait for the result, at most {most_s}; then ask `job` for it."
    default = min(most_s, model.model_fields["wait_s"].default)
    return create_model(
        model.__name__, __base__=model, wait_s=(int, Field(default, ge=0, le=most_s, description=about))
    )


def checked(model: type[T], arguments: Mapping[str, Any] | None) -> T:
    """The arguments of a call. Raises InvalidSetting, which names the first `MAX_FAULTS_NAMED` faults."""
    try:
        return model.model_validate(dict(arguments or {}))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        faults = [_fault(model, one["loc"], one["type"], one["msg"]) for one in errors[:MAX_FAULTS_NAMED]]
        if len(errors) > MAX_FAULTS_NAMED:
            faults.append(f"and {len(errors) - MAX_FAULTS_NAMED} more faults")
        raise InvalidSetting("; ".join(faults)) from None


@cache
def schema(model: type[Arguments]) -> Mapping[str, Any]:
    """The JSON Schema of a tool's arguments, made once: it takes milliseconds."""
    document = model.model_json_schema()
    for field in document.get("properties", {}).values():
        field.pop("title", None)
        # Leaving an argument out is enough; not every client reads a choice of types.
        if (choice := field.pop("anyOf", None)) is not None:
            field.update(next(one for one in choice if one != {"type": "null"}))
            field.pop("default")
    return {"type": "object", "properties": {}} | {
        name: value for name, value in document.items() if name not in ("title", "description")
    }


def _fault(model: type[Arguments], location: tuple[int | str, ...], code: str, message: str) -> str:
    name = ".".join(str(one) for one in location)
    name = name if len(name) <= MAX_NAME_CHARACTERS else name[:MAX_NAME_CHARACTERS] + "…"
    if code == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return f"{name}: unknown; {f'choose from {known}' if known else 'this tool takes no arguments'}"
    if code == "missing":
        return f"{name}: missing"
    return f"{name}: {message[:1].lower()}{message[1:]}"
