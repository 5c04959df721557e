"""The actor on a node of a Ray pool: starts an engine's process there and passes bytes in both directions.

Ray ships this module by value: a node needs Ray, the engine's interpreter and its weights, nothing of Tenuto.
It knows the lengths in front of a message (`tenuto_engine/wire.py`) and nothing of what a message says.
"""

import contextlib
import fcntl
import fnmatch
import io
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

# A longer message travels in pieces of this size, several on their way at once.
PIECE_BYTES = 4 << 20
EVIDENCE_BYTES = 8 << 10
# What the driver's own end of a connection has, too.
SOCKET_BUFFER_BYTES = 1 << 20
# For an engine that is asked to end in order.
FAREWELL_S = 0.6
# After the end of a process: one that left its group may still hold the pipe.
DRAIN_S = 1.0

# The folder with an engine's code, and the lock of whoever needs it.
PREFIX = "tenuto-host-"
LOCK = ".lock"

# Calls of one group are carried out one after the other, in a thread of their own.
GROUPS = {"talk": 1, "send": 1, "watch": 1, "control": 1}

# Lengths of header and body; a struct.Struct cannot be shipped.
_LENGTHS = "!II"
_LENGTHS_BYTES = 8


class EngineRelay:
    """The engine's process on this node, and our end of its connection."""

    def __init__(self) -> None:
        self._connection, self._theirs = socket.socketpair()
        for end in (self._connection, self._theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
        self._popen: subprocess.Popen[bytes] | None = None
        # The engine's code, for as long as its process lives.
        self._code: Path | None = None
        # Bytes of the message that is being read which have not been read yet.
        self._left = 0
        # Messages are numbered by the driver: groups do not keep their order among each other.
        self._turn = threading.Condition()
        self._sent = 0
        self._evidence = b""
        self._drained = threading.Event()
        self._ended = threading.Event()

    def start(
        self,
        code: bytes,
        arguments: list[str],
        defaults: dict[str, str],
        variables: dict[str, str],
        patterns: list[str],
    ) -> str:
        """Start the engine's process; `code` is unpacked first. Returns the name of this node. Raises
        OSError."""
        self._code = unpack(code)
        filled = [text.replace("{code}", str(self._code)) for text in arguments]
        ends = ["--fd", str(self._theirs.fileno()), "--parent", str(os.getpid())]
        try:
            self._popen = subprocess.Popen(
                [*filled, *ends],
                env={**defaults, **inherited(patterns), **variables},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(self._theirs.fileno(),),
                start_new_session=True,
            )
        except OSError:
            shutil.rmtree(self._code, ignore_errors=True)
            raise
        self._theirs.close()
        for work in (self._collect, self._wait):
            threading.Thread(target=work, name=work.__name__, daemon=True).start()
        return socket.gethostname()

    def send(self, number: int, piece: bytes) -> None:
        """Pass on pieces in the order of their numbers."""
        with self._turn:
            self._turn.wait_for(lambda: self._sent == number)
            # An engine that is gone is reported by `receive` and `watch`.
            with contextlib.suppress(OSError):
                self._connection.sendall(piece)
            self._sent += 1
            self._turn.notify_all()

    def exchange(self, number: int, piece: bytes) -> bytes:
        """Pass on a piece and return the engine's next message: one call instead of two."""
        self.send(number, piece)
        return self.receive()

    def receive(self) -> bytes:
        """Return the next message, or the next piece of a long one; b"" at the end."""
        try:
            if self._left:
                piece = self._connection.recv(min(self._left, PIECE_BYTES), socket.MSG_WAITALL)
                self._left -= len(piece)
                return piece
            lengths = self._connection.recv(_LENGTHS_BYTES, socket.MSG_WAITALL)
            if len(lengths) < _LENGTHS_BYTES:
                return b""
            header_size, body_size = struct.unpack(_LENGTHS, lengths)
            # The header stands alone in front of a long body, which then needs no copy to be joined to it.
            short = header_size + body_size <= SOCKET_BUFFER_BYTES
            size = header_size + body_size if short else min(header_size, PIECE_BYTES)
            self._left = header_size + body_size - size
            return lengths + self._connection.recv(size, socket.MSG_WAITALL)
        except OSError:
            return b""

    def watch(self) -> tuple[int, bytes]:
        """Wait for the engine's process to exit; returns its status, as in subprocess, and its last
        output."""
        self._ended.wait()
        self._drained.wait(DRAIN_S)
        assert self._popen is not None
        return self._popen.returncode, self._evidence

    def end(self, in_order: bool) -> None:
        """Stop the engine's process and its children, cleanly first if allowed."""
        if in_order:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)
            self._ended.wait(FAREWELL_S)
        if self._popen is not None and not self._ended.is_set():
            _kill_group(self._popen.pid)
            self._ended.wait(DRAIN_S)

    def _collect(self) -> None:
        assert self._popen is not None and self._popen.stdout is not None
        with self._popen.stdout as output:
            while block := os.read(output.fileno(), 1 << 16):
                self._evidence = (self._evidence + block)[-EVIDENCE_BYTES:]
        self._drained.set()

    def _wait(self) -> None:
        """Reap the process, and kill its children before its pid can be reused."""
        assert self._popen is not None
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
        _kill_group(self._popen.pid)
        self._popen.wait()
        # A process that left the group may hold the other end: what was said is read, then it is the end.
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)
        shutil.rmtree(self._code or "", ignore_errors=True)
        self._ended.set()


def inherited(patterns: list[str]) -> dict[str, str]:
    """The node's own variables that an engine may see."""
    return {
        name: text
        for name, text in os.environ.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }


def pack(folders: dict[str, str]) -> bytes:
    """The code in these folders, under these names, as one archive that is the same for the same code.

    Weights that lie in an engine's package stay here: an engine reads them from the cache, as any others.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, folder in ((name, Path(path)) for name, path in folders.items()):
            for file in sorted(folder.rglob("*")):
                path = file.relative_to(folder)
                if file.is_file() and "__pycache__" not in path.parts and path.parts[0] != "weights":
                    inside = zipfile.ZipInfo(f"{name}/{path}")
                    archive.writestr(inside, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def unpack(code: bytes) -> Path:
    """A new private folder with the unpacked code, locked until this process exits. Raises OSError."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    # Never closed: the lock ends with this process, and says then that the folder is nobody's.
    fcntl.flock(os.open(folder / LOCK, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
    with zipfile.ZipFile(io.BytesIO(code)) as archive:
        archive.extractall(folder)
    return folder


def _sweep() -> None:
    """Remove the folders of killed actors."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def remote(ray: Any) -> Any:
    """The actor's class for Ray: no restarts, no automatic retries of calls."""
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    for group, names in {
        "talk": ("exchange", "receive"),
        "send": ("send",),
        "watch": ("watch",),
        "control": ("end",),
    }.items():
        for name in names:
            setattr(EngineRelay, name, ray.method(concurrency_group=group)(getattr(EngineRelay, name)))
    return ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups=GROUPS)(EngineRelay)
