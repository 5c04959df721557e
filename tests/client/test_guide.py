"""Every block of code in docs/guide is run, page by page, as a reader would: in order, in one folder."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from client.conftest import ARTIFACT, JOB, SOUND, content, sound
from servers.callers import Caller
from servers.receiver import Receiver
from servers.scripted import Reply, ScriptedService
from servers.service import TENUTO, RunningService
from tenuto_client.commands import VERBS

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = sorted(path.relative_to(GUIDE).as_posix() for path in GUIDE.glob("*/*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
JAVASCRIPT = Path(__file__).parents[2] / "packages" / "tenuto-js"
IMPATIENT = Path(__file__).parent / "impatient"
MODEL = "hexgrad/Kokoro-82M"
"""The model that the pages use; the tests' service has another one."""
FIRST = "en/first-steps.md"
"""The page that `make test` runs."""
HOOK = "https://example.com/tenuto"
"""Where the pages send messages; the tests have a receiver of their own."""


def blocks(page: str, hook: str = HOOK) -> Iterator[tuple[str, str]]:
    """The language and the text of each block."""
    for language, text in BLOCK.findall((GUIDE / page).read_text("utf-8")):
        yield language, text.replace(MODEL, "fake/speech").replace(HOOK, hook)


def command(language: str, text: str) -> list[str] | None:
    """How a block is run; None where what runs it is not installed."""
    if language == "sh":
        return ["bash", "-euo", "pipefail", "-c", text]
    if language == "python":
        return [sys.executable, "-c", text]
    if language == "yaml":
        # What another program reads: it has to be YAML.
        assert yaml.safe_load(text)
        return None
    node = shutil.which("node")
    if "tenuto/node" in text and not (JAVASCRIPT / "dist").exists():
        return None
    return None if node is None else [node, "--input-type=module", "-e", text]


# Each language on one database: what a page says does not depend on it. With a scope for one test, which is
# what pytest takes where a parameter is no fixture, each page would start a service of its own.
@pytest.mark.parametrize(
    ("service", "page"),
    [
        ("sqlite", page)
        if page == FIRST
        else pytest.param("sqlite", page, marks=pytest.mark.variant("page"))
        if page.startswith("en")
        else pytest.param("postgresql", page, marks=pytest.mark.variant("language"))
        for page in PAGES
    ],
    indirect=["service"],
    scope="session",
)
def test_every_block_of_the_page_runs(
    page: str, service: RunningService, caller: Caller, tmp_path: Path
) -> None:
    for name in ("note.wav", "morning.wav"):
        (tmp_path / name).write_bytes(sound())
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "tenuto").symlink_to(JAVASCRIPT)
    folder = Path(TENUTO).parent
    environment = os.environ | {
        "TENUTO_BASE_URL": service.url,
        "TENUTO_API_KEY": caller.key,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(IMPATIENT),
    }
    receiver = Receiver()
    for language, text in blocks(page, receiver.url):
        line = command(language, text)
        if line is None:
            continue
        done = subprocess.run(
            line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )

        assert 0 == done.returncode, f"{text}\n{done.stdout}\n{done.stderr}"
    receiver.close()


def test_both_languages_have_the_same_pages_blocks_and_verbs() -> None:
    english, chinese = ([page[3:] for page in PAGES if page.startswith(lang)] for lang in ("en", "zh"))
    shapes = [
        [language for language, _ in blocks(f"{lang}/{page}")] for page in english for lang in ("en", "zh")
    ]
    commands = "".join(text for _, text in blocks("en/commands.md")) + "tenuto login tenuto logout tenuto mcp"

    assert english == chinese and shapes[::2] == shapes[1::2]
    assert {"sh", "python", "js", "yaml"} >= {language for shape in shapes for language in shape}
    assert not [verb for verb in VERBS if f"tenuto {verb}" not in commands]


ROOT = GUIDE.parents[1]
READER = {"TENUTO_API_KEY": "tn_test", "KEY": "tn_test", "LC_ALL": "C"}
EXAMPLES = ["en/sh", "en/js"]
"""In Chinese the blocks are the same (`test_guide.py`)."""


def example(name: str) -> list[str]:
    """What is run: the page's block in this language."""
    language, _, kind = name.partition("/")
    [text] = [text for found, text in blocks(f"{language}/other-clients.md") if found == kind]
    line = command(kind, text)
    if line is None:
        pytest.fail("Node.js is not installed: this example cannot be run")
    return line


def operation(state: str, **fields: Any) -> bytes:
    """A job as the service writes it, without white space."""
    return json.dumps({"id": JOB, "state": state, "artifacts": [], **fields}, separators=(",", ":")).encode()


def artifact() -> dict[str, Any]:
    sha256 = hashlib.sha256(SOUND).hexdigest()
    return {"id": ARTIFACT, "media_type": "audio/wav", "size_bytes": len(SOUND), "sha256": sha256}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize(
    "wrong", [content(media_type="text/html"), content(SOUND[:-1]), content(SOUND[:-1] + b"\0")]
)
def test_no_example_calls_a_wrong_download_right(name: str, wrong: Reply, tmp_path: Path) -> None:
    """Another media type, length or hash ends in an error, and the job is left alone (R225, R226)."""
    replies = [Reply(202, operation("succeeded", artifacts=[artifact()])), wrong]
    with ScriptedService(replies) as service:
        ended = run(name, service.url, tmp_path)
        posts = [asked for asked in service.asked if asked.method == "POST"]

    assert ended.returncode and 1 == len(posts)
    assert "whole" not in ended.stdout and "verified" not in ended.stdout


def run(name: str, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The example's own process, in an empty folder."""
    environment = os.environ | READER | {"TENUTO_BASE_URL": url}
    return subprocess.run(
        example(name), cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
