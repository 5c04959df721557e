"""The commands with real engines: synthesised speech is transcribed correctly."""

import asyncio
import os
import re
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from client.assistant import connected, facts
from servers.service import TENUTO, RunningService

pytestmark = pytest.mark.variant("model")

TEXT = "Hold the note for its full value."


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RunningService]:
    """`tenuto serve` with real speech and recognition, an account with credit and a key."""
    running = RunningService(tmp_path / "data", engines="real")
    running.start()
    running.key = running.make_key(credit="10")
    yield running
    running.stop()


@pytest.mark.real_engine
def test_what_is_said_is_written_down_again(real: RunningService, tmp_path: Path) -> None:
    """`say` and `transcribe`, from text to sound to text; both are in the balance as the price list says."""
    environment = os.environ | {"TENUTO_BASE_URL": real.url, "TENUTO_API_KEY": real.key}

    def tenuto(*line: str) -> str:
        done = subprocess.run(
            [TENUTO, *line], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout

    said = tenuto("say", TEXT, "-o", "note.wav")
    heard = tenuto("transcribe", "note.wav", "--lang", "en", "-q")
    with wave.open(str(tmp_path / "note.wav")) as wav:
        seconds = wav.getnframes() / wav.getframerate()
    charged = sum(float(line.split("\t")[-1]) for line in tenuto("usage").splitlines()[1:])

    assert "note.wav\n" == said and 1.0 < seconds < 5.0
    assert re.findall(r"\w+", TEXT.lower()) == re.findall(r"\w+", heard.lower())
    assert charged == pytest.approx(seconds / 60 * 0.05, abs=2e-6)


@pytest.mark.real_engine
def test_an_assistant_speaks_and_transcribes(
    real: RunningService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tenuto mcp` with the official client: what it says as a file is what it then reads."""
    monkeypatch.setenv("TENUTO_BASE_URL", real.url)
    monkeypatch.setenv("TENUTO_API_KEY", real.key)

    async def ask() -> tuple[dict[str, Any], dict[str, Any]]:
        async with connected(tmp_path) as client:
            spoken = await client.call_tool("say", {"text": TEXT, "output": "note.flac", "wait_s": 240})
            heard = await client.call_tool("transcribe", {"file": "note.flac", "lang": "en", "wait_s": 240})
            return facts(spoken), facts(heard)

    spoken, heard = asyncio.run(ask())

    assert ("note.flac", b"fLaC") == (spoken["file"], (tmp_path / "note.flac").read_bytes()[:4])
    assert re.findall(r"\w+", TEXT.lower()) == re.findall(r"\w+", heard["text"].lower())
