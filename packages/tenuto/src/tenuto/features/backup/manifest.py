"""The manifest of a backup, with a checksum of its own: a folder that disagrees with it is not a backup.

DIR/manifest.json       the manifest; written last
DIR/rows/NAME.jsonl     a table: a line with its columns, then a line for each row
DIR/blobs/XX/blob_…     the bytes, as in a data folder
"""

import errno
import fcntl
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
from msgspec import Meta

from tenuto.errors import OperatorError
from tenuto.file.directory import sync_folder

FORMAT = 1
NAME, ROWS, BLOBS = "manifest.json", "rows", "blobs"
MAX_BYTES = 16 * 1024 * 1024


_Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
_Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
# Names become file names, so nothing that leads elsewhere, and SQL names, so nothing that needs quoting.
_Name = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,62}\Z")]
_Id = r"_[0-7][0-9a-hjkmnp-tv-z]{25}\Z"


class TableFile(msgspec.Struct, frozen=True):
    """The file of one table."""

    rows: _Count
    size_bytes: _Count
    sha256: _Sha256


class Manifest(msgspec.Struct, frozen=True):
    """Everything that must agree before a backup is trusted."""

    backup_id: Annotated[str, Meta(pattern=f"^backup{_Id}")]
    created_at: Annotated[int, Meta(ge=0, lt=253_402_300_800_000)]
    """Milliseconds UTC: the moment of the records."""
    program: Annotated[str, Meta(pattern=r"^[ -~]{1,80}\Z")]
    dialect: Annotated[str, Meta(pattern="^(sqlite|postgresql)\\Z")]
    migrations: dict[Annotated[str, Meta(pattern=r"^[0-9]{4}[a-z0-9_]{0,80}\Z")], _Sha256]
    """The migrations that had been applied, with the SHA-256 of each file."""
    tables: dict[_Name, TableFile]
    blobs: _Count
    blob_bytes: _Count
    left_out: list[Annotated[str, Meta(pattern=f"^blob{_Id}")]] = msgspec.field(default_factory=list)
    """Blobs that were already missing or damaged, and that the operator chose to leave out."""

    def write(self, folder: Path) -> None:
        """Write it durably and atomically."""
        fields = msgspec.to_builtins(self) | {"format": FORMAT}
        content = json.dumps(fields | {"sha256": _digest(fields)}, indent=1, ensure_ascii=False).encode()
        unfinished = folder / (NAME + ".tmp")
        unfinished.unlink(missing_ok=True)
        with open_new(unfinished) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(folder / NAME)
        sync_folder(folder)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete backup. Raises OperatorError."""
    try:
        with open_regular(folder / NAME) as file:
            content = file.read(MAX_BYTES)
    except FileNotFoundError as error:
        raise OperatorError(f"{folder} is not a whole backup: it has no {NAME}") from error
    except OSError as error:
        raise OperatorError(f"{folder} cannot be read: {error.strerror}") from error
    try:
        fields: dict[str, Any] = json.loads(content)
        sha256, number = fields.pop("sha256"), fields["format"]
        if number != FORMAT:
            raise OperatorError(
                f"{folder} has format {number}, which this program does not know; install a newer one"
            )
        if sha256 != _digest(fields):
            raise OperatorError(
                f"{folder / NAME} does not have the SHA-256 that it names: the backup is damaged"
            )
        del fields["format"]
        return msgspec.convert(fields, Manifest)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OperatorError(f"{folder / NAME} cannot be understood: the backup is damaged") from error


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading; OSError for a link, pipe or device that a stranger has put in its place."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is not a regular file")
    return os.fdopen(descriptor, "rb")


def open_new(path: Path) -> Any:
    """Create a file, which must not exist, for its owner alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def lock(file: Path) -> int:
    """Create and lock a file until the descriptor is closed. OperatorError if another process has locked it.

    Where the file system knows no locks, nothing is locked.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    is_free = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Whoever had it may have renamed the folder, or removed the file, since it was opened.
        is_free = os.path.samestat(os.fstat(descriptor), file.stat())
    except (BlockingIOError, FileNotFoundError):
        is_free = False
    except OSError:
        pass
    if not is_free:
        os.close(descriptor)
        raise OperatorError(f"{file.parent} is in use by another backup or restore; wait until it has ended")
    return descriptor


def make_folder(folder: Path) -> None:
    """Make a folder for its owner alone, and make its name durable."""
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def _digest(fields: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
