"""Shots at failpoints: files in a folder, each taken by the first process of a service that comes by."""

import time
from contextlib import suppress
from pathlib import Path

from tenuto import failpoints

LOOK_S = 0.01


class Shots:
    """The folder that `TENUTO_FAILPOINT` names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._fired = folder / failpoints.FIRED
        self._fired.mkdir(parents=True)
        self._known: set[str] = set()

    @property
    def variables(self) -> dict[str, str]:
        """What arms a service with this folder."""
        return {failpoints.VARIABLE: str(self.folder)}

    def arm(self, place: str, shot: str) -> None:
        """Lay a shot in one step, `nth:action`; what lay there before is gone."""
        (self.folder / "new").write_text(shot)
        (self.folder / "new").rename(self.folder / place)

    def disarm(self) -> None:
        """Take back what nobody has taken."""
        for place in failpoints.PLACES:
            (self.folder / place).unlink(missing_ok=True)

    def fired(self, place: str, timeout_s: float) -> int | None:
        """The pid of who took the shot; None when nobody came by in time, and then it is taken back."""
        until = time.monotonic() + timeout_s
        while (self.folder / place).exists():
            if time.monotonic() > until:
                with suppress(FileNotFoundError):
                    (self.folder / place).unlink()
                    return None
            time.sleep(LOOK_S)
        found = sorted(self._fired.glob(f"{place}.*"), key=lambda path: path.stat().st_ctime_ns)
        return int(found[-1].name.rpartition(".")[2]) if found else None

    def taken(self) -> set[str]:
        """The places where somebody took a shot."""
        return {path.name.rpartition(".")[0] for path in self._fired.iterdir()}
