"""Recordings for the fake recognition engines, and how a caller uploads and recognises them.

A sound between silences is a word; one whose samples are all alike is a directive: see
`engines/fake_recognition`.
"""

import hashlib
import io
import itertools
from typing import Any

import httpx2
import numpy as np
import soundfile

from servers.callers import Caller

DUAL = "fake/dual-recognition"
FIRST = "fake/segment-text"
SECOND = "fake/word-timestamps"
ENGINES = {"segment_text": FIRST, "word_timestamps": SECOND}
RATE = 16_000
WORD_S = 0.3
GAP_S = 0.2

_seeds = itertools.count(1)


def recording(
    words: int = 3, *, seconds: float | None = None, directive: int | None = None, rate: int = RATE
) -> bytes:
    """A mono FLAC that no other call gives: words, and between the first two the directive, if any."""
    sounds = [_word(rate) for _ in range(words)]
    if directive is not None:
        sounds.insert(1, np.full(round(WORD_S * rate), directive, np.int16))
    gap = np.zeros(round(GAP_S * rate), np.int16)
    samples = np.concatenate([piece for sound in sounds for piece in (gap, sound)] + [gap])
    if seconds is not None:
        count = round(seconds * rate)
        samples = np.pad(samples, (0, max(0, count - len(samples))))[:count]
    return encoded(samples, rate)


def encoded(samples: "np.ndarray[tuple[int, ...], np.dtype[np.int16]]", rate: int = RATE) -> bytes:
    """The samples as an encoder writes them."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="FLAC")
    return file.getvalue()


def long_recording(minutes: float) -> tuple[bytes, int]:
    """Words every second and a half, so that every part has many; and how many they are."""
    count = round(minutes * 60 / 1.5)
    numbers = np.random.default_rng(next(_seeds))
    samples = np.zeros((count, round(1.5 * RATE)), np.int16)
    samples[:, RATE // 2 : RATE] = numbers.integers(1, 8000, (count, RATE - RATE // 2))
    return encoded(samples.reshape(-1)), count


def post(caller: Caller, content: bytes, **headers: str) -> httpx2.Response:
    """POST /v1/input-artifacts; a header is named with underscores, an empty one is left out."""
    said = {"Content-Type": "audio/flac", "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest()}
    said |= {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in said.items() if value}
    return caller.request("POST", "/v1/input-artifacts", headers=kept, content=content)


def upload(caller: Caller, content: bytes | None = None) -> str:
    """An input that is there; its id."""
    answer = post(caller, recording() if content is None else content)
    assert answer.status_code == 201, answer.text
    artifact_id: str = answer.json()["artifact"]["id"]
    return artifact_id


def body(*input_ids: str, model: str = DUAL, **parameters: Any) -> dict[str, Any]:
    """The body of a recognition job."""
    return {"model": model, "parameters": parameters, "input_artifact_ids": list(input_ids)}


def recognise(caller: Caller, content: bytes | None = None, *, model: str = DUAL, **parameters: Any) -> str:
    """A recognition job that is accepted; its id."""
    answer = caller.post_job(body(upload(caller, content), model=model, **parameters))
    assert answer.status_code == 202, answer.text
    job_id: str = answer.json()["id"]
    return job_id


def result(caller: Caller, operation: Any) -> Any:
    """The JSON of a job that has succeeded."""
    assert operation["state"] == "succeeded", operation
    answer = caller.get(f"/v1/artifacts/{operation['artifacts'][0]['id']}/content")
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def texts(shown: Any, role: str = "segment_text") -> list[str]:
    """The words of a transcript."""
    return [segment["text"] for segment in shown["engines"][role]["segments"] if segment["text"]]


def _word(rate: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.int16]]":
    numbers = np.random.default_rng(next(_seeds))
    return numbers.integers(1, 8000, round(WORD_S * rate)).astype(np.int16)
