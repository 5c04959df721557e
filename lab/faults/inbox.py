"""A caller's own server for messages of webhooks: a process that is killed and that refuses, and its file.

As a program, `python -m lab.faults.inbox PORT FOLDER`, it answers 204 once a message is in the file, and 503
while `FOLDER/refusing` exists. It knows no jobs; what the messages must be is in `check`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.shared import ROOT

from servers.receiver import Message, Receiver, plainly

if TYPE_CHECKING:
    from servers.service import RunningService

EVENTS = {name: f"job.{name}" for name in ("succeeded", "failed", "cancelled", "recovery_required")}
"""What a job can come to, and the message that says so."""
START_S = 20.0


class Inbox:
    """Where the webhooks of a life's accounts lead: the path is the account's name."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, self._file = folder, folder / "messages.jsonl"
        self._file.touch()
        # Bound and not listening: nobody else gets the port while the process is down.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        self.secrets: dict[str, str] = {}
        """What signs the messages to each account that has a webhook."""
        self._process = self._start()

    def register(self, service: RunningService, account: str, key: str) -> None:
        """A webhook of this account for all that a job can come to."""
        # The receiver itself is started often and needs neither: they take four fifths of its start.
        import httpx2

        from servers.service import PLAIN

        answer = httpx2.post(
            f"{service.url}/v1/webhooks",
            headers={"Authorization": f"Bearer {key}"},
            json={"url": f"http://127.0.0.1:{self.port}/{account}", "events": list(EVENTS.values())},
            timeout=START_S,
            verify=PLAIN,
        )
        assert answer.status_code == 201, answer.text
        self.secrets[account] = answer.json()["secret"]

    def messages(self) -> list[Message]:
        """All that was taken so far, in order."""
        lines = self._file.read_text("utf-8").splitlines()
        return [_message(json.loads(line)) for line in lines if line.endswith("}")]

    def kill(self, seconds: float) -> None:
        """SIGKILL, and a new process after this long; what it has taken is in the file."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        time.sleep(seconds)
        self._process = self._start()

    def refuse(self, seconds: float) -> None:
        """503 to every message for this long."""
        mark = self._folder / "refusing"
        mark.touch()
        time.sleep(seconds)
        mark.unlink()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP while the block lasts: it accepts connections and answers none."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._reserved.close()

    def _start(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "lab.faults.inbox", str(self.port), str(self._folder)]
        process = subprocess.Popen(words, cwd=ROOT)
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            with closing(socket.socket()) as line:
                if line.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            time.sleep(0.03)
        process.kill()
        raise AssertionError("the receiver of messages does not start")


def _message(fields: dict[str, Any]) -> Message:
    return Message(fields["path"], fields["headers"], fields["body"].encode())


def main() -> None:
    """Take messages until the process is killed."""
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    file = os.open(folder / "messages.jsonl", os.O_WRONLY | os.O_APPEND)
    # A line that a kill has cut ends here; its message was not answered.
    os.write(file, b"\n")
    writing = threading.Lock()

    def take(handler: BaseHTTPRequestHandler, message: Message) -> None:
        if (folder / "refusing").exists():
            plainly(503)(handler, message)
            return
        fields = {"path": message.path, "headers": message.headers, "body": message.body.decode()}
        with writing:
            os.write(file, json.dumps(fields).encode() + b"\n")
        plainly(204)(handler, message)

    Receiver(take, port=port)
    signal.pause()


if __name__ == "__main__":
    main()
