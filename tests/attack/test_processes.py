"""What another process of the same user, such as an engine, can learn of ours from the kernel."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from servers.processes import family
from servers.service import RunningService
from tenuto.process.runtime import keep_private

MakeService = Callable[..., RunningService]
NOBODY = 65534
PR_SET_DUMPABLE = 4


def test_the_worker_of_serve_has_no_settings_in_its_environment(
    make_service: MakeService, fresh_url: str | None
) -> None:
    """The database's address, with its password, reaches the worker through a pipe; no process of the service
    leaves a core file (P16)."""
    running = make_service(url=fresh_url)
    running.start()
    running.key = running.make_key(credit="1")
    processes = family(running)
    environment = Path(f"/proc/{processes.worker}/environ").read_text()
    limits = [Path(f"/proc/{pid}/limits").read_text() for pid in (processes.worker, processes.api)]

    assert "succeeded" == running.wait(running.submit("Hold the note."))["state"]
    assert [] == [name for name in ("TENUTO_DATABASE=", "SETTINGS", "postgresql://") if name in environment]
    assert ["0", "0"] == [text.split("Max core file size")[1].split()[1] for text in limits]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become an ordinary user")
def test_a_process_that_keeps_private_is_read_by_nobody_of_its_user() -> None:
    """Its environment is closed to the very user it runs as; without that it is open (P16)."""
    assert ("read", "refused") == (_as_a_neighbour(lambda: None), _as_a_neighbour(keep_private))


def _as_a_neighbour(prepare: Callable[[], object]) -> str:
    """What comes of reading a process's environment as another process of the same, ordinary user."""
    answer, question = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            # A change of user closes a process by itself; an ordinary start leaves it open.
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
            prepare()
            if (neighbour := os.fork()) == 0:
                _read(os.getppid(), question)
            os.waitpid(neighbour, 0)
        finally:
            os._exit(0)
    os.close(question)
    os.waitpid(child, 0)
    with os.fdopen(answer) as said:
        return said.read()


def _read(pid: int, answer: int) -> None:
    try:
        Path(f"/proc/{pid}/environ").read_bytes()
        os.write(answer, b"read")
    except PermissionError:
        os.write(answer, b"refused")
    finally:
        os._exit(0)
