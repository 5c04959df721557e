"""Lock files: one `serve` per folder, and which workers of this machine live. Knows neither jobs nor rows."""

import fcntl
import os
import socket
from pathlib import Path

from tenuto.errors import FolderInUse, OperatorError

SERVE_LOCK = "serve.lock"


class FolderLock:
    """The lock of `serve` on its data folder; a second one learns who holds it."""

    def __init__(self, folder: Path) -> None:
        try:
            self._descriptor = os.open(folder / SERVE_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.sign("not listening yet")
        except BlockingIOError:
            holder = os.read(self._descriptor, 200).decode("utf-8", "replace").strip()
            os.close(self._descriptor)
            raise FolderInUse(
                f"{folder} is in use by another `tenuto serve` ({holder}); stop it, or choose --data"
            ) from None
        except OSError as error:
            raise OperatorError(
                f"{folder} cannot be written: {error.strerror}; choose another with --data"
            ) from error

    def sign(self, address: str) -> None:
        """Write who holds the lock, for whoever is refused; the port is known only once we listen."""
        line = f"pid {os.getpid()}, {address}\n".encode()
        os.pwrite(self._descriptor, line, 0)
        os.ftruncate(self._descriptor, len(line))

    def release(self) -> None:
        os.close(self._descriptor)


def serving_at(folder: Path) -> str | None:
    """Where the `serve` on this folder listens; None when none does."""
    if not is_held(folder, SERVE_LOCK):
        return None
    signed = (folder / SERVE_LOCK).read_text("utf-8", "replace").strip()
    return signed.partition(", ")[2] if ":" in signed else None


class LifeLock:
    """A file whose lock is held as long as this process lives; the kernel frees it at any death."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self._path = folder / name
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self) -> None:
        """A clean end: nothing of this worker's is left to rescue."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def is_held(folder: Path, name: str) -> bool:
    """Whether the process that made this lock still lives; a missing file is a dead one's."""
    try:
        descriptor = os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def remove(folder: Path, name: str) -> None:
    """Forget a dead worker's lock."""
    (folder / name).unlink(missing_ok=True)


def machine(folder: Path) -> str:
    """Names this machine as far as locks go: host, boot, and the very folder, so that containers differ."""
    folder.mkdir(parents=True, exist_ok=True)
    stat = folder.stat()
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text("ascii").strip() if boot.exists() else "unknown"
    return f"{socket.gethostname()}:{boot_id}:{stat.st_dev}:{stat.st_ino}"
