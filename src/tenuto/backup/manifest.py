"""What a backup says of itself, with a checksum over it: whatever disagrees with it is no backup.

DIR/manifest.json       this; written last
DIR/rows/NAME.jsonl     a table: a line with its columns, then a line for each row
DIR/blobs/XX/blob_…     the bytes, as in a data folder
"""

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tenuto.errors import OperatorError

FORMAT = 1
NAME, ROWS, BLOBS = "manifest.json", "rows", "blobs"
MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TableFile:
    """The file of one table."""

    rows: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that must agree before a backup is believed."""

    backup_id: str
    created_at: int
    """Milliseconds UTC: the moment of the records."""
    program: str
    dialect: str
    migrations: dict[str, str]
    """What had been applied, with the SHA-256 of each file."""
    tables: dict[str, TableFile]
    blobs: int
    blob_bytes: int
    left_out: list[str] = field(default_factory=list)
    """Blobs that were missing or damaged already, and that the operator chose to do without."""

    def write(self, folder: Path) -> None:
        """Durably, and as a whole."""
        told = asdict(self) | {"format": FORMAT}
        content = json.dumps(told | {"sha256": _digest(told)}, indent=1, ensure_ascii=False).encode()
        unfinished = folder / (NAME + ".tmp")
        unfinished.unlink(missing_ok=True)
        with open_new(unfinished) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(folder / NAME)
        sync(folder)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a whole backup. Raises OperatorError."""
    try:
        with (folder / NAME).open("rb") as file:
            content = file.read(MAX_BYTES)
    except FileNotFoundError as error:
        raise OperatorError(f"{folder} is no whole backup: it has no {NAME}") from error
    except OSError as error:
        raise OperatorError(f"{folder} cannot be read: {error.strerror}") from error
    try:
        told: dict[str, Any] = json.loads(content)
        sha256, number = told.pop("sha256"), told["format"]
        if number != FORMAT:
            raise OperatorError(
                f"{folder} has format {number}, which this program does not know; install a newer one"
            )
        if sha256 != _digest(told):
            raise OperatorError(
                f"{folder / NAME} does not have the SHA-256 that it names: the backup is damaged"
            )
        del told["format"]
        tables = {name: TableFile(**file) for name, file in told.pop("tables").items()}
        return Manifest(**told, tables=tables)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise OperatorError(f"{folder / NAME} cannot be understood: the backup is damaged") from error


def open_new(path: Path) -> Any:
    """A file that was not there, for its owner alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def make_folder(folder: Path) -> None:
    """A folder for its owner alone, and its name durable."""
    folder.mkdir(mode=0o700, exist_ok=True)
    sync(folder.parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(told: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
