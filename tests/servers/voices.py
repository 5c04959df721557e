"""Recordings, and how callers upload them as voices."""

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx2

from servers.callers import Caller
from tenuto_engine.wav import pcm16_wav

JSON = {"Content-Type": "application/json"}


def recording(seed: int = 0, *, seconds: float = 1, rate: int = 8_000, channels: int = 1) -> bytes:
    """A WAV of this length; another seed is another recording."""
    frames = round(seconds * rate)
    return pcm16_wav(bytes([seed % 256, seed // 256]) * channels * frames, rate, channels)


def headers_of(content: bytes, name: str = "mine") -> dict[str, str]:
    """What every upload says."""
    return {
        "Content-Type": "audio/wav",
        "X-Service-Voice-Name": name,
        "X-Service-Content-SHA256": hashlib.sha256(content).hexdigest(),
    }


def upload(caller: Caller, content: bytes, name: str = "mine", **headers: str) -> httpx2.Response:
    """POST /v1/voices; further headers with `_` for `-`."""
    more = {key.replace("_", "-"): value for key, value in headers.items()}
    return caller.request("POST", "/v1/voices", headers=headers_of(content, name) | more, content=content)


def own_voice(caller: Caller, seed: int = 0) -> str:
    """An own voice; its id."""
    answer = upload(caller, recording(seed))
    assert answer.status_code == 201, answer.text
    voice_id: str = answer.json()["voice_id"]
    return voice_id


def listed(caller: Caller) -> list[Any]:
    """The whole list, page by page."""
    found, query = [], ""
    while True:
        page = caller.get(f"/v1/voices{query}").json()
        found += page["data"]
        if "next_cursor" not in page:
            return found
        query = f"?after={page['next_cursor']}"


def voice_of_kind(caller: Caller, kind: str) -> Any:
    """The first voice of a kind."""
    return next(voice for voice in listed(caller) if voice["kind"] == kind)


def chunks(content: bytes) -> Iterator[bytes]:
    """A body without a declared length."""
    yield from (content[at : at + 65_536] for at in range(0, len(content), 65_536))
