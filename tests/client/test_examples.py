"""The examples that readers copy keep the contract's rules for clients; a service provokes them."""

import hashlib
import json
import os
import subprocess
import time
from email.utils import formatdate
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from client.conftest import ARTIFACT, JOB, SOUND, content
from client.test_guide import GUIDE, blocks, command
from servers.scripted import Asked, Reply, ScriptedService

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
    """The record of the result."""
    sha256 = hashlib.sha256(SOUND).hexdigest()
    return {"id": ARTIFACT, "media_type": "audio/wav", "size_bytes": len(SOUND), "sha256": sha256}


class Script:
    """Answers in turn; notes the time between each answer and the next request."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.at: list[float] = []

    def __call__(self, asked: Asked) -> Reply:
        self.at.append(time.monotonic())
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.at)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_waits_as_the_service_says(name: str, tmp_path: Path) -> None:
    """A busy answer, garbage, an HTTP date, too short a number: each is waited for, and the file is right."""
    script = Script(
        [
            Reply(503, {"error": {"message": "busy"}}, {"Retry-After": "1"}),
            Reply(202, operation("queued"), {"Retry-After": "-7"}),
            Reply(200, operation("running"), {"Retry-After": "GMT"}),
            Reply(200, operation("running"), {"Retry-After": "0.1"}),
            Reply(200, operation("succeeded", artifacts=[artifact()])),
            content(),
        ]
    )

    def answer(asked: Asked) -> Reply:
        reply = script(asked)
        if reply.headers.get("Retry-After") == "GMT":
            # Two to three seconds from now, for the date has none but whole ones.
            return Reply(reply.status, reply.body, {"Retry-After": formatdate(time.time() + 3, usegmt=True)})
        return reply

    with ScriptedService([answer]) as service:
        ended = run(name, service.url, tmp_path)
        keys = {asked.key for asked in service.asked if asked.method == "POST"}

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert [SOUND] == [file.read_bytes() for file in tmp_path.glob("*.wav")]
    assert (6, 1) == (len(script.at), len(keys))
    least = (1.0, 3.0, 1.5, 1.0)
    assert [True] * 4 == [pause >= each - 0.05 for pause, each in zip(script.pauses, least, strict=False)]


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
