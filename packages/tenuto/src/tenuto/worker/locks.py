"""Lock files: one `serve` per folder, and which workers here are alive. Knows neither jobs nor rows."""

import fcntl
import os
import socket
from pathlib import Path

from tenuto.errors import FolderInUse, OperatorError, remedy_of_folder

SERVE_LOCK = "serve.lock"


class FolderLock:
    """The lock of `serve` on its data folder; a second `serve` learns who holds it."""

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
                f"{folder} cannot be written: {error.strerror}; {remedy_of_folder(error)}"
            ) from error

    def sign(self, address: str) -> None:
        """Write who holds the lock, for a process that is refused; the port is known only once we listen."""
        line = f"pid {os.getpid()}, {address}\n".encode()
        os.pwrite(self._descriptor, line, 0)
        os.ftruncate(self._descriptor, len(line))

    def release(self) -> None:
        os.close(self._descriptor)


def serving_at(folder: Path) -> str | None:
    """Where the `serve` on this folder listens; None if none does."""
    if not is_held(folder, SERVE_LOCK):
        return None
    signed = (folder / SERVE_LOCK).read_text("utf-8", "replace").strip()
    return signed.partition(", ")[2] if ":" in signed else None


class LifeLock:
    """A file locked for as long as this process lives; the kernel releases it however the process dies."""

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
    """Whether the process that took this lock is still alive; if the file is missing, it is not."""
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
    """Identify this machine for locks: host, boot and the folder itself, so that containers differ."""
    folder.mkdir(parents=True, exist_ok=True)
    stat = folder.stat()
    boot = Path("/proc/sys/kernel/random/boot_id")
    boot_id = boot.read_text("ascii").strip() if boot.exists() else "unknown"
    return f"{socket.gethostname()}:{boot_id}:{stat.st_dev}:{stat.st_ino}"
