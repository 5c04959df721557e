"""The examples that readers copy keep the contract's rules for clients; a service provokes them."""

import hashlib
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
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
    import json

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


def test_every_example_waits_as_the_service_says(tmp_path: Path) -> None:
    """A busy answer, garbage, an HTTP date, too short a number: each is waited for, and the file is right.
    Each example takes the eight seconds that it is asked to wait, so they run side by side.
    """
    folders = _folders(tmp_path, EXAMPLES)
    with ThreadPoolExecutor(len(EXAMPLES)) as pool:
        runs = list(pool.map(_waiting, EXAMPLES, folders))

    for name, folder, (ended, script, keys) in zip(EXAMPLES, folders, runs, strict=True):
        assert 0 == ended.returncode, name + ended.stdout + ended.stderr
        assert [SOUND] == [file.read_bytes() for file in folder.glob("*.wav")], name
        assert (6, 1) == (len(script.at), len(keys)), name
        assert [True] * 4 == [
            pause >= least - 0.05 for pause, least in zip(script.pauses, (1.0, 3.0, 1.5, 1.0), strict=False)
        ], (name, script.pauses)


def _waiting(name: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], Script, set[str | None]]:
    """An example against a service that asks it to wait: how it ended, what was asked when, and its keys."""
    done = operation("succeeded", artifacts=[artifact()])
    script = Script(
        [
            Reply(503, {"error": {"message": "busy"}}, {"Retry-After": "1"}),
            Reply(202, operation("queued"), {"Retry-After": "-7"}),
            Reply(200, operation("running"), {"Retry-After": formatdate(time.time() + 60, usegmt=True)}),
            Reply(200, operation("running"), {"Retry-After": "0.1"}),
            Reply(200, done),
            content(),
        ]
    )

    def answer(asked: Asked) -> Reply:
        reply = script(asked)
        if "GMT" in reply.headers.get("Retry-After", ""):
            # Two to three seconds from now, for the date has none but whole ones.
            return Reply(reply.status, reply.body, {"Retry-After": formatdate(time.time() + 3, usegmt=True)})
        return reply

    with ScriptedService([answer]) as service:
        ended = run(name, service.url, folder)
        keys = {asked.key for asked in service.asked if asked.method == "POST"}
    return ended, script, keys


def test_no_example_calls_a_wrong_download_right(tmp_path: Path) -> None:
    """Another media type, length or hash ends in an error, and the job is left alone (R225, R226). Examples
    that download again pause between their tries, so all run side by side.
    """
    wrong = [content(media_type="text/html"), content(SOUND[:-1]), content(SOUND[:-1] + b"\0")]
    cases = [(name, each) for name in EXAMPLES for each in wrong]
    with ThreadPoolExecutor(len(cases)) as pool:
        runs = list(pool.map(_with_a_wrong_download, *zip(*cases, strict=True), _folders(tmp_path, cases)))

    for (name, _), (ended, submitted) in zip(cases, runs, strict=True):
        assert ended.returncode, name
        assert "whole" not in ended.stdout and "verified" not in ended.stdout, name
        assert 1 == submitted, name


def _with_a_wrong_download(
    name: str, wrong: Reply, folder: Path
) -> tuple[subprocess.CompletedProcess[str], int]:
    """An example whose result arrives wrong every time: how it ended, and how many jobs it submitted."""
    replies = [Reply(202, operation("succeeded", artifacts=[artifact()])), wrong]
    with ScriptedService(replies) as service:
        ended = run(name, service.url, folder)
        return ended, sum(asked.method == "POST" for asked in service.asked)


def _folders(parent: Path, cases: list[Any]) -> list[Path]:
    """An empty folder for each case."""
    folders = [parent / str(number) for number in range(len(cases))]
    for folder in folders:
        folder.mkdir()
    return folders


def run(name: str, url: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The example's own process, in an empty folder."""
    environment = os.environ | READER | {"TENUTO_BASE_URL": url}
    return subprocess.run(
        example(name), cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
