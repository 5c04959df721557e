"""The one folder whose files the tools read and write. It knows paths, not jobs.

Every name is resolved, with its symbolic links, before it is used, and has to be below the folder then. No
existing file is overwritten: a result is linked to its name, which fails if something has that name.
"""

from __future__ import annotations

import os
from pathlib import Path

from tenuto_client import placing
from tenuto_client.errors import InvalidSetting

OWN = ".tenuto"
"""The folder's own folder, for the journal: no tool reads or writes there."""


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
        _check_name(name, path.relative_to(self.root))
        if not path.parent.is_dir():
            raise InvalidSetting(f"{name}: no such folder in {self.root}")
        if not os.access(path.parent, os.W_OK):
            raise InvalidSetting(f"{name}: its folder cannot be written")
        return path

    def name(self, path: Path) -> str:
        """The path as tools name it."""
        return path.relative_to(self.root).as_posix()

    def place(self, scratch: Path, target: Path) -> Path:
        """Give a complete file its name, or a numbered one. Raises InvalidSetting, OSError."""
        return placing.place(scratch, self.target(self.name(target)))

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


def _check_name(name: str, path: Path) -> None:
    """Raises InvalidSetting for a new file that would be hidden, or whose name nobody could read."""
    if not name.isprintable() or any(part[0] in ".~" or part[-1] == " " for part in path.parts):
        raise InvalidSetting(
            f"{name!a} cannot name a file: use letters, digits, spaces, dots, hyphens and underscores, "
            "without a dot at the beginning of a name"
        )
