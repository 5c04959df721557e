"""Tenuto's synchronous doors beside single servers, in turns: chat beside LiteLLM's proxy on one upstream,
speech and recognition beside FastAPI programs that load the same weights.

Both sides of a comparison are sent the same bytes. What is not installed is left out.
"""

import io
import json
import random
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import psutil
import soundfile
from lab.bench import chat
from lab.bench.client import Connection, flood, for_seconds
from lab.bench.contestants import Program, memory_bytes, program, python, spent_s, uvicorn
from lab.bench.libraries import TEXTS, VOICE
from lab.bench.race_page import Cost, DoorResult
from lab.bench.references import raw_app
from lab.bench.stage import Stage, stage

from servers.ports import free_port
from servers.service import PLAIN
from tenuto.features.models.cache import default_cache

CLIENTS = 32
PATIENCE_S = 600.0
PAUSE_S = 1.0
RATE = 16_000


@dataclass(slots=True)
class Door:
    """One side of a comparison: where it answers, the processes that it is, and what was measured of it."""

    result: DoorResult
    port: int
    key: str
    service: list[psutil.Process]

    def spent_s(self) -> float:
        return spent_s(self.service)


def chats(rounds: int, alone: int, flood_s: float) -> list[DoorResult]:
    """One client, then 32, to an upstream that answers at once: directly, through us, through LiteLLM."""
    command = python("race-litellm").with_name("litellm")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="race-")))
        port, pid = stack.enter_context(raw_app(chat.upstream_answer(), folder))
        file = folder / "tenuto.toml"
        file.write_text(chat.configuration(port))
        ours = stack.enter_context(stage(None, TENUTO_CONFIG=str(file)))
        doors = [_door("the upstream itself", port, "none", pid), _tenuto(ours)]
        if command.exists():
            theirs, pid = stack.enter_context(chat.litellm_proxy(str(command), folder, port))
            doors.append(_door("LiteLLM's proxy", theirs, chat.LITELLM_KEY, pid))
        for door in doors:
            flood(door.port, [_repeated(door)] * CLIENTS, for_seconds(flood_s))
        for door in _turns(doors, rounds):
            time.sleep(PAUSE_S / 2)
            _chat_round(door, alone, flood_s)
        return _weighed(doors)


def _chat_round(door: Door, alone: int, flood_s: float) -> None:
    connection, script = Connection(door.port), _repeated(door)
    for _ in range(alone):
        began = time.perf_counter()
        answer = connection.ask(next(script))
        door.result.alone_s.append(time.perf_counter() - began)
        assert answer.status == 200, answer
    connection.close()
    before = door.spent_s()
    tally = flood(door.port, [script] * CLIENTS, for_seconds(flood_s))
    assert not tally.other, tally.other
    door.result.costs.append(Cost(tally.answers, tally.seconds, door.spent_s() - before, 0.0))


def _repeated(door: Door) -> Iterator[bytes]:
    request = chat.request(door.key)
    while True:
        yield request


def speeches(rounds: int) -> list[DoorResult]:
    """Three English texts by OpenAI's speech route, as WAV, one after the other."""
    cache = default_cache()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="race-")))
        styles = np.fromfile(cache / "kokoro-voices" / f"{VOICE}.bin", np.float32).reshape(-1, 1, 256)
        voices: dict[str, Any] = {VOICE: styles}
        np.savez(folder / "voices.npz", **voices)
        variables = {
            "RACE_MODEL": str(cache / "kokoro-v1.0-int8.onnx"),
            "RACE_VOICES": str(folder / "voices.npz"),
        }
        doors = _models(stack, "kokoro-onnx behind FastAPI", "serving_kokoro", variables)
        for door in doors:
            _speak(door, TEXTS[0])
        for door in _turns(doors, rounds):
            time.sleep(PAUSE_S)
            began, before, seconds = time.perf_counter(), door.spent_s(), 0.0
            for text in TEXTS:
                took_s, sound_s = _speak(door, text)
                door.result.answers_s.setdefault(f"{len(text)} characters", []).append(took_s)
                seconds += sound_s
            door.result.sound_s = seconds
            door.result.costs.append(Cost(1, time.perf_counter() - began, door.spent_s() - before, 0.0))
        return _weighed(doors)


def _speak(door: Door, text: str) -> tuple[float, float]:
    """The seconds that an answer took, and those of its sound."""
    body = {"model": "kokoro", "input": text, "lang": "en", "response_format": "wav"}
    took_s, content = _ask(door, "/v1/audio/speech", content=json.dumps(body).encode())
    return took_s, soundfile.info(io.BytesIO(content)).duration


def transcripts(rounds: int) -> list[DoorResult]:
    """People reading English by OpenAI's transcription route, the language given, each recording alone."""
    from lab.quality.human import clips
    from lab.quality.sounding import error_rate, sounding

    people = clips()
    spoken = sounding("en", " ".join(source.text for source, _ in people))
    sounds = []
    for _, samples in people:
        file = io.BytesIO()
        soundfile.write(file, samples, RATE, format="FLAC")
        sounds.append(file.getvalue())
    variables = {"RACE_MODEL": str(default_cache() / "whisper-base")}
    with ExitStack() as stack:
        doors = _models(stack, "faster-whisper behind FastAPI", "serving_faster_whisper", variables)
        for door in doors:
            _transcribe(door, sounds[-1])
        for door in _turns(doors, rounds):
            time.sleep(PAUSE_S)
            began, before = time.perf_counter(), door.spent_s()
            answers = [_transcribe(door, sound) for sound in sounds]
            door.result.costs.append(Cost(1, time.perf_counter() - began, door.spent_s() - before, 0.0))
            door.result.answers_s.setdefault("a recording", []).extend(took_s for took_s, _ in answers)
            door.result.sound_s = sum(len(samples) for _, samples in people) / RATE
            text = " ".join(text for _, text in answers)
            door.result.errors = error_rate(spoken, sounding("en", text))
        return _weighed(doors)


def _transcribe(door: Door, sound: bytes) -> tuple[float, str]:
    """The seconds that an answer took, and its text."""
    form = {"model": "whisper-1", "language": "en"}
    took_s, content = _ask(
        door, "/v1/audio/transcriptions", data=form, files={"file": ("recording.flac", sound)}
    )
    text: str = json.loads(content)["text"]
    return took_s, text


def _ask(door: Door, path: str, **request: Any) -> tuple[float, bytes]:
    """One request by a new connection. Its key is new, so that nothing is answered from before."""
    headers = {"Authorization": f"Bearer {door.key}", "Idempotency-Key": str(uuid.uuid4())}
    if "content" in request:
        headers["Content-Type"] = "application/json"
    with httpx2.Client(timeout=PATIENCE_S, verify=PLAIN) as http:
        began = time.perf_counter()
        answer = http.post(f"http://127.0.0.1:{door.port}{path}", headers=headers, **request)
        took_s = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    return took_s, answer.content


def _models(stack: ExitStack, name: str, module: str, variables: dict[str, str]) -> list[Door]:
    """Tenuto with its real engines, and a server of lab/bench/peers where it is installed."""
    doors = [_tenuto(stack.enter_context(stage(None, TENUTO_ENGINES="real", TENUTO_CONFIG="")))]
    if python("race-models").exists():
        theirs = stack.enter_context(_served(name, module, variables))
        doors.append(Door(DoorResult(name), theirs.port, theirs.key, theirs.service()))
    return doors


@contextmanager
def _served(name: str, module: str, variables: dict[str, str]) -> Iterator[Program]:
    port = free_port()
    with program(name, "race-models", (uvicorn(module, port),), port, variables) as peer:
        yield peer


def _tenuto(running: Stage) -> Door:
    return Door(DoorResult("Tenuto, SQLite"), running.port, running.keys[0], [running.api()])


def _door(name: str, port: int, key: str, pid: int) -> Door:
    return Door(DoorResult(name), port, key, [psutil.Process(pid)])


def _turns(doors: list[Door], rounds: int) -> list[Door]:
    order = random.Random(1)
    return [door for _ in range(rounds) for door in order.sample(doors, len(doors))]


def _weighed(doors: list[Door]) -> list[DoorResult]:
    for door in doors:
        door.result.service_bytes = memory_bytes(door.service)
    return [door.result for door in doors]
