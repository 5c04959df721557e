"""A server of models as vLLM, vLLM-Omni and OpenAI are: speech, transcriptions, images, over real HTTP.

It refuses what they refuse (fields that it does not know, sizes and voices that there are not) and writes
what they write, a WAV whose header was sent before its length was known among it. `faults` holds what the
next answers do wrong, first come, first served; what is left of it is left for later requests.
"""

import base64
import io
import json
import math
import struct
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import soundfile
from PIL import Image

RATE = 24_000
SECONDS_A_CHARACTER = 0.06
PRIVATE = "private-to-the-upstream"
VOICES = ("alloy", "vivian")
SIZES = ("1024x1024", "1536x1024", "1024x1536")
KEY = "sk-only-the-upstream-knows"

_SPEECH_FIELDS = {"model", "input", "voice", "response_format", "speed"}
_CLONE_FIELDS = {*_SPEECH_FIELDS, "task_type", "language", "ref_audio", "x_vector_only_mode"}
_IMAGE_FIELDS = {"model", "prompt", "n", "size"}
_DIFFUSION_FIELDS = {*_IMAGE_FIELDS, "response_format", "num_inference_steps", "guidance_scale", "seed"}
_FORM_FIELDS = {"model", "response_format", "timestamp_granularities[]", "temperature", "language", "file"}


@dataclass
class Asked:
    """A request as it arrived."""

    path: str
    body: dict[str, Any]
    key: str | None
    idempotency_key: str | None


@dataclass
class MediaUpstream:
    """The server. `omni` says that it knows vLLM-Omni's fields, as OpenAI's own does not."""

    omni: bool = False
    key: str | None = None
    asked: list[Asked] = field(default_factory=list)
    faults: deque[str] = field(default_factory=deque)
    answers: threading.Event = field(default_factory=threading.Event)
    """The fault `wait` holds its answer back until this is set."""
    gone: threading.Event = field(default_factory=threading.Event)
    """Set once a client went away before the end of its answer."""

    def __post_init__(self) -> None:
        upstream = self

        class Handler(_Handler):
            server_of = upstream

        self._server = _Quiet(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Quiet(ThreadingHTTPServer):
    """Connections that break are what this server is for: nothing is printed of them."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.RequestHandlerClass.server_of.gone.set()  # type: ignore[attr-defined]


class Refused(Exception):
    """400 with a code, as these servers say it."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of: MediaUpstream

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = self._form(raw) if "multipart" in self.headers["Content-Type"] else json.loads(raw)
        upstream = self.server_of
        key = self.headers["Authorization"]
        upstream.asked.append(Asked(self.path, body, key, self.headers["Idempotency-Key"]))
        fault = upstream.faults.popleft() if upstream.faults else ""
        try:
            if upstream.key is not None and key != f"Bearer {upstream.key}":
                self._answer(401, {"error": {"message": PRIVATE, "code": "invalid_api_key"}})
            elif not self._misbehave(fault):
                self._give(body, fault)
        except Refused as refused:
            self._answer(400, {"error": {"message": PRIVATE, "code": str(refused)}})
        except (BrokenPipeError, ConnectionResetError):
            upstream.gone.set()

    def _misbehave(self, fault: str) -> bool:
        name, _, argument = fault.partition("=")
        if name == "status":
            self._answer(int(argument), {"error": {"message": PRIVATE, "code": "overloaded"}})
        elif name == "busy":
            self._answer(429, {}, headers={"Retry-After": argument})
        elif name == "html":
            self._answer(200, b"<html>" + PRIVATE.encode(), "text/html")
        elif name == "redirect":
            self._answer(307, {}, headers={"Location": "/v1/elsewhere"})
        elif name == "close":
            self.close_connection = True
        elif name == "giant":
            self._flood()
        elif name == "wait":
            self.server_of.answers.wait()
            return False
        elif name == "hang":
            until = time.monotonic() + float(argument)
            while time.monotonic() < until and not self._is_gone():
                time.sleep(0.02)
            self.close_connection = True
        elif name == "json":
            self._answer(200, argument.encode())
        else:
            return False
        return True

    def _give(self, body: dict[str, Any], fault: str) -> None:
        if self.path == "/v1/audio/speech":
            content, media_type = self._speech(body, fault)
        elif self.path == "/v1/images/generations":
            content, media_type = self._image(body, fault)
        elif self.path == "/v1/audio/transcriptions":
            content, media_type = self._transcription(body, fault)
        else:
            raise Refused("no_such_path")
        if fault == "cut":
            content, cut = content[: len(content) // 2], len(content)
            self._answer(200, content, media_type, {"Content-Length": str(cut)})
            self.close_connection = True
            return
        self._answer(200, content, media_type)

    def _speech(self, body: dict[str, Any], fault: str) -> tuple[bytes, str]:
        _know(body, _CLONE_FIELDS if self.server_of.omni else _SPEECH_FIELDS)
        if self.server_of.omni and not body.get("ref_audio", "").startswith("data:audio/wav;base64,UklGR"):
            raise Refused("ref_audio_missing")
        if not self.server_of.omni and body["voice"] not in VOICES:
            raise Refused("unknown_voice")
        if not 0.25 <= body.get("speed", 1) <= 4 or body["response_format"] != "wav":
            raise Refused("out_of_range")
        seconds = len(body["input"]) * SECONDS_A_CHARACTER / body.get("speed", 1)
        if fault == "endless":
            seconds += 300
        times = np.arange(round(seconds * RATE)) / RATE
        samples = (0 if fault == "silent" else 0.5) * np.sin(2 * math.pi * 220 * times)
        file = io.BytesIO()
        if fault == "mp3":
            soundfile.write(file, samples, RATE, format="MP3")
            return file.getvalue(), "audio/mpeg"
        if fault == "nan":
            samples[len(samples) // 2] = math.nan
            soundfile.write(file, samples, RATE, format="WAV", subtype="FLOAT")
            return file.getvalue(), "audio/wav"
        rate = 22_050 if fault == "other_rate" else RATE
        soundfile.write(file, samples, rate, format="WAV", subtype="PCM_16")
        content = file.getvalue()
        if fault == "short":
            return content[: len(content) // 2], "audio/wav"
        # As servers do that send the header before they know the length.
        unknown = struct.pack("<I", 0xFFFFFFFF)
        return content[:4] + unknown + content[8:40] + unknown + content[44:], "audio/wav"

    def _image(self, body: dict[str, Any], fault: str) -> tuple[bytes, str]:
        _know(body, _DIFFUSION_FIELDS if self.server_of.omni else _IMAGE_FIELDS)
        if not self.server_of.omni and body["size"] not in SIZES:
            raise Refused("invalid_size")
        width, height = (int(side) for side in body["size"].split("x"))
        if fault == "small":
            width, height = width // 2, height // 2
        ramp = np.linspace(0, 255, width, dtype=np.uint8)
        pixels = np.stack([np.tile(ramp, (height, 1))] * 3, axis=-1)
        pixels[..., 2] = body.get("seed", 0) % 256
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG" if fault == "jpeg" else "PNG")
        encoded = base64.b64encode(file.getvalue()).decode()
        picture = {"url": "http://127.0.0.1:1/x.png"} if fault == "url" else {"b64_json": encoded}
        if fault == "half":
            picture = {"b64_json": encoded[: len(encoded) // 2]}
        value = {"created": 1, "data": [{**picture, "revised_prompt": PRIVATE}], PRIVATE: 1}
        return json.dumps(value).encode(), "application/json"

    def _transcription(self, body: dict[str, Any], fault: str) -> tuple[bytes, str]:
        _know(body, _FORM_FIELDS)
        if body["response_format"] != "verbose_json" or body.get("language", "zh") not in ("zh", "en"):
            raise Refused("unsupported")
        samples, rate = soundfile.read(io.BytesIO(body["file"]))
        seconds = len(samples) / rate
        halves = [(0.0, seconds / 2), (seconds / 2, seconds)]
        segments: Any = [
            {"id": number, "start": start, "end": end, "text": f" word {number}", "avg_logprob": -0.2}
            for number, (start, end) in enumerate(halves)
        ]
        value = {"task": "transcribe", "language": "english", "duration": seconds, "text": "word 0 word 1"}
        if fault != "no_times":
            value["segments"] = segments
        if fault == "nan":
            segments[0]["start"] = math.nan
        return json.dumps(value).encode(), "application/json"

    def _form(self, raw: bytes) -> dict[str, Any]:
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        fields: dict[str, Any] = {}
        for part in BytesParser(policy=HTTP).parsebytes(head + raw).iter_parts():
            name = part.get_param("name", header="content-disposition")
            content = part.get_payload(decode=True)
            assert isinstance(name, str)
            assert isinstance(content, bytes)
            fields[name] = content if name == "file" else content.decode()
        return fields

    def _flood(self) -> None:
        """More bytes than anybody takes, without saying how many."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for _ in range(4096):
            self.wfile.write(b" " * (1 << 20))

    def _is_gone(self) -> bool:
        self.connection.setblocking(False)
        try:
            gone = not self.connection.recv(1)
        except BlockingIOError:
            gone = False
        finally:
            self.connection.setblocking(True)
        if gone:
            self.server_of.gone.set()
        return gone

    def _answer(
        self,
        status: int,
        value: Any,
        media_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {
            "Content-Type": media_type,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


def _know(body: dict[str, Any], fields: set[str]) -> None:
    if more := set(body) - fields:
        raise Refused(f"unknown_parameter_{'_'.join(sorted(more))}")
