"""What the parent asks for, read by the thread that waits for it. While that one is busy a watchman reads.

It does not know how a run is carried out, nor how one ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import socket
import threading
import time
import traceback
from typing import Any

from tenuto_host import wire
from tenuto_host.runs import Channel

# The watchman takes over during work that lasts longer than this.
SHORT_WORK_S = 0.005
# After the parent's last word an idle engine may end in order (atexit, temporary files) for so long.
FAREWELL_S = 0.5


class Inbox:
    """The parent's messages: about runs under way they are answered here, the others are given out in order.

    The main thread reads for itself: handing each run from a reader to it would cost a short one a quarter of
    its time. The parent's silence (the end of the stream) ends this process.
    """

    def __init__(self, connection: socket.socket, channel: Channel) -> None:
        self._connection = connection
        self._channel = channel
        # Held by whoever reads.
        self._reading = threading.Lock()
        # Set as the main thread goes to work.
        self._working = threading.Event()
        # What the watchman has read, for whichever thread is free first.
        self._kept: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._is_over = False
        # A byte in this pipe sends the watchman away.
        self._bell, self._rope = os.pipe()
        self._sources = select.poll()
        self._sources.register(connection, select.POLLIN)
        self._sources.register(self._bell, select.POLLIN)
        threading.Thread(target=self._watch, name="watchman", daemon=True).start()

    def get(self) -> Any:
        """Give what is to be done next: a load (a header), a run; None at the end. For the main thread."""
        if not self._reading.acquire(blocking=False):
            os.write(self._rope, b"!")
            self._reading.acquire()
            os.read(self._bell, 1)
        try:
            found = None
            while found is None and not self._is_over:
                found = self._take_kept() or self._read()
            return found
        finally:
            self._reading.release()
            if not self._working.is_set():
                self._working.set()

    def get_kept(self) -> Any:
        """Give the next thing that arrives while the main thread works; for any other thread."""
        return self._kept.get()

    def _take_kept(self) -> Any:
        with contextlib.suppress(queue.Empty):
            return self._kept.get_nowait()
        return None

    def _watch(self) -> None:
        while True:
            self._working.wait()
            self._working.clear()
            time.sleep(SHORT_WORK_S)
            if not self._reading.acquire(blocking=False):
                continue
            try:
                while self._is_left_alone():
                    found = self._read()
                    if found is not None:
                        self._kept.put(found)
            finally:
                self._reading.release()

    def _is_left_alone(self) -> bool:
        """Wait for the parent's word; False when the main thread is back, or there is nothing to wait for."""
        ready = [descriptor for descriptor, _ in self._sources.poll()]
        return self._bell not in ready and not self._is_over

    def _read(self) -> Any:
        """Read one message; give what is to be done, None when it was done here."""
        try:
            message = wire.read_message(self._connection)
            if message is not None:
                return self._sort(*message)
        except Exception:
            traceback.print_exc()
        self._is_over = True
        threading.Thread(target=_end, daemon=True).start()
        return None

    def _sort(self, header: dict[str, Any], body: bytes) -> Any:
        if header["type"] == "run":
            return self._channel.open(header, body)
        if header["type"] == "cancel":
            self._channel.cancel(header["run_id"])
        elif header["type"] == "health":
            info = {"pid": os.getpid(), "running": self._channel.running()}
            self._channel.send({"type": "health", "info": info})
        else:
            return header
        return None


def _end() -> None:
    time.sleep(FAREWELL_S)
    os._exit(0)
