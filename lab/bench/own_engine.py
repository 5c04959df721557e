"""One of our engines as a program like those of lab/bench/peers, without a host or a service."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from lab.bench.peers.answering import Answer, answer

RATE = 16_000


class DirectRun:
    """A run that discards what the engine reports."""

    run_id = "direct"

    def __init__(self, parameters: dict[str, Any], inputs: dict[str, bytes] | None = None) -> None:
        self.parameters = parameters
        self.inputs = inputs or {}

    def segment(self, content: bytes, metadata: dict[str, Any]) -> None:
        pass

    def progress(self, stage: str, completed: int, total: int, unit: str) -> None:
        pass

    def check_cancelled(self) -> None:
        pass


def load(options: dict[str, Any]) -> Answer:
    """`engine`: its name; `parameters`: of every run; the rest is what the service would give the engine."""
    load_engine = {"kokoro": _kokoro, "whisper": _whisper, "whisper-given-language": _given_language}
    engine, parameters = load_engine[options["engine"]](options), options["parameters"]

    def spoken(text: str) -> tuple[float, float]:
        """Its seconds, and the moment when it was finished."""
        result = engine.run(DirectRun(parameters | {"text": text}))
        return result.duration_ms / 1000, time.perf_counter()

    def speak(request: dict[str, Any]) -> dict[str, Any]:
        if "texts" not in request:
            return {"seconds": spoken(request["text"])[0]}
        began = time.perf_counter()
        with ThreadPoolExecutor(request["at_once"]) as pool:
            results = list(pool.map(spoken, request["texts"]))
        return {
            "seconds": sum(seconds for seconds, _ in results),
            "ends": [end - began for _, end in results],
        }

    def transcribe(request: dict[str, Any]) -> dict[str, Any]:
        samples = np.fromfile(request["samples"], np.float32)
        audio = np.round(np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes()
        value = json.loads(engine.run(DirectRun(parameters, {"audio": audio})).content)
        return {"text": " ".join(one["text"] for one in value["segments"]), "seconds": len(samples) / RATE}

    return speak if options["engine"] == "kokoro" else transcribe


def _kokoro(options: dict[str, Any]) -> Any:
    from tenuto_kokoro import KokoroEngine

    return KokoroEngine(options)


def _whisper(options: dict[str, Any]) -> Any:
    from tenuto_whisper import WhisperEngine

    return WhisperEngine(options)


def _given_language(options: dict[str, Any]) -> Any:
    from tenuto_whisper.given_language import GivenLanguageEngine

    return GivenLanguageEngine(options)


if __name__ == "__main__":
    answer(load)
