"""A speech attempt: the engine speaks the whole text in one run, with the recordings of the job's voices; its
WAV is checked, and long pauses of the shared voice's are shortened.
"""

from typing import Any

from tenuto.hosts.host import HostResult
from tenuto.media.pauses import is_quiet, shorten_pauses
from tenuto.media.wav import Wav, WavInvalid, read_pcm16_wav
from tenuto.worker import segments
from tenuto.worker.calls import EngineCalls, ResultInvalid
from tenuto.worker.inputs import read_input

VOICES = ("voice", "emotion_voice")
LONGEST_S, LONGEST_PER_CHARACTER_S = 60.0, 5.0
"""Nobody speaks a text for longer, at any pace, with any pause: the model did not find the end."""


def run(calls: EngineCalls) -> HostResult:
    """The finished WAV, its duration measured on its samples. Raises ResultInvalid, and what hosts raise."""
    parameters = calls.claim.parameters
    result = segments.run(calls, parameters, _recordings(calls, parameters))
    wav = checked(result, parameters["text"])
    voice = parameters.get("voice")
    if voice is not None and voice["kind"] == "shared":
        return _with_short_pauses(result, wav, voice["profile_version"])
    return HostResult(result.media_type, result.content, result.metadata, wav.duration_ms)


def checked(result: HostResult, text: str) -> Wav:
    """The sound that an engine made of a text: a WAV in which something is heard, and that ends in time."""
    if result.media_type != "audio/wav":
        raise ResultInvalid(f"the engine gave {result.media_type[:60]!r} instead of audio/wav")
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


def _recordings(calls: EngineCalls, parameters: dict[str, Any]) -> dict[str, bytes]:
    """Each voice's recording as it was when the job was accepted; jobs older than voices have none."""
    found = {name: parameters.get(name) for name in VOICES}
    return {
        name: read_input(calls, voice["blob_id"], f"the recording of {voice['voice_id']}")
        for name, voice in found.items()
        if voice is not None
    }


def _with_short_pauses(result: HostResult, wav: Wav, profile_version: str) -> HostResult:
    """The shared voice's final file; segments of a preview were shown as they came, with their pauses."""
    shortened = shorten_pauses(wav)
    content = result.content if shortened is None else shortened.content
    duration_ms = read_pcm16_wav(content).duration_ms
    metadata = {
        **result.metadata,
        "duration_ms": duration_ms,
        "voice_profile_version": profile_version,
        "pause_removed_ms": 0 if shortened is None else shortened.removed_ms,
    }
    return HostResult(result.media_type, content, metadata, duration_ms)
