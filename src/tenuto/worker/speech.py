"""A speech attempt: the engine speaks the whole text in one run; its WAV is checked."""

from tenuto.hosts.host import HostResult
from tenuto.media.wav import WavInvalid, read_pcm16_wav
from tenuto.worker import segments
from tenuto.worker.calls import EngineCalls, ResultInvalid


def run(calls: EngineCalls) -> HostResult:
    """The finished WAV, its duration measured on its samples. Raises ResultInvalid, and what hosts raise."""
    result = segments.run(calls, calls.claim.parameters, {})
    if result.media_type != "audio/wav":
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of audio/wav")
    try:
        wav = read_pcm16_wav(result.content)
    except WavInvalid as error:
        raise ResultInvalid(f"the engine's WAV is not one: {error}") from error
    return HostResult(result.media_type, result.content, result.metadata, wav.duration_ms)
