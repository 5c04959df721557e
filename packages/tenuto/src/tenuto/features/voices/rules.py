"""What a voice's name, its recording and a preference must be. Pure: knows no database and no request."""

from collections.abc import Mapping
from typing import Any
from unicodedata import category

from tenuto.errors import Fault, InvalidRequest
from tenuto.features.decoding.wav import Wav, WavInvalid, read_pcm16_wav
from tenuto.rules import WHITE_SPACE, Field, Text, by_name, read_fields, wrong_type

LANGUAGES = ("zh", "en", "ja", "es", "ar")
"""Those that are spoken."""
MAX_NAME_CHARACTERS = 80
MAX_RECORDING_BYTES = 12 * 1024 * 1024
MIN_RECORDING_S = 1
MAX_RECORDING_S = 15
MAX_CONTENT_ACCOUNT_CHARACTERS = 200
MAX_VOICE_ID_CHARACTERS = 100


def name_fault(param: str, name: str) -> Fault | None:
    """What is wrong with a name: 1 to 80 characters, no control character, no white space at its ends."""
    if not 1 <= len(name) <= MAX_NAME_CHARACTERS:
        message = f"has {len(name)} characters; from 1 to {MAX_NAME_CHARACTERS} are allowed"
        return Fault(param, "too_long" if name else "empty", message)
    control = next((mark for mark in name if category(mark) in ("Cc", "Cs")), None)
    if control is not None:
        return Fault(param, "not_allowed", f"has the control character U+{ord(control):04X}; leave it out")
    if name[0] in WHITE_SPACE or name[-1] in WHITE_SPACE:
        return Fault(param, "white_space", "has white space at an end; send it without")
    return None


def check_recording(content: bytes) -> Wav:
    """A reference recording: a PCM16 WAV of 1 to 15 seconds, measured on the frames that are there."""
    try:
        wav = read_pcm16_wav(content)
    except WavInvalid as error:
        message = f"the recording is no PCM16 WAV file: {error}"
        raise InvalidRequest([Fault("body", "invalid_recording", message)]) from error
    if not MIN_RECORDING_S * wav.sample_rate <= wav.frame_count <= MAX_RECORDING_S * wav.sample_rate:
        seconds = wav.frame_count / wav.sample_rate
        message = (
            f"the recording lasts {seconds:.7g} s; from {MIN_RECORDING_S} to {MAX_RECORDING_S} s are allowed"
        )
        raise InvalidRequest([Fault("body", "out_of_range", message)])
    return wav


class _Name:
    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        fault = name_fault(param, value) if type(value) is str else wrong_type(param, value, "a string")
        if fault is not None:
            faults.append(fault)
        return value


_CONTENT_ACCOUNT_NAME = Text(MAX_CONTENT_ACCOUNT_CHARACTERS, "characters", may_be_blank=False)


class _ContentAccount:
    """A name of the caller's own; the empty one is the general default."""

    def read(self, param: str, value: Any, faults: list[Fault]) -> Any:
        if value == "":
            return value
        return _CONTENT_ACCOUNT_NAME.read(param, value, faults)


RENAMING = (Field("name", _Name(), "What the voice is called from now on.", required=True),)

PREFERENCE = (
    Field("content_account", _ContentAccount(), "Whose choice it is; left out or empty: the default."),
    Field("voice_id", Text(MAX_VOICE_ID_CHARACTERS, "characters"), "The voice chosen.", required=True),
)


def parse_renaming(body: Any) -> str:
    """The new name. Raises InvalidRequest with all that is wrong."""
    name: str = _parse(by_name(RENAMING), body)["name"]
    return name


def parse_preference(body: Any) -> tuple[str, str]:
    """Content account ('' for the default) and voice id. Raises InvalidRequest with all that is wrong."""
    values = _parse(by_name(PREFERENCE), body)
    return values.get("content_account", ""), values["voice_id"]


def _parse(fields: Mapping[str, Field], body: Any) -> dict[str, Any]:
    if type(body) is not dict:
        raise InvalidRequest([wrong_type("body", body, "an object")])
    faults: list[Fault] = []
    values = read_fields(fields, body, "", faults)
    if faults:
        raise InvalidRequest(faults)
    return values
