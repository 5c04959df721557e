"""What the README tells a new user to do is done here as it stands, against a service with real speech."""

import json
import re
import subprocess
import sys
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers.service import RunningService
from tenuto.engines.registry import ENTRIES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = "http://127.0.0.1:8080"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[RunningService]:
    """`make serve`, but on a free port and in a checkout that has nothing but its `.venv`."""
    (tmp_path / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    running = RunningService(tmp_path / "tenuto-data", engines="real")
    running.start()
    yield running
    running.stop()


@pytest.mark.real_engine
def test_the_first_request_of_the_readme_works_as_it_stands(serve: RunningService) -> None:
    """Copied line by line: an account, a key, a job, its file; the answer has the fields that are shown."""
    script = "set -e\n" + "\n".join(blocks("sh")).replace(ADDRESS, serve.url)
    folder = serve.folder.parent
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=120, env=plain(serve)
    )
    operation = json.loads((folder / "job.json").read_text("utf-8")) if done.returncode == 0 else {}
    [shown] = map(json.loads, blocks("json"))

    assert (0, "hello.wav is whole") == (done.returncode, done.stdout.splitlines()[-1]), done.stderr
    assert outline(shown) == outline(operation)
    with wave.open(str(folder / "hello.wav")) as wav:
        assert (1, 2) == (wav.getnchannels(), wav.getsampwidth())
        assert operation["result"]["duration_ms"] == round(wav.getnframes() * 1000 / wav.getframerate())


def test_the_readme_names_what_there_is() -> None:
    """Its links lead to files, its commands are targets of the Makefile, its models are our engines'."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    targets = re.findall(r"^make (\w+)", README, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    real = {entry.model for entry in ENTRIES if not entry.fake}

    assert not [link for link in links if not (ROOT / link).exists()]
    assert not [target for target in targets if f"\n{target}:" not in makefile]
    assert set(re.findall(r'"model": ?"([^"]+)"', README)) <= real


def blocks(language: str) -> list[str]:
    """The code blocks of the README in a language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def plain(serve: RunningService) -> dict[str, str]:
    """The environment of a user who set nothing but, perhaps, where weights are."""
    return {
        name: value
        for name, value in serve.environment.items()
        if not name.startswith("TENUTO_") or name == "TENUTO_CACHE"
    }


def outline(value: Any) -> Any:
    """The names in a JSON value, in their order, without what they hold."""
    if isinstance(value, dict):
        return {name: outline(inner) for name, inner in value.items()}
    return [outline(item) for item in value] if isinstance(value, list) else ""
