"""Where parts become processes: the only room that builds them, and the only one that reads the clock.

`tenuto api` is api.py, `tenuto worker` is worker.py; `tenuto serve` (serve.py) is the API with a worker as
its child (__main__.py). opening.py opens what they and the operator's commands work on. Each loads its own
parts only when it is run: a worker never loads HTTP, a short command loads neither.
"""

from tenuto.bootstrap.api import build_service, run_api
from tenuto.bootstrap.opening import (
    MIGRATIONS_PATIENCE_S,
    database_unreachable,
    install_voices,
    is_first_run,
    make_folder,
    open_as_it_is,
    open_blobs,
    open_records,
)
from tenuto.bootstrap.process import arm_failpoints, clock
from tenuto.bootstrap.serve import run_serve
from tenuto.bootstrap.store_watch import open_own_blobs, store_of
from tenuto.bootstrap.worker import run_worker

__all__ = [
    "MIGRATIONS_PATIENCE_S",
    "arm_failpoints",
    "build_service",
    "clock",
    "database_unreachable",
    "install_voices",
    "is_first_run",
    "make_folder",
    "open_as_it_is",
    "open_blobs",
    "open_own_blobs",
    "open_records",
    "run_api",
    "run_serve",
    "run_worker",
    "store_of",
]
