"""A speech attempt: the engine speaks the whole text in one run, with the recordings of the job's voices; its
WAV is checked, and long pauses of the shared voice's are shortened.
"""

from typing import Any

from tenuto.hosts.host import HostResult
from tenuto.kinds.speech import preview
from tenuto.kinds.speech.binding import BOUND_VOICES
from tenuto.kinds.speech.result import checked
from tenuto.media.pauses import shorten_pauses
from tenuto.media.wav import Wav, read_pcm16_wav
from tenuto.worker.calls import EngineCalls
from tenuto.worker.inputs import read_input


def run(calls: EngineCalls) -> HostResult:
    """The finished WAV, its duration measured on its samples. Raises ResultInvalid, and what hosts raise."""
    parameters = calls.claim.parameters
    result = preview.run(calls, parameters, _recordings(calls, parameters))
    wav = checked(result, parameters["text"])
    voice = parameters.get("voice")
    if voice is not None and voice["kind"] == "shared":
        return _with_short_pauses(result, wav, voice["profile_version"])
    return HostResult(result.media_type, result.content, result.metadata, wav.duration_ms)


def _recordings(calls: EngineCalls, parameters: dict[str, Any]) -> dict[str, bytes]:
    """Each voice's recording as it was when the job was accepted; jobs older than voices have none."""
    found = {name: parameters.get(name) for name in BOUND_VOICES.values()}
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
