"""Speech by a server that answers `POST /audio/speech`: vLLM-Omni, SGLang, Kokoro-FastAPI, OpenAI.

A long text is spoken in pieces, one call each; the pieces joined, with the pause that was asked for between
them, are the whole. What servers differ in stands in the manifests. Knows no jobs.
"""

from __future__ import annotations

import base64
from functools import partial
from pathlib import Path
from typing import Any

from tenuto_engine import InputError, Result, Run

from . import sound
from .call import Calls, Server
from .cutting import readable, split

SLOWEST, FASTEST = 0.25, 4.0
SECONDS_A_CHARACTER = 2.0
"""Speech that is longer than this, plus half a minute, is a runaway."""
MORE_SECONDS = 30.0


class UpstreamSpeech:
    """The server of one model. `connections` in the settings limits how many runs it takes at once."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._server = Server(options)
        self._about = {"model_id": options["model"], "model_revision": options["model_revision"]}
        self._options = options
        self._honoured = frozenset(options["honoured"])
        self._reference = _reference(options)
        self.concurrency = int(options["connections"])
        self.info = {"model_id": options["model"], "metered": self._server.metered}

    def run(self, run: Run) -> Result:
        """The whole text as one WAV, at the server's sample rate."""
        parameters, calls = run.parameters, Calls(self._server, run)
        text = readable(str(parameters["text"]), str(parameters["lang"]))
        pieces = split(text, int(self._options["max_input_characters"]))
        if not pieces:
            raise InputError("nothing_to_speak", "the text holds nothing to speak")
        spoken: list[bytes] = []
        rate = 0
        for number, piece in enumerate(pieces):
            found, content = self._speak(calls, run, piece, partial(_tell, run, number, len(pieces)))
            if rate not in (0, found):
                raise calls.unusable(f"sound at {found} samples a second, after {rate}")
            rate = found
            pause = bytes(2 * (rate * int(parameters["interval_silence"]) // 1000)) if spoken else b""
            spoken.append(pause + content)
            if parameters["stream"]:
                run.segment(sound.wav(spoken[-1], rate), {"duration_ms": _duration_ms(spoken[-1], rate)})
            _tell(run, number + 1, len(pieces))
        return self._result(b"".join(spoken), rate, len(pieces))

    def _speak(self, calls: Calls, run: Run, piece: str, tell: Any) -> tuple[int, bytes]:
        answer = calls.post_json("audio/speech", self._body(run, piece), sound.MAX_BYTES, tell)
        try:
            rate, samples = sound.decoded(answer.content)
        except sound.SoundInvalid as error:
            raise calls.unusable(f"something that {error} ({answer.media_type[:60]})") from error
        seconds = len(samples) / rate
        if seconds > MORE_SECONDS + SECONDS_A_CHARACTER * len(piece):
            raise calls.unusable(f"{seconds:.0f} s of sound for {len(piece)} characters")
        return rate, sound.pcm(samples)

    def _body(self, run: Run, piece: str) -> dict[str, Any]:
        """The request; parameters that the model does not honour are left out, so that strict servers accept
        it."""
        parameters = run.parameters
        said: dict[str, Any] = {"model": self._server.model, "input": piece, "response_format": "wav"}
        if "voice_id" in self._honoured:
            said |= _like(run.inputs.get("voice") or self._reference)
        else:
            said["voice"] = self._options["voices"].get(parameters["lang"], self._options["voice"])
        if "lang" in self._honoured:
            said["language"] = self._options["language_names"].get(parameters["lang"], "Auto")
        if "duration_factor" in self._honoured and parameters["duration_factor"] != 1:
            said["speed"] = round(min(max(1 / parameters["duration_factor"], SLOWEST), FASTEST), 4)
        return said

    def _result(self, samples: bytes, rate: int, count: int) -> Result:
        duration_ms = _duration_ms(samples, rate)
        measured = {"sample_rate": rate, "channels": 1, "duration_ms": duration_ms, "segments": count}
        return Result("audio/wav", sound.wav(samples, rate), {**measured, **self._about}, duration_ms)


def _reference(options: dict[str, Any]) -> bytes:
    """The recording of the original voice, for a server without voices of its own."""
    path = options.get("reference")
    return Path(path).expanduser().read_bytes() if path else b""


def _like(recording: bytes) -> dict[str, Any]:
    """A voice as its recording only, because its text is not known."""
    encoded = base64.b64encode(recording).decode("ascii")
    return {
        "task_type": "Base",
        "ref_audio": f"data:audio/wav;base64,{encoded}",
        "x_vector_only_mode": True,
    }


def _tell(run: Run, done: int, total: int) -> None:
    run.progress("speaking", done, total, "segments")


def _duration_ms(samples: bytes, rate: int) -> int:
    return round(len(samples) * 1000 / (2 * rate))
