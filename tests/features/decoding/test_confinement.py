"""What a confined process can still do, and what the kernel refuses it."""

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from features.decoding.readers import as_pcm
from servers.flacs import Recipe, made, noise
from tenuto.features.decoding.confinement import missing_here

pytestmark = pytest.mark.skipif(bool(missing_here()), reason="this kernel lacks Landlock or seccomp")

TRIES = {
    "reads a file": "open('/etc/passwd').read()",
    "lists a folder": "os.listdir('/')",
    "asks about a file": "os.stat('/etc/passwd')",
    "makes a file": "open('made', 'w')",
    "removes a file": "os.unlink(name)",
    "makes a file writable": "os.chmod(name, 0o777)",
    "opens a TCP socket": "socket.socket()",
    "opens a UNIX socket": "socket.socket(socket.AF_UNIX)",
    "opens a pair of sockets": "socket.socketpair()",
    "forks": "os.fork()",
    "runs a program": "os.execv('/bin/echo', ['echo', 'done'])",
    "kills the process that started it": "os.kill(os.getppid(), 0)",
    "raises its own limits": "resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))",
    "makes a file of memory": "os.memfd_create('x')",
    "asks for the time that another process takes": "os.sched_getscheduler(os.getppid())",
}
"""What a library that a caller's bytes have taken over might try."""


@pytest.mark.parametrize("what", TRIES)
def test_what_a_process_may_do_that_is_not_confined(what: str) -> None:
    """So the next test fails for the confinement."""
    assert "done" in _tried("[]", TRIES[what])


def test_a_confined_process_is_refused() -> None:
    """Each of these, one after the other (B4)."""
    assert ["refused"] * len(TRIES) == _tried("confine()", *TRIES.values()).split()


def test_a_confined_process_reads_writes_and_starts_threads() -> None:
    line = "t = threading.Thread(target=lambda: os.write(1, b'from a thread ')); t.start(); t.join()"

    assert "from a thread done" == _tried("confine()", line)


def test_the_decoding_child_is_confined() -> None:
    """It says so with its samples, which it decoded in that state: of every width and with resampling."""
    for recipe in (Recipe([noise(5000)]), Recipe([noise(5000, 1, 24)] * 2, 44_100, 24)):
        assert () == as_pcm(made(recipe))[0].unconfined


def _tried(confinement: str, *lines: str) -> str:
    code = f"""
    import os, resource, socket, sys, threading
    from tenuto.features.decoding.confinement import confine
    name = sys.argv[1]
    assert {confinement} == []
    for line in {lines!r}:
        try:
            exec(line)
            print("done", flush=True)
        except (OSError, ValueError):
            print("refused", flush=True)
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "there")
        file.touch()
        command = [sys.executable, "-c", textwrap.dedent(code), str(file)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, cwd=folder, timeout=60, check=False)
    return answer.stdout.decode().strip()
