"""Fixtures: accounts, a clock that advances when a test waits, and a home folder for each test."""

import hashlib
import os
import wave
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from servers.callers import Caller
from servers.scripted import Reply, ScriptedService
from servers.service import RunningService
from tenuto_client import Tenuto

JOB = "job_01jd4k0a3v6c8e9g2h5m7n0p1q"
ARTIFACT = "artifact_01jd4k0f5t8x0z2b4d6f8h0k2m"
SOUND = b"RIFF" + bytes(range(256)) * 40
START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def sound(seconds: float = 1.2, rate: int = 44_100, channels: int = 2, value: int = 272) -> bytes:
    """A WAV of a steady value."""
    file = BytesIO()
    with wave.open(file, "wb") as wav:
        wav.setparams((channels, 2, rate, 0, "NONE", ""))
        wav.writeframes(value.to_bytes(2, "little") * channels * round(seconds * rate))
    return file.getvalue()


@dataclass
class VirtualClock:
    """Time that passes only where it is waited for, and while a service takes its time to answer."""

    slept: list[float] = field(default_factory=list)
    answering_s: float = 0.0
    """How long all answers took so far."""

    def now(self) -> datetime:
        return START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return sum(self.slept) + self.answering_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.slept.append(seconds)


def told(state: str, **fields: Any) -> Reply:
    """The answer to a read of a job; `headers` are its headers."""
    headers = fields.pop("headers", {})
    return Reply(200, {"id": JOB, "state": state, "artifacts": [], "kind": "speech", **fields}, headers)


def accepted(**headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = {"id": JOB, "state": "queued", "artifacts": [], "kind": "speech"}
    return Reply(202, body, {"Location": f"/v1/jobs/{JOB}", **named})


def succeeded(content: bytes = SOUND, media_type: str = "audio/wav", **fields: Any) -> Reply:
    """A job that has ended well, with this result."""
    artifact = {"id": ARTIFACT, "media_type": media_type, "size_bytes": len(content)}
    artifact["sha256"] = hashlib.sha256(content).hexdigest()
    return told("succeeded", artifacts=[artifact], **fields)


def content(body: bytes = SOUND, media_type: str = "audio/wav", **more: Any) -> Reply:
    return Reply(
        more.pop("status", 200), body, {"Content-Type": media_type, **more.pop("headers", {})}, **more
    )


def client(service: ScriptedService, clock: VirtualClock, key: str = "tn_test", **options: Any) -> Tenuto:
    """The client of a service by script, whose time is the test's."""
    return Tenuto(key, service.url, clock=clock, **options)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TENUTO_API_KEY", "TENUTO_BASE_URL", "TENUTO_JOURNAL", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    # Weights are many, and everybody's.
    monkeypatch.setenv("XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache"))
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return folder


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the user names."""
    path = tmp_path / "files"
    path.mkdir()
    return path


@pytest.fixture
def as_caller(service: RunningService, caller: Caller, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """A caller as whom every command is run."""
    monkeypatch.setenv("TENUTO_BASE_URL", service.url)
    monkeypatch.setenv("TENUTO_API_KEY", caller.key)
    return caller
