"""Reads the parent's messages: one thread handles those about current runs and queues the rest."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
import traceback
from typing import Any

from tenuto_engine import wire
from tenuto_engine.runs import Channel

# After the parent has closed the connection, an idle engine has this long to exit cleanly (atexit, temporary
# files).
FAREWELL_S = 0.5


class Inbox:
    """The parent's messages. When the stream ends, the process exits, whatever the engine is doing."""

    def __init__(self, connection: socket.socket, channel: Channel) -> None:
        self._connection = connection
        self._channel = channel
        # Loads and runs, for the next free thread; None if there will be no more.
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="inbox", daemon=True).start()

    def get(self) -> Any:
        """Wait for the next load (its header) or run; None at the end of the stream, for every thread."""
        work = self._work.get()
        if work is None:
            self._work.put(None)
        return work

    def _read(self) -> None:
        try:
            while self._read_one():
                pass
        except Exception:
            traceback.print_exc()
        self._work.put(None)
        time.sleep(FAREWELL_S)
        os._exit(0)

    def _read_one(self) -> bool:
        """Read and handle a message; False at the end. Afterwards nothing here references a run's inputs."""
        message = wire.read_message(self._connection)
        if message is None:
            return False
        self._sort(*message)
        return True

    def _sort(self, header: dict[str, Any], body: bytes) -> None:
        if header["type"] == "run":
            self._work.put(self._channel.open(header, body))
        elif header["type"] == "cancel":
            self._channel.cancel(header["run_id"])
        elif header["type"] == "health":
            info = {"pid": os.getpid(), "running": self._channel.running()}
            self._channel.send({"type": "health", "info": info})
        else:
            self._work.put(header)
