"""Recognition by a server that answers `POST /audio/transcriptions`: vLLM, Speaches, OpenAI.

A part goes there as a WAV, `verbose_json` comes back. The form is written by hand: it is two texts and a
file. Knows no jobs, nor how long recordings become parts.
"""

from __future__ import annotations

import secrets
from typing import Any

from tenuto_engine import Result, Run
from tenuto_engine_kit import recognition as shared
from tenuto_engine_kit.languages import AUTOMATIC

from .call import Calls, Server, parsed
from .sound import wav

MAX_ANSWER_BYTES = 16 << 20
MAX_SEGMENTS = 50_000
_LANGUAGES = frozenset({"zh", "en", "ja", "es", "ar"})
_NAMES = {"chinese": "zh", "english": "en", "japanese": "ja", "spanish": "es", "arabic": "ar"}


class UpstreamRecognition:
    """The server of one model; it makes either transcript, depending on the role in the settings."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._server = Server(options)
        self._options = options
        self.concurrency = int(options["connections"])
        self.info = {"model_id": options["model"], "role": options["role"], "metered": self._server.metered}

    def run(self, run: Run) -> Result:
        """The transcript of one chunk: 16 kHz mono PCM16 in, JSON out, times from the chunk's start."""
        audio, calls = run.inputs["audio"], Calls(self._server, run)
        heard = shared.Heard(len(audio) / 2 / shared.RATE)
        language = _language(run.parameters.get("language"), heard)
        body, media_type = _form(self._fields(language), wav(audio, shared.RATE))
        answer = calls.post(
            "audio/transcriptions",
            body,
            media_type,
            MAX_ANSWER_BYTES,
            lambda: run.progress("recognising", 0, 1, "parts"),
        )
        try:
            value = parsed(answer.content)
        except ValueError as error:
            raise calls.unusable(f"{answer.media_type[:60]} that is not JSON") from error
        self._take(value, heard, calls)
        run.progress("recognising", 1, 1, "parts")
        spoken = value.get("language")
        return heard.told(
            self._options["model"],
            self._options["model_revision"],
            _NAMES.get(str(spoken).casefold(), str(spoken)[:16]) if spoken else language,
        )

    def _fields(self, language: str | None) -> dict[str, str]:
        said = {
            "model": self._server.model,
            "response_format": "verbose_json",
            "timestamp_granularities[]": "segment",
            "temperature": "0",
        }
        return said if language is None else {**said, "language": language}

    def _take(self, value: Any, heard: shared.Heard, calls: Calls) -> None:
        if not isinstance(value, dict) or not isinstance(value.get("text"), str):
            raise calls.unusable("JSON that is no transcription")
        segments = value.get("segments")
        if not isinstance(segments or [], list) or len(segments or []) > MAX_SEGMENTS:
            raise calls.unusable("segments that are not a list, or too many")
        for segment in segments or []:
            if not isinstance(segment, dict) or not isinstance(segment.get("text"), str):
                raise calls.unusable("a segment that is not an object with a text")
            if segment["text"].strip():
                self._add(heard, segment)
        if not heard.segments and value["text"].strip():
            heard.misplaced = 0
            heard.warnings.append("The server gave no usable times, so the whole chunk is one segment.")
            self._add(heard, {"start": 0, "end": heard.length_s, "text": value["text"]})

    def _add(self, heard: shared.Heard, segment: dict[str, Any]) -> None:
        if self._options["role"] != "segment_text":
            heard.add(segment.get("start"), segment.get("end"), segment["text"])
            return
        speaker = segment.get("speaker")
        heard.add(
            segment.get("start"),
            segment.get("end"),
            segment["text"],
            speaker=speaker[:64] if isinstance(speaker, str) and speaker else None,
            type=shared.label_of(segment["text"]) or "speech",
        )


def _language(asked: Any, heard: shared.Heard) -> str | None:
    """The language code for the server; omitted if the server would refuse it, so that it detects the
    language."""
    if not asked or str(asked).strip().casefold() == AUTOMATIC:
        return None
    code = str(asked).replace("_", "-").split("-")[0].casefold()
    code = _NAMES.get(code, code)
    if code in _LANGUAGES:
        return code
    heard.warnings.append(
        f"The language {str(asked)!r} is not known to the server, which detects the language."
    )
    return None


def _form(fields: dict[str, str], recording: bytes) -> tuple[bytes, str]:
    """A multipart body with a random boundary."""
    boundary = f"tenuto-{secrets.token_hex(16)}"
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in fields.items()
    ]
    lines.append(
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="part.wav"\r\n'
        "Content-Type: audio/wav\r\n\r\n"
    )
    body = "".join(lines).encode() + recording + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"
