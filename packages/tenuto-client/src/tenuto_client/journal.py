"""What is on disk before a job leaves: its key, its exact bytes, where it goes; never the API key.

One file for each submission, lines of JSON that are only ever appended and are fsynced one by one; a line
that a crash tore is ignored. Whoever works on an entry holds the lock of its file, so no two programs
continue the same one. It knows files, and nothing of HTTP. POSIX only; without a journal the
client runs anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tenuto_client.errors import JournalError

fcntl: Any = None
# Windows has none; whoever asks for a journal there is told.
with suppress(ImportError):
    fcntl = import_module("fcntl")

KEPT_S = 14 * 24 * 3600
"""How long an accepted job of a script is remembered: as long as a job may last."""

FINAL_WITHOUT_RESULT = ("failed", "cancelled")
"""Ends after which nothing more is made and nothing was charged."""

SUFFIX = ".journal"
_TEMPORARY = ".new"


def fingerprint(api_key: str) -> str:
    """Tells one API key from another without telling the key: keys are too long to be guessed."""
    return hashlib.sha256(b"tenuto journal " + api_key.encode()).hexdigest()[:16]


def digest(*parts: str | bytes) -> str:
    """What a submission is for, as a name: the same parts give the same name, none can run into the next."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()[:32]


class Entry:
    """One submission, locked for as long as it is open. `facts` has all that was noted of it."""

    def __init__(self, path: Path, descriptor: int, facts: dict[str, Any], *, is_new: bool) -> None:
        self.path = path
        self.facts = facts
        self.is_new = is_new
        """False when an earlier program began it."""
        self._descriptor = descriptor

    @property
    def key(self) -> str:
        """The idempotency key."""
        return str(self.facts["key"])

    @property
    def body(self) -> bytes | None:
        """The exact bytes of the submission; None while an upload must come first."""
        text = self.facts.get("body")
        return None if text is None else base64.b64decode(text)

    @property
    def operation_id(self) -> str | None:
        """The job; None while it is not known whether there is one."""
        found = self.facts.get("operation_id")
        return None if found is None else str(found)

    @property
    def ended(self) -> str | None:
        """The state in which the job ended without a result; None while it has not, as far as is known."""
        found = self.facts.get("ended")
        return None if found is None else str(found)

    @property
    def is_set_aside(self) -> bool:
        """Whether the same work was submitted again since: the entry only keeps the id of its job."""
        return bool(self.facts.get("set_aside"))

    @property
    def is_settled(self) -> bool:
        """Whether nothing about it can change any more, and it only keeps the id of its job."""
        return self.is_set_aside or self.ended in FINAL_WITHOUT_RESULT

    @property
    def purpose(self) -> Mapping[str, Any]:
        """What is to happen with the result; empty for a script's job, of which the script knows that."""
        found: Mapping[str, Any] = self.facts.get("purpose") or {}
        return found

    def note(self, **facts: Any) -> None:
        """Append a line and fsync it; bytes are kept as base64. Raises JournalError."""
        kept = {
            name: base64.b64encode(value).decode() if isinstance(value, bytes) else value
            for name, value in facts.items()
        }
        try:
            _write_all(self._descriptor, _line(kept))
            os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self.facts |= kept

    def finish(self) -> None:
        """Nothing is left to be done: the entry goes."""
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        self.release()

    def set_aside(self) -> None:
        """The same work is submitted again. What may still be made or paid for stays listed.

        Raises JournalError.
        """
        if self.ended in FINAL_WITHOUT_RESULT:
            self.finish()
        else:
            self.note(set_aside=True)
            self.release()

    def release(self) -> None:
        """Leave the entry for whoever continues it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class Journal:
    """A folder of entries."""

    def __init__(self, folder: Path) -> None:
        if fcntl is None:
            raise JournalError("a journal needs the file locks of POSIX; go without: Tenuto(journal=False)")
        self.folder = folder
        self._is_swept = False

    def begin(self, intent: str, *, key: str | None = None, **facts: Any) -> Entry:
        """A new entry, on disk and locked when this returns. After a JournalError nothing may be sent."""
        name = f"{intent}-{uuid.uuid4().hex}{SUFFIX}"
        path = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._is_swept:
                self._is_swept = True
                self._forget_old_ones()
            temporary = path.with_suffix(_TEMPORARY)
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OSError as error:
            raise _unwritable(self.folder, error) from error
        entry = Entry(path, descriptor, {}, is_new=True)
        try:
            # Locked before it has its name, so nobody takes it for one that was interrupted.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            entry.note(key=key or str(uuid.uuid4()), intent=intent, began_at=int(time.time()), **facts)
            temporary.rename(path)
            _sync_folder(self.folder)
        except (OSError, JournalError) as error:
            with suppress(OSError):
                temporary.unlink()
            entry.release()
            if isinstance(error, JournalError):
                raise
            raise _unwritable(self.folder, error) from error
        return entry

    def cut_off(self, intent: str = "") -> Iterator[Entry]:
        """Entries that nobody works on, oldest first, each locked now; of one intent, or all."""
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
        """A script has seen its job end."""
        with suppress(OSError):
            path.unlink()

    def _forget_old_ones(self) -> None:
        """Remove what no crash can need any more; a submission in doubt, or one with a purpose, stays."""
        oldest = time.time() - KEPT_S
        for path in list(self.folder.iterdir()):
            if path.suffix not in (SUFFIX, _TEMPORARY) or _age(path) >= oldest:
                continue
            if path.suffix == _TEMPORARY:
                self.forget(path)
            elif (entry := _open(path)) is not None:
                if entry.operation_id is not None and not entry.purpose:
                    entry.finish()
                entry.release()


def _open(path: Path) -> Entry | None:
    """The entry, locked; None when somebody works on it, it is gone, or not even its first line is whole."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        content = _read_all(descriptor)
        gone = os.fstat(descriptor).st_nlink == 0
    except OSError:
        os.close(descriptor)
        return None
    facts: dict[str, Any] = {}
    whole = content[: content.rfind(b"\n") + 1]
    for line in whole.splitlines():
        with suppress(ValueError):
            facts |= json.loads(line)
    if gone or "key" not in facts:
        os.close(descriptor)
        return None
    if whole != content:
        # A torn line must not become the head of the next one.
        os.ftruncate(descriptor, len(whole))
    return Entry(path, descriptor, facts, is_new=False)


def _line(facts: Mapping[str, Any]) -> bytes:
    return json.dumps(facts).encode() + b"\n"


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _read_all(descriptor: int) -> bytes:
    blocks = []
    offset = 0
    while block := os.pread(descriptor, 1 << 20, offset):
        blocks.append(block)
        offset += len(block)
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
        "make room, or name another folder in TENUTO_JOURNAL"
    )
