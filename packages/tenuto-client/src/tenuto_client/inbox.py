"""A folder whose files are transcribed or spoken as they arrive; knows neither service nor journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tenuto_client.lines import MAX_ID_BYTES, PARAMETERS, Line

SETTLE_S = 2.0
"""A file is complete if its size and modification time have not changed for this long."""
RECORDINGS = frozenset(
    {".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".aif", ".aiff", ".au", ".caf", ".wma"}
    | {".mp4", ".mov", ".mkv", ".webm", ".avi", ".3gp"}
)
TEXTS = frozenset({".txt", ".md"})
MAX_TEXT_BYTES = 1 << 20
"""Far more than the service takes; no more of a file is read."""

_Stat = tuple[int, int]


class Inbox:
    """The files directly in a folder, each taken once for each version of its content."""

    def __init__(
        self,
        folder: Path,
        now: Callable[[], float],
        *,
        model: str | None = None,
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = folder
        self._now = now
        self._model = model
        self._parameters = parameters or {}
        self._seen: dict[str, tuple[_Stat, float]] = {}
        """By file name: its stat after its last change, and when that was noticed."""
        self._taken: dict[str, _Stat] = {}
        self._number = 0
        self._was_scanned = False

    @property
    def is_settled(self) -> bool:
        """Whether every file that was seen has been taken."""
        return self._was_scanned and all(
            self._taken.get(name) == stat for name, (stat, _) in self._seen.items()
        )

    def scan(self) -> list[Line]:
        """A line for each complete file that was not taken yet. Raises OSError."""
        now = self._now()
        current: dict[str, tuple[_Stat, float]] = {}
        lines: list[Line] = []
        for path in sorted(self._folder.iterdir()):
            stat = _stat(path)
            if stat is None:
                continue
            seen = self._seen.get(path.name)
            since = seen[1] if seen is not None and seen[0] == stat else now
            current[path.name] = (stat, since)
            if now - since >= SETTLE_S and self._taken.get(path.name) != stat:
                self._taken[path.name] = stat
                lines.append(self._line(path))
        self._seen, self._was_scanned = current, True
        return lines

    def _line(self, path: Path) -> Line:
        self._number += 1
        if len(path.name.encode("utf-8", "replace")) > MAX_ID_BYTES or not path.name.isprintable():
            return Line(self._number, path.name, error="its name is too long or not text; rename it")
        kind = "recognition" if path.suffix.lower() in RECORDINGS else "speech"
        parameters = _of_kind(kind, self._parameters)
        if kind == "recognition":
            return Line(self._number, path.name, "recognition", parameters, self._model, file=path)
        try:
            with path.open("rb") as file:
                text = file.read(MAX_TEXT_BYTES).decode("utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            return Line(self._number, path.name, error=f"it cannot be read as UTF-8 text: {error}")
        return Line(self._number, path.name, "speech", {**parameters, "text": text}, self._model)


def _of_kind(kind: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters without those that only other kinds have."""
    own = PARAMETERS[kind].__annotations__
    others = {name for types in PARAMETERS.values() for name in types.__annotations__} - set(own)
    return {name: value for name, value in parameters.items() if name not in others}


def _stat(path: Path) -> _Stat | None:
    """The size and modification time of a wanted file; None for anything else and for an empty file."""
    if path.name.startswith((".", "~")) or path.suffix.lower() not in RECORDINGS | TEXTS:
        return None
    try:
        about = path.stat()
    except OSError:
        return None
    return (about.st_size, about.st_mtime_ns) if about.st_size and path.is_file() else None
