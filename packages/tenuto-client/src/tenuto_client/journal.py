"""What is on disk before a job is sent: its idempotency key, its exact bytes, the address; never the API key.

One file for each submission: lines of JSON, each appended and fsynced; a line torn by a crash is ignored. A
program that works on an entry holds the lock of its file, so that no two programs continue the same one. It
knows nothing about HTTP.

Windows locks differently and cannot remove or rename an open file: there, an entry has its final name from
the start and is emptied before it is removed. A file without a complete first line is ignored.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tenuto_client.errors import JournalError

fcntl: Any = None
msvcrt: Any = None
try:
    fcntl = import_module("fcntl")
except ImportError:
    msvcrt = import_module("msvcrt")  # on Windows

RETENTION_S = 14 * 24 * 3600
"""How long a program's accepted job stays in the journal: as long as a job may last."""

SWEEP_S = 24 * 3600
"""How often a running program removes entries past their retention."""

FINAL_WITHOUT_RESULT = ("failed", "cancelled")
"""Final states without a result and without a charge."""

SUFFIX = ".journal"
_TEMPORARY = ".new"
_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)
_LOCKED_BYTE = 2**31 - 2
"""On Windows no other program can read locked bytes, so the lock is on a byte past the end of any entry."""


def fingerprint(api_key: str) -> str:
    """A hash that distinguishes API keys without revealing them: keys are too long to be guessed."""
    return hashlib.sha256(b"tenuto journal " + api_key.encode()).hexdigest()[:16]


def digest(*parts: str | bytes) -> str:
    """A name for a submission: the same parts give the same name; length prefixes separate the parts."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()[:32]


class Entry:
    """One submission, locked while it is open. `facts` holds everything recorded about it."""

    def __init__(self, path: Path, descriptor: int, facts: dict[str, Any], *, is_new: bool) -> None:
        self.path = path
        self.facts = facts
        self.is_new = is_new
        """False if an earlier program began it."""
        self._descriptor = descriptor
        self._writing = threading.Lock()
        self._is_released = False

    @property
    def key(self) -> str:
        """The idempotency key."""
        return str(self.facts["key"])

    @property
    def body(self) -> bytes | None:
        """The exact bytes of the submission; None until the upload that must precede it is done."""
        text = self.facts.get("body")
        return None if text is None else base64.b64decode(text)

    @property
    def operation_id(self) -> str | None:
        """The id of the job; None while it is unknown whether there is one."""
        operation_id = self.facts.get("operation_id")
        return None if operation_id is None else str(operation_id)

    @property
    def ended(self) -> str | None:
        """The final state of a job without a result; None while none is known."""
        state = self.facts.get("ended")
        return None if state is None else str(state)

    @property
    def is_set_aside(self) -> bool:
        """Whether the same work was submitted again later, so that the entry only keeps its job's id."""
        return bool(self.facts.get("set_aside"))

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do, so that the entry only keeps its job's id."""
        return self.is_set_aside or self.ended in FINAL_WITHOUT_RESULT

    @property
    def purpose(self) -> Mapping[str, Any]:
        """What a command will do with the result; empty for a program's job."""
        purpose: Mapping[str, Any] = self.facts.get("purpose") or {}
        return purpose

    def note(self, **facts: Any) -> None:
        """Append a line and fsync it; bytes are stored as base64. Raises JournalError."""
        try:
            self._append(facts)
        except OSError as error:
            why = error.strerror or error
            raise JournalError(
                f"the journal {self.path} cannot be written ({why}); free some space"
            ) from error

    def finish(self) -> None:
        """Remove the entry: nothing is left to do."""
        self._remove(self.path)

    def set_aside(self) -> None:
        """Called when the same work is submitted again. A job that may still run or be charged stays listed.

        Raises JournalError.
        """
        if self.ended in FINAL_WITHOUT_RESULT:
            self.finish()
        else:
            self.note(set_aside=True)
            self.release()

    def release(self) -> None:
        """Unlock the entry; another program may continue it. A note that a thread is writing is completed."""
        self._is_released = True
        # A cancelled asyncio flow does not wait for its thread, which must not write into another file.
        if self._writing.acquire(blocking=False):
            try:
                if self._descriptor >= 0:
                    _close(self._descriptor)
                    self._descriptor = -1
            finally:
                self._writing.release()

    def _append(self, facts: Mapping[str, Any]) -> None:
        encoded = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in facts.items()
        }
        try:
            with self._writing:
                _write_all(self._descriptor, _line(encoded))
                os.fsync(self._descriptor)
        finally:
            if self._is_released:
                self.release()
        self.facts |= encoded

    def _remove(self, path: Path) -> None:
        with suppress(OSError):
            if fcntl is None and self._descriptor >= 0:
                os.ftruncate(self._descriptor, 0)
                self.release()
            path.unlink(missing_ok=True)
        self.release()


def _is_over(entry: Entry) -> bool:
    """Neither a submission in doubt nor a command's, which waits for `tenuto resume`."""
    return entry.operation_id is not None and not entry.purpose


class Journal:
    """A folder of entries."""

    def __init__(self, folder: Path, is_over: Callable[[Entry], bool] = _is_over) -> None:
        """`is_over` says whether an entry may be removed once it is past its retention."""
        self.folder = folder
        self._is_over = is_over
        self._swept_at = -math.inf
        """On the monotonic clock."""

    def begin(self, intent: str, *, key: str | None = None, **facts: Any) -> Entry:
        """Create an entry, on disk and locked when this returns. After a JournalError nothing may be sent."""
        name = f"{intent}-{uuid.uuid4().hex}{SUFFIX}"
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.sweep()
            temporary = path if fcntl is None else path.with_suffix(_TEMPORARY)
            descriptor = os.open(temporary, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        entry = Entry(path, descriptor, {}, is_new=True)
        try:
            # Locked before it gets its name, so that no other program mistakes it for an interrupted one.
            _lock(descriptor, wait=True)
            entry._append(
                {"key": key or str(uuid.uuid4()), "intent": intent, "began_at": int(time.time()), **facts}
            )
            if fcntl is not None:
                temporary.rename(path)
                _sync_folder(self.folder)
        except OSError as error:
            entry._remove(temporary)
            raise _unwritable(self.folder, error) from error
        return entry

    def interrupted(self, intent: str = "") -> Iterator[Entry]:
        """Interrupted entries of one intent, or of all, oldest first, each locked when it is yielded."""
        try:
            names = [p for p in self.folder.iterdir() if p.suffix == SUFFIX and p.name.startswith(intent)]
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        for path in sorted(names, key=_age):
            entry = _open(path)
            if entry is not None:
                yield entry

    def forget(self, path: Path) -> None:
        """Remove the entry of a job that is finished."""
        with suppress(OSError):
            path.unlink()

    def sweep(self) -> None:
        """Remove entries that are over and past their retention, at most once a day. Raises OSError."""
        if time.monotonic() - self._swept_at < SWEEP_S:
            return
        self._swept_at = time.monotonic()
        oldest = time.time() - RETENTION_S
        for path in list(self.folder.iterdir()) if self.folder.is_dir() else ():
            if path.suffix not in (SUFFIX, _TEMPORARY) or _age(path) >= oldest:
                continue
            if path.suffix == _TEMPORARY:
                self.forget(path)
            elif (entry := _open(path)) is not None:
                if self._is_over(entry):
                    entry.finish()
                entry.release()
            elif fcntl is None:
                self.forget(path)  # It has no first line; an entry in use cannot be removed.


def _open(path: Path) -> Entry | None:
    """The entry, locked; None if it is in use, removed, or without a complete first line."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        _lock(descriptor, wait=False)
    except OSError:
        os.close(descriptor)
        return None
    try:
        content = _read_all(descriptor)
        gone = os.fstat(descriptor).st_nlink == 0
    except OSError:
        _close(descriptor)
        return None
    facts: dict[str, Any] = {}
    intact = content[: content.rfind(b"\n") + 1]
    for line in intact.splitlines():
        with suppress(ValueError):
            facts |= json.loads(line)
    if gone or "key" not in facts:
        _close(descriptor)
        return None
    if intact != content:
        # Otherwise the next line would be appended to the torn one.
        os.ftruncate(descriptor, len(intact))
    return Entry(path, descriptor, facts, is_new=False)


def _line(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts).encode() + b"\n"


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _lock(descriptor: int, *, wait: bool) -> None:
    """Lock an entry for this program until it is closed; OSError: another program holds the lock."""
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    else:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)


def _close(descriptor: int) -> None:
    """Unlock and close."""
    if fcntl is None:
        # Windows would only unlock it some time after the close.
        with suppress(OSError):
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    os.close(descriptor)


def _read_all(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    blocks = []
    while block := os.read(descriptor, 1 << 20):
        blocks.append(block)
    return b"".join(blocks)


def _write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwritable(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"the journal {path} cannot be written ({error.strerror or error}), so nothing was sent; "
        "free some space, or set TENUTO_JOURNAL to another folder"
    )
