"""The worker that `serve` starts: how soon it is started again."""

import itertools
import subprocess
import sys
import time
from pathlib import Path

from servers.processes import until
from servers.speed import HANG_S
from tenuto.config import Settings
from tenuto.worker.serve_child import NOT_STARTED, Child, restart_pause_s

KILLED = -9


def test_a_worker_that_cannot_start_is_tried_ever_more_slowly() -> None:
    """In an outage of the database the pauses double up to ten seconds, also when each try takes a while."""
    pauses = list(
        itertools.accumulate(range(9), lambda last, _: restart_pause_s(NOT_STARTED, 6.0, last), initial=0.1)
    )

    assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0] == [round(pause, 1) for pause in pauses]


def test_a_worker_that_dies_is_replaced_at_once() -> None:
    """Its attempts wait for the next one: 0.1 s after a while of work, a second at most (P9)."""
    pauses = [
        restart_pause_s(KILLED, 60.0, 10.0),
        *(restart_pause_s(KILLED, 0.1, last) for last in (0.2, 1.0, 10.0)),
    ]

    assert [0.1, 0.4, 1.0, 1.0] == pauses


def test_a_machine_that_can_start_nothing_for_a_moment_has_a_worker_afterwards(tmp_path: Path) -> None:
    """No process, no memory, no descriptor: the service goes on, so its worker must come, too (P1)."""
    program, note = tmp_path / "program", tmp_path / "started"
    child = Child(Settings(tmp_path), [str(program)])
    child.start()
    time.sleep(0.15)
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    (tmp_path / "unfinished").write_text(f"#!/bin/sh\ntouch {note}\nexec sleep 60\n")
    (tmp_path / "unfinished").chmod(0o700)
    (tmp_path / "unfinished").rename(program)
    until = time.monotonic() + HANG_S
    while not note.exists() and time.monotonic() < until:
        time.sleep(0.02)
    child.stop()

    assert note.exists()
    assert descriptors >= len(list(Path("/proc/self/fd").iterdir()))


WAITS = """
import os, sys
note = sys.argv[1]
open(note, "w").write(str(os.getpid()))
text = sys.stdin.read()
open(note + ".handed", "w").write(text)
"""


def test_a_prepared_process_waits_and_becomes_the_first(tmp_path: Path) -> None:
    """It is there before `start`, which hands it its settings; after it comes another, as after any (P19)."""
    note = tmp_path / "note"
    child = Child(Settings(tmp_path), [sys.executable, "-S", "-c", WAITS, str(note)])
    child.prepare()
    until(lambda: text(note) != "", HANG_S, "a process that waits")
    time.sleep(0.2)
    early, first = (tmp_path / "note.handed").exists(), note.read_text()
    child.start()
    until(lambda: text(tmp_path / "note.handed") != "", HANG_S, "its settings")
    until(lambda: text(note) not in ("", first), HANG_S, "the next one")
    child.stop()

    assert not early
    assert str(tmp_path) in (tmp_path / "note.handed").read_text()


def test_a_prepared_process_ends_when_it_is_not_wanted(tmp_path: Path) -> None:
    """What prevents a service from starting leaves no process and no descriptor behind."""
    note, descriptors = tmp_path / "note", len(list(Path("/proc/self/fd").iterdir()))
    child = Child(Settings(tmp_path), [sys.executable, "-S", "-c", WAITS, str(note)])
    child.prepare()
    until(lambda: text(note) != "", HANG_S, "a process that waits")
    child.stop()
    del child

    assert not Path(f"/proc/{note.read_text()}").exists()
    assert descriptors == len(list(Path("/proc/self/fd").iterdir()))


def test_a_prepared_worker_ends_with_its_parent(tmp_path: Path) -> None:
    """Killed before it had anything to hand over."""
    program = (
        "import os; from pathlib import Path; from tenuto.config import Settings\n"
        "from tenuto.worker.serve_child import WORKER, Child\n"
        f"child = Child(Settings(Path({str(tmp_path)!r})), WORKER); child.prepare()\n"
        "print(child._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    until(lambda: not Path(f"/proc/{int(done.stdout)}").exists(), HANG_S, "the end of the worker")


def text(path: Path) -> str:
    """What another process has written so far; "" also before the file exists."""
    return path.read_text() if path.exists() else ""
