"""What is a result of speech: a WAV in which something is heard, and that ends in time."""

from typing import Any

from tenuto.catalog.kinds import SuppliedResult
from tenuto.errors import OperatorError
from tenuto.hosts.host import HostResult
from tenuto.media.pauses import is_quiet
from tenuto.media.wav import Wav, WavInvalid, read_pcm16_wav
from tenuto.worker.calls import ResultInvalid

MEDIA_TYPE = "audio/wav"
LONGEST_S, LONGEST_PER_CHARACTER_S = 60.0, 5.0
"""Nobody speaks a text for longer, at any pace, with any pause: the model did not find the end."""


def checked(result: HostResult, text: str) -> Wav:
    """The sound that an engine made of a text. Raises ResultInvalid."""
    if result.media_type != MEDIA_TYPE:
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of {MEDIA_TYPE}")
    try:
        wav = read_pcm16_wav(result.content)
    except WavInvalid as error:
        raise ResultInvalid(f"the engine's WAV is not one: {error}") from error
    seconds = wav.frame_count / wav.sample_rate
    if seconds > LONGEST_S + LONGEST_PER_CHARACTER_S * len(text):
        raise ResultInvalid(f"the engine's WAV lasts {seconds:.0f} s, for {len(text)} characters")
    if is_quiet(wav):
        raise ResultInvalid("the engine's WAV is silent")
    return wav


def supplied(content: bytes, parameters: dict[str, Any]) -> SuppliedResult:
    """An operator's file as a result; charged by what was measured. Raises OperatorError."""
    try:
        wav = read_pcm16_wav(content)
    except WavInvalid as error:
        raise OperatorError(f"the file is no result of a speech job, which is a WAV: {error}") from error
    return SuppliedResult(content, MEDIA_TYPE, {"duration_ms": wav.duration_ms}, wav.duration_ms)
