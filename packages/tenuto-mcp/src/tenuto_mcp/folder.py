"""The one folder whose files the tools read and write. It knows paths, not jobs.

Every name is resolved, with its symbolic links, before it is used, and has to be below the folder then. No
existing file is overwritten: a result is linked to its name, which fails if something has that name.
"""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

from tenuto_client.errors import InvalidSetting

OWN = ".tenuto"
"""The folder's own folder, for the journal: no tool reads or writes there."""
MOST_NAMES = 1000
"""How many numbered names are tried for a file whose name was taken in the meantime."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""How a file system without hard links refuses one."""


class Folder:
    """A folder that the user has named."""

    def __init__(self, root: Path) -> None:
        """Raises InvalidSetting unless it is a folder that can be read and written."""
        if not root.is_dir():
            raise InvalidSetting(f"{root}: no such folder")
        self.root = root.resolve()
        if not os.access(self.root, os.R_OK | os.W_OK | os.X_OK):
            raise InvalidSetting(f"{root} cannot be written")
        self.own = self.root / OWN

    def source(self, name: str) -> Path:
        """An existing file of the folder. Raises InvalidSetting."""
        path = self._inside(name)
        if path.is_dir():
            raise InvalidSetting(f"{name} is a folder; name a file in it")
        if not path.exists():
            raise InvalidSetting(f"{name}: no such file in {self.root}")
        if not path.is_file():
            raise InvalidSetting(f"{name} is not a regular file")
        return path

    def target(self, name: str) -> Path:
        """Where a new file may be written. Raises InvalidSetting; an existing file is not a fault here."""
        path = self._inside(name)
        if path.is_dir() or name.endswith(("/", os.sep)):
            raise InvalidSetting(f"{name} is a folder; name a file in it")
        if not path.parent.is_dir():
            raise InvalidSetting(f"{name}: no such folder in {self.root}")
        if not os.access(path.parent, os.W_OK):
            raise InvalidSetting(f"{name}: its folder cannot be written")
        return path

    def name(self, path: Path) -> str:
        """The path as tools name it."""
        return path.relative_to(self.root).as_posix()

    def scratch(self, target: Path, job_id: str) -> Path:
        """A hidden file beside the target, for what is not complete."""
        return target.with_name(f".{hashlib.sha256(job_id.encode()).hexdigest()[:16]}.tenuto{target.suffix}")

    def place(self, scratch: Path, target: Path) -> Path:
        """Give a complete file its name, or a numbered one if another file has it. Raises OSError.

        A file of that name with the same content is taken for this one: an earlier run placed it.
        """
        target = self.target(self.name(target))
        for path in (target, *(_numbered(target, number) for number in range(2, MOST_NAMES))):
            try:
                _link(scratch, path)
            except FileExistsError:
                if _sha256(path) != _sha256(scratch):
                    continue
                scratch.unlink(missing_ok=True)
            return path
        raise OSError(errno.EEXIST, "too many files have this name", str(target))

    def _inside(self, name: str) -> Path:
        """The resolved path of a name. Raises InvalidSetting if it is outside."""
        try:
            path = (self.root / name).resolve()
        except (ValueError, OSError, RuntimeError) as error:
            raise InvalidSetting("this is not the name of a file") from error
        if path == self.root or not path.is_relative_to(self.root):
            raise InvalidSetting(f"{name} is outside of {self.root}; only files in this folder can be used")
        if path.is_relative_to(self.own):
            raise InvalidSetting(f"{name} is in {OWN}, which is not for files of tools")
        return path


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def _link(scratch: Path, path: Path) -> None:
    """Raises FileExistsError if there is something of that name."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        scratch.replace(path)
        return
    scratch.unlink()


def _sha256(path: Path) -> str | None:
    """None for what is not a readable file."""
    try:
        if path.is_symlink() or not path.is_file():
            return None
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
