"""A second worker on the same records and bytes, as on another machine: it has locks of its own."""

import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

from servers import forking
from servers.service import RunningService
from servers.speed import HANG_S

RESTART_PAUSE_S = 0.1
GONE_S = HANG_S


class OtherWorker:
    """`tenuto worker` beside a service that was started; started again whenever it ends if it is kept.

    It sees the beats of the service's own worker and not its lock.
    """

    def __init__(self, service: RunningService, *, is_kept: bool = False) -> None:
        folder = service.folder.with_name("elsewhere")
        folder.mkdir()
        (folder / "blobs").symlink_to(service.folder / "blobs")
        url = service.database_url or f"sqlite:///{service.folder / 'tenuto.db'}"
        self._environment = service.environment | {"TENUTO_DATA": str(folder), "TENUTO_DATABASE": url}
        self.log_path = folder.with_name("elsewhere.log")
        self._is_kept = is_kept
        self._stopping = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._keep, name="other-worker", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Its end, waited for, and its exit code; killed when that takes too long."""
        self._stopping.set()
        with suppress(subprocess.TimeoutExpired):
            self._process.send_signal(how)
            self._process.wait(GONE_S)
        self._process.kill()
        self._thread.join()
        return self._process.wait()

    def _start(self) -> "subprocess.Popen[str]":
        with self.log_path.open("a") as log, Path(os.devnull).open("w") as nowhere:
            return forking.begin(["worker"], env=self._environment, stdout=nowhere, stderr=log)

    def _keep(self) -> None:
        while True:
            self._process.wait()
            if self._stopping.wait(RESTART_PAUSE_S) or not self._is_kept:
                return
            self._process = self._start()
