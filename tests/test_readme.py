"""What the README promises is tried as it stands, against a service with real models, in both languages."""

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
from tenuto.host.registry import ENTRIES

ROOT = Path(__file__).parents[1]
PAGES = {"en": "README.md", "zh": "README.zh.md"}
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
@pytest.mark.variant("language", only="zh")
@pytest.mark.parametrize("language", PAGES)
def test_thirty_seconds_of_use_work_as_they_stand(serve: RunningService, language: str) -> None:
    """Copied block by block: an account, a key, the four verbs, curl, the SDK, the openai package. And
    docs/following.md shows every field of a succeeded job, in its order.
    """
    folder = serve.folder.parent
    steps = [
        text if kind == "sh" else f"python - <<'EOF'\n{text}EOF\n"
        for kind, text in blocks(page(language))
        if kind in ("sh", "python")
    ]
    script = "set -euo pipefail\n" + "\n".join(steps).replace(ADDRESS, serve.url)
    done = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=500, env=plain(serve)
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    for name in ("note.wav", "curl.wav", "python.wav"):
        with wave.open(str(folder / name)) as wav:
            assert (1, 2) == (wav.getnchannels(), wav.getsampwidth())
            assert wav.getnframes() > wav.getframerate() / 2
    assert (folder / "mountain.png").read_bytes().startswith(b"\x89PNG")
    serve.key = serve.make_key()
    job = serve.submit("你好，世界。", model="hexgrad/Kokoro-82M", lang="zh")
    [shown] = [json.loads(text) for kind, text in blocks("docs/following.md") if kind == "json"]
    assert outline(shown) == outline(serve.wait(job))


def test_the_readme_names_what_there_is() -> None:
    """Its commands are targets of the Makefile, its models are our engines'; it stays short."""
    text = page("en")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^make ([\w-]+)|`make ([\w-]+)`", text, re.MULTILINE)
    real = {entry.model for entry in ENTRIES if not entry.fake}

    assert not [target for target in map("".join, targets) if f"\n{target}:" not in makefile]
    assert set(re.findall(r'"?model"?[:=] ?"([^"]+)"', text)) <= real
    assert len(text.splitlines()) <= 150


def page(language: str) -> str:
    """The README in a language."""
    return (ROOT / PAGES[language]).read_text("utf-8")


def blocks(document: str) -> list[tuple[str, str]]:
    """The language and the text of each code block, of a text or of a file."""
    text = (ROOT / document).read_text("utf-8") if document.endswith(".md") else document
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def plain(serve: RunningService) -> dict[str, str]:
    """The environment of a user who set nothing, with a home folder of their own."""
    inherited = {name: value for name, value in serve.environment.items() if not name.startswith("TENUTO_")}
    return inherited | {"HOME": str(serve.folder.parent)}


def outline(value: Any) -> Any:
    """The names in a JSON value, in their order, without what they hold."""
    if isinstance(value, dict):
        return {name: outline(inner) for name, inner in value.items()}
    return [outline(item) for item in value] if isinstance(value, list) else ""
