"""Failpoints: named places where a test kills, stops or hinders this process. Off unless armed.

`TENUTO_FAILPOINT` arms them, in one of two forms:

    name:nth:action[,name:nth:action…]   each fires once per process, the nth time the place is reached
    /path/of/a/folder                    each file `name` in it, holding `nth:action`, fires once in all

Files may be added while the service runs; the process that fires one moves it to `fired/name.pid`.
Actions: kill (SIGKILL), stop (SIGSTOP), raise=ENOSPC (an OSError of this name), delay=0.5 (seconds).
Knows nothing of the code around a failpoint.
"""

import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from tenuto.errors import SettingsInvalid

VARIABLE = "TENUTO_FAILPOINT"
FIRED = "fired"
"""The subfolder for files that have fired, each named with the pid of the process."""

PLACES: Mapping[str, str] = {
    "accept.before_commit": "all rows of a submission are written, none is durable",
    "accept.after_commit": "the job is durable, its 202 is not sent",
    "cancel.before_commit": "a cancellation is written, not durable",
    "cancel.after_commit": "a cancellation is durable, its worker does not know of it",
    "upload.after_bytes": "an upload's bytes are durable and admitted, it has no row",
    "upload.before_commit": "an upload's rows are written, not durable",
    "upload.after_commit": "an upload is durable, its 201 is not sent",
    "voice.after_bytes": "a voice's recording is durable, it has no row",
    "voice.before_commit": "a voice's rows are written, not durable",
    "voice.after_commit": "a voice is durable, its 201 is not sent",
    "erase.before_commit": "an erasure is written, not durable",
    "erase.after_commit": "an erasure is durable, its bytes are still there",
    "download.after_head": "the head of a download and its first block are sent",
    "openai.accepted": "the jobs of a program's request are durable, nobody waits for them",
    "openai.finished": "all jobs of a program's request are final, its answer is not begun",
    "openai.mid_answer": "a piece of an answer that was made for a program is sent, not all",
    "call.held": "a priced call's hold is durable, its model is not asked",
    "call.answered": "a priced call's answer is in memory, its charge is not written",
    "call.settled": "a priced call is charged, its answer is not sent",
    "webhook.sent": "a webhook has a message, which is not recorded",
    "install.after_bytes": "the built-in voices' recordings are durable, they have no rows",
    "register.after_commit": "a worker is registered and has not begun to work",
    "claim.before_commit": "a claim is written, not durable",
    "claim.after_commit": "an attempt is durable, nothing is done for it",
    "input.after_read": "what the engine needs is read and checked, the engine is not called",
    "fence.before_commit": "the fence of a metered call is written, not durable",
    "fence.after_commit": "the fence is durable, the metered call is not made",
    "engine.before_call": "the engine is ready and not called",
    "engine.mid_run": "the engine has sent a segment, which is not stored",
    "engine.after_call": "the engine has returned its result, which is in memory alone",
    "segment.after_bytes": "a segment's bytes are durable, it has no row",
    "segment.before_commit": "a segment's row is written, not durable",
    "segment.after_commit": "a segment is durable, the next one is not",
    "live_text.before_commit": "text of a recording that is being transcribed is written, not durable",
    "live_text.after_commit": "such text is durable, its chunk is not",
    "chunk.before_commit": "a chunk's row is written, not durable",
    "chunk.after_commit": "a chunk is durable, the next one is not begun",
    "result.after_bytes": "the result's bytes are durable, no row names them",
    "record.before_commit": "a metered result's record is written, not durable",
    "record.after_commit": "a metered result is recorded, not settled",
    "succeed.before_commit": "artifact, settlement and state are written, not durable",
    "succeed.after_commit": "the job has succeeded, its worker does not know of it",
    "ending.before_commit": "another end of an attempt is written, not durable",
    "ending.after_commit": "another end of an attempt is durable, its worker does not know of it",
    "beat.after_commit": "a heartbeat is durable",
    "rescue.before_commit": "a rescue is written, not durable",
    "rescue.after_commit": "a rescue is durable, nobody knows of it",
    "rescue.verified": "a dead worker's recorded result is verified, not settled",
    "sweep.after_condemn": "orphans are condemned, their bytes are still there",
    "removal.after_bytes": "condemned bytes are gone, their rows are not",
    "blob.before_write": "a file of bytes is open, the next block is not written",
    "blob.before_fsync": "all bytes are written, none is durable",
    "blob.before_rename": "the bytes are durable under a temporary name",
    "blob.before_folder_fsync": "the bytes have their name, the name is not durable",
    "blob.before_open": "the file of stored bytes is to be opened",
    "blob.before_read": "a block is to be read",
    "blob.before_delete": "bytes are to be removed",
    "recording.before_room": "the file for a decoded recording is not created",
    "backup.before_rows": "a backup has begun, nothing is copied",
    "backup.after_rows": "a backup has the rows of one moment, and no bytes of its own",
    "backup.mid_blobs": "a backup has a blob more, and not yet all",
    "backup.before_name": "a backup is whole and does not have its name",
    "restore.before_blobs": "a restore has its folder, nothing is written",
    "restore.mid_blobs": "a restore has brought a blob more, and not yet all",
    "restore.before_rows": "a restore has all bytes and no row",
    "restore.after_rows": "a restore has all rows, its mark is still there",
    "migration.statement": "a statement of a migration is written, not durable",
    "migration.after_commit": "a migration is durable, the next one is not begun",
    "db.before_commit": "a transaction's statements are done, its COMMIT is not sent",
    "db.after_commit": "a transaction is durable, whoever waits for it does not know",
}
"""Every failpoint, and what is true there."""

HINDERED = frozenset(
    {
        *("blob.before_write", "blob.before_fsync", "blob.before_rename", "blob.before_folder_fsync"),
        *("blob.before_open", "blob.before_read", "blob.before_delete", "recording.before_room"),
    }
)
"""Where the system itself may raise an OSError, as `raise` does."""

OF_COMMANDS = frozenset(place for place in PLACES if place.startswith(("backup.", "restore.", "migration.")))
"""Reached by an operator's command or by the first start on a database, never by a running service."""


def _off(place: str) -> None:
    """Nothing is armed."""


hit: Callable[[str], None] = _off
"""Call it as `failpoints.hit("name")`: looked up at each call, so that `arm` takes effect."""


class _Shot(Struct):
    """An action, and how many visits are left until it fires."""

    left: int
    act: Callable[[], None]


def arm(text: str) -> None:
    """Arm what `TENUTO_FAILPOINT` says; if empty, disarm all. SettingsInvalid says what is wrong."""
    global hit  # noqa: PLW0603 (one switch for the whole process)
    if not text:
        hit = _off
    elif text.startswith("/"):
        hit = _Folder(Path(text)).hit
    else:
        hit = _Listed(text).hit


class _Listed:
    """Shots given at the start; each process counts its own."""

    def __init__(self, text: str) -> None:
        self._lock = threading.Lock()
        self._shots: dict[str, list[_Shot]] = {}
        for part in text.split(","):
            place, _, rest = part.strip().partition(":")
            _known(place)
            self._shots.setdefault(place, []).append(_shot(rest))

    def hit(self, place: str) -> None:
        for shot in self._due(_known(place)):
            shot.act()

    def _due(self, place: str) -> list[_Shot]:
        with self._lock:
            for shot in self._shots.get(place, ()):
                shot.left -= 1
            return [shot for shot in self._shots.get(place, ()) if shot.left == 0]


class _Folder:
    """Shots read from a folder; each fires in the first process that reaches its place often enough."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._lock = threading.Lock()
        # By place: the file's identity (a later file of the same name is counted afresh), and its shot.
        self._seen: dict[str, tuple[tuple[int, int], _Shot]] = {}
        (folder / FIRED).mkdir(parents=True, exist_ok=True)

    def hit(self, place: str) -> None:
        path = f"{self._folder}/{_known(place)}"
        try:
            stat = os.stat(path)  # noqa: PTH116 (called often)
        except FileNotFoundError:
            return
        shot = self._due(place, path, (stat.st_ino, stat.st_mtime_ns))
        if shot is not None:
            shot.act()

    def _due(self, place: str, path: str, which: tuple[int, int]) -> _Shot | None:
        with self._lock:
            try:
                if place not in self._seen or self._seen[place][0] != which:
                    self._seen[place] = which, _shot(Path(path).read_text("ascii"))
                shot = self._seen[place][1]
                shot.left -= 1
                if shot.left > 0:
                    return None
                # Only the process that moves the file fires, and not again after a restart.
                Path(path).rename(f"{self._folder}/{FIRED}/{place}.{os.getpid()}")
            except FileNotFoundError:
                return None
            return shot


def _known(place: str) -> str:
    if place not in PLACES:
        raise SettingsInvalid(f"{VARIABLE}: {place!r} is not a failpoint; there are {', '.join(PLACES)}")
    return place


def _shot(text: str) -> _Shot:
    nth, _, action = text.strip().partition(":")
    if not nth.isdigit() or int(nth) < 1:
        raise SettingsInvalid(f"{VARIABLE}: {text!r}: write name:nth:action, nth a number from 1")
    return _Shot(int(nth), _action(action))


def _action(text: str) -> Callable[[], None]:
    what, _, value = text.partition("=")
    number = getattr(errno, value, None) if value.startswith("E") else None
    if text in ("kill", "stop"):
        sent = signal.SIGKILL if text == "kill" else signal.SIGSTOP
        return lambda: os.kill(os.getpid(), sent)
    if what == "raise" and isinstance(number, int):
        return lambda: _raise(number)
    if what == "delay" and value.replace(".", "", 1).isdigit():
        return lambda: time.sleep(float(value))
    raise SettingsInvalid(f"{VARIABLE}: {text!r} is not one of kill, stop, raise=ENOSPC, delay=0.5")


def _raise(number: int) -> None:
    raise OSError(number, os.strerror(number))
