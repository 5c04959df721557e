"""What renditions keep in an API process: threads, files, and the libraries that they use, loaded early."""

import os
import signal
import threading

from tenuto.api.limits import FairThreads
from tenuto.api.service import Part, Service
from tenuto.features.renditions.renditions import load_libraries
from tenuto.features.renditions.scratch import Scratch
from tenuto.features.renditions.settings import RenditionSettings
from tenuto.logs import get_logger

RENDERERS = 2
_log = get_logger("tenuto")


class Renderers(Part):
    """Makes renditions."""

    def __init__(self, service: Service) -> None:
        self._owner = service.owner
        self.threads = FairThreads(RENDERERS, 1, "renderer")
        """One at a time per account."""
        self.scratch = Scratch(
            service.settings.folder, service.settings.of(RenditionSettings).scratch_mib << 20
        )
        """Files made for one request, kept while they are sent."""

    def start(self) -> None:
        # Not a daemon: Python would kill it at exit, which aborts the process if the thread is in C++ code.
        threading.Thread(target=self._load_libraries, name="libraries").start()

    def close(self) -> None:
        self.threads.close()

    def _load_libraries(self) -> None:
        """Import the libraries that renditions use; a rendition requested meanwhile waits for the import.

        If it fails, the service stops, to be restarted: a failed import of numpy cannot be retried.
        """
        try:
            load_libraries()
        except Exception as error:
            _log.error("libraries.not_loaded", reason=str(error))
            os.kill(self._owner, signal.SIGTERM)
