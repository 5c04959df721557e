"""Which services this user runs on this machine: `serve` writes a note of its address, commands read it.

A note holds no secret: the user's commands can make a key because they may write to the data folder.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenuto.worker.locks import SERVE_LOCK, is_held, machine

if TYPE_CHECKING:
    from tenuto.config import Settings

EVERYWHERE = ("0.0.0.0", "[::]", "::")


@dataclass(frozen=True)
class ServiceNote:
    """What `serve` writes once it listens, with the settings that making an account and key needs."""

    url: str
    """The base address for callers on this machine."""
    folder: str
    """The data folder, an absolute path."""
    database: str
    """A file in that folder: a service with its records elsewhere writes no note."""
    prices: str
    initial_credit: str
    machine: str
    """From `locks.machine`: machines may share a home folder, and a lock means nothing on another machine."""

    def is_live(self) -> bool:
        """Whether its `serve` is running on this machine, in a folder of this user."""
        folder = Path(self.folder)
        with suppress(OSError):
            return _is_private(folder) and machine(folder) == self.machine and is_held(folder, SERVE_LOCK)
        return False


def publish(settings: "Settings", address: str, environment: Mapping[str, str] = os.environ) -> None:
    """Note where a `serve` listens, if its records are in its data folder; remove notes of dead services.

    A home folder that is not writable is ignored: the service does not depend on it.
    """
    if not settings.database.startswith("sqlite:"):
        return
    home = settings.folder.resolve()
    url = _url_on_this_machine(address, settings.base())
    note = ServiceNote(
        url, str(home), settings.database, settings.prices, settings.initial_credit, machine(home)
    )
    with suppress(OSError):
        folder = _notes(environment)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in folder.glob("*.json"):
            if (other := _read(path)) is None or not other.is_live():
                path.unlink(missing_ok=True)
        name = hashlib.sha256(note.folder.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        temporary = folder / f".{name}.{os.getpid()}"
        temporary.touch(0o600)
        temporary.write_text(json.dumps(asdict(note)), "utf-8")
        temporary.replace(folder / f"{name}.json")


def live_services(environment: Mapping[str, str] = os.environ) -> list[ServiceNote]:
    """This user's running services on this machine, sorted by address. Creates and removes nothing."""
    with suppress(OSError):
        notes = [_read(path) for path in _notes(environment).glob("*.json")]
        return sorted((note for note in notes if note and note.is_live()), key=lambda note: note.url)
    return []


def noted_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The data folders on which this user has served lately, whether or not a service is running there."""
    notes = [_read(path) for path in sorted(_notes(environment).glob("*.json"))]
    return [Path(note.folder) for note in notes if note]


def _url_on_this_machine(address: str, base: str) -> str:
    """The base address for local callers; a service that listens everywhere is reached at 127.0.0.1."""
    host, _, port = address.rpartition(":")
    return f"http://{'127.0.0.1' if host in EVERYWHERE else host}:{port}{base}"


def _notes(environment: Mapping[str, str]) -> Path:
    state = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "tenuto" / "services"


def _read(path: Path) -> ServiceNote | None:
    """A note that this user wrote; None for anything else."""
    with suppress(OSError, ValueError, TypeError):
        if _is_private(path):
            return ServiceNote(**json.loads(path.read_text("utf-8")))
    return None


def _is_private(path: Path) -> bool:
    """Whether it belongs to this user and is not world-writable."""
    stat = path.stat()
    return stat.st_uid == os.geteuid() and not stat.st_mode & 0o002
