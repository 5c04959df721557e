"""The near end of one engine's process: starts it, runs, cancels, stops it, and sees what it leaves behind.

One thread; it does not know what a run should give.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tenuto_engine
from tenuto_engine import wire
from tenuto_engine.conformance.subject import Subject

END_S = 5.0
"""How long a process may take to exit once its connection is closed."""
MARK = "TENUTO_CONFORMANCE_PROCESS"
"""A variable that what an engine starts inherits, so that it is known again."""
DEFAULTS = {"OPENBLAS_NUM_THREADS": "1"}
"""As the service has it: numpy's threads beside a model's own wait for each other in a loop."""
_TAIL_CHARACTERS = 2000


class Nonconformance(AssertionError):
    """The engine does something that it must not, or does not do what it must."""


@dataclass
class Outcome:
    """How a run ended, and what it reported before."""

    type: str
    """result, failed, cancelled or unknown."""
    header: dict[str, Any]
    content: bytes
    segments: list[tuple[bytes, dict[str, Any]]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)


class EngineProcess:
    """A started process of the far end, with the subject's engine."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._mark = uuid.uuid4().hex
        self._runs = 0
        # What other runs reported while one was waited for, and what was the end of each.
        self._reports: dict[str, Outcome] = {}
        self.temporary = Path(tempfile.mkdtemp(prefix="tenuto-conformance-"))
        self._outputs = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115, closed in close()
        self._connection, theirs = socket.socketpair()
        self._popen = subprocess.Popen(
            _command(subject, theirs.fileno()),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._outputs[0],
            stderr=self._outputs[1],
            start_new_session=True,
            env={
                **DEFAULTS,
                **os.environ,
                **subject.variables,
                "TMPDIR": str(self.temporary),
                MARK: self._mark,
            },
        )
        theirs.close()

    def load(self) -> dict[str, Any]:
        """Have the engine loaded; what it says of itself."""
        self._expect("hello", 30.0)
        self._send({"type": "load", "options": dict(self._subject.options)})
        header = self._expect("loaded", self._subject.load_timeout_s)
        info: dict[str, Any] = header["info"]
        return info

    def start(self, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]) -> str:
        """Ask for a run; its id."""
        self._runs += 1
        run_id = f"run-{self._runs}"
        sizes = [[name, len(content)] for name, content in inputs.items()]
        header = {"type": "run", "run_id": run_id, "parameters": dict(parameters), "inputs": sizes}
        self._reports[run_id] = Outcome("", {}, b"")
        self._send(header, b"".join(inputs.values()))
        return run_id

    def cancel(self, run_id: str) -> None:
        """Ask a run to stop."""
        self._send({"type": "cancel", "run_id": run_id})

    def has_reported(self, run_id: str, timeout_s: float) -> bool:
        """Wait for the first sign of a run: progress, a segment or its end."""
        outcome = self._reports[run_id]
        until = time.monotonic() + timeout_s
        while not (outcome.type or outcome.segments or outcome.progress):
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._connection], [], [], left)[0]:
                return False
            self._read(left + END_S)
        return True

    def finish(self, run_id: str, timeout_s: float | None = None) -> Outcome:
        """Wait for a run's end: so long in all, or as long as it reports something."""
        outcome = self._reports[run_id]
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not outcome.type:
            self._read(self._subject.run_timeout_s if until is None else until - time.monotonic())
        return outcome

    def run(self, parameters: Mapping[str, Any], inputs: Mapping[str, bytes]) -> Outcome:
        """One run from its start to its end."""
        return self.finish(self.start(parameters, inputs))

    def disconnect(self) -> int:
        """Close the connection as the service does; the exit status. Raises Nonconformance."""
        self._connection.shutdown(socket.SHUT_WR)
        try:
            return self._popen.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Nonconformance(
                f"the process was still there {END_S:.0f} s after its connection was closed"
            ) from None

    def processes(self) -> list[int]:
        """What the engine started and still runs, beside its own process; only Linux shows them."""
        pids = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                variables = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={self._mark}".encode() in variables and int(folder.name) != self._popen.pid:
                pids.append(int(folder.name))
        return pids

    def output(self) -> tuple[str, str]:
        """What was written to stdout and to stderr so far."""
        texts = []
        for file in self._outputs:
            # The process has the same offset, so it is read without moving it.
            texts.append(os.pread(file.fileno(), 1 << 20, 0).decode("utf-8", "replace"))
        return texts[0], texts[1]

    def close(self) -> None:
        """End the process and what it started, and remove its folder."""
        if self._popen.poll() is None:
            self._popen.kill()
        self._popen.wait()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        self._connection.close()
        for file in self._outputs:
            file.close()
        shutil.rmtree(self.temporary, ignore_errors=True)

    def _send(self, header: dict[str, Any], body: bytes = b"") -> None:
        try:
            for piece in wire.encode(header, (body,)):
                self._connection.sendall(piece)
        except OSError as error:
            raise self._lost() from error

    def _expect(self, kind: str, timeout_s: float) -> dict[str, Any]:
        """The next message, which is about no run."""
        header, _ = self._message(timeout_s)
        if header["type"] == "failed":
            raise Nonconformance(f"the engine did not load: {header['message']}{self._tail()}")
        if header["type"] != kind:
            raise Nonconformance(f"the process sent {header['type']!r} instead of {kind!r}")
        return header

    def _read(self, timeout_s: float) -> None:
        """Note the next message with its run."""
        header, body = self._message(timeout_s)
        outcome = self._reports.get(header.get("run_id", ""))
        if outcome is None or outcome.type:
            raise Nonconformance(f"a {header['type']} of a run that is not under way")
        if header["type"] == "segment":
            outcome.segments.append((body, header["metadata"]))
        elif header["type"] == "progress":
            outcome.progress.append(header)
        else:
            outcome.type, outcome.header, outcome.content = header["type"], header, body

    def _message(self, timeout_s: float) -> wire.Message:
        self._connection.settimeout(max(0.001, timeout_s))
        try:
            message = wire.read_message(self._connection)
        except TimeoutError:
            raise Nonconformance(f"the engine reported nothing in time{self._tail()}") from None
        except (OSError, wire.WireError) as error:
            raise self._lost() from error
        finally:
            self._connection.settimeout(None)
        if message is None:
            raise self._lost()
        return message

    def _lost(self) -> Nonconformance:
        try:
            status: int | str = self._popen.wait(END_S)
        except subprocess.TimeoutExpired:
            status = "unknown"
        return Nonconformance(f"the engine's process ended with exit status {status}{self._tail()}")

    def _tail(self) -> str:
        text = "".join(self.output())[-_TAIL_CHARACTERS:].strip()
        return f"; its last output:\n{text}" if text else ""


def _command(subject: Subject, fd: int) -> list[str]:
    host = str(Path(tenuto_engine.__file__ or "").parent)
    where = ["--path", subject.path] if subject.path else []
    beside = [text for name, folder in subject.packages.items() for text in ("--with", f"{name}={folder}")]
    ends = ["--fd", str(fd), "--parent", str(os.getpid()), *(["--network"] if subject.network else [])]
    return [subject.interpreter, "-u", host, subject.engine, *where, *beside, *ends]
