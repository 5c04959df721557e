"""What an engine may give for speech: anything else is no sound of the text, and the job fails."""

from array import array

import pytest

from tenuto.features.speech.run import checked
from tenuto.host.host import HostResult
from tenuto.worker.engine_calls import ResultInvalid
from tenuto_engine.wav import pcm16_wav

TEXT = "Two words."


def made(samples: bytes, rate: int = 24_000, media_type: str = "audio/wav") -> HostResult:
    return HostResult(media_type, pcm16_wav(samples, rate, 1), {}, None)


def samples(value: int, seconds: float, rate: int = 24_000) -> bytes:
    return array("h", [value, -value] * int(seconds * rate / 2)).tobytes()


def test_a_wav_in_which_something_is_heard_is_taken() -> None:
    """One loud sample is enough; its duration is that of the samples that are there."""
    assert 2000 == checked(made(samples(5000, 2)), TEXT).duration_ms
    assert 1000 == checked(made(bytes(47_998) + b"\x83\x00"), TEXT).duration_ms


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (HostResult("audio/wav", b"RIFF", {}, None), "is invalid"),
        (HostResult("audio/wav", b"", {}, None), "is invalid"),
        (HostResult("audio/mpeg", b"ID3", {}, None), "'audio/mpeg' instead"),
        (made(b""), "is silent"),
        (made(bytes(48_000)), "is silent"),
        (made(samples(130, 1)), "is silent"),
        (made(samples(5000, 111, 8000), 8000), "lasts 111 s, for 10 characters"),
    ],
)
def test_what_is_no_speech_is_refused(result: HostResult, fault: str) -> None:
    """No WAV, nothing in it, nothing to hear, or no end."""
    with pytest.raises(ResultInvalid, match=fault):
        checked(result, TEXT)
