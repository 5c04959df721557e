"""The examples that readers copy keep the contract's rules for clients; a service provokes them."""

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from client.conftest import ARTIFACT, JOB, SOUND, content
from client.test_guide import GUIDE, blocks, command
from servers.scripted import Reply, ScriptedService

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
