"""A process that is told to stop always hears it, at whatever moment of its wait the signal arrives."""

import subprocess
import sys

import pytest

PATIENCE_S = 120.0

SIGNALLED_WITHIN_ITS_WAIT = """
import signal, threading
from tenuto.process.runtime import StopSignal
stopping = StopSignal()
with stopping._cond:
    signal.raise_signal(signal.SIGTERM)
stopping.wait_for_signal()
"""
"""`Event.wait` holds the event's lock while it looks at its flag; the handler of a signal that arrives then
runs in the same thread."""

SIGNALLED_WHILE_A_THREAD_STARTS = """
import signal, threading
from tenuto.process.runtime import StopSignal
stopping = StopSignal()
with threading._active_limbo_lock:
    signal.raise_signal(signal.SIGINT)
stopping.wait_for_signal()
"""


@pytest.mark.parametrize("code", [SIGNALLED_WITHIN_ITS_WAIT, SIGNALLED_WHILE_A_THREAD_STARTS])
def test_a_signal_that_arrives_within_a_lock_ends_the_wait(code: str) -> None:
    ended = subprocess.run([sys.executable, "-c", code], timeout=PATIENCE_S, check=False)
    assert 0 == ended.returncode


SERVER_SIGNALLED_WITHIN_A_LOCK = """
import signal, threading
from tenuto.api import server
wanted, stopped = threading.Event(), threading.Event()

def on_stop():
    wanted.set()
    stopped.set()

class Stub:
    should_exit = force_exit = False
    def run(self):
        with wanted._cond:
            signal.raise_signal(signal.SIGTERM)
        assert stopped.wait(10) and self.should_exit

server.run(Stub(), [signal.SIGTERM], on_stop=on_stop)
"""


def test_a_signal_within_a_lock_of_the_servers_thread_ends_the_server() -> None:
    """Long polls take the lock that the end needs, and a handler may find it held by its own thread."""
    ended = subprocess.run(
        [sys.executable, "-c", SERVER_SIGNALLED_WITHIN_A_LOCK], timeout=PATIENCE_S, check=False
    )
    assert 0 == ended.returncode
