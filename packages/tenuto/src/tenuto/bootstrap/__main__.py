"""The worker's process of `tenuto serve`: settings from its parent, and never longer alive than that.

`python -m tenuto.bootstrap FD` is how `serve` starts it; FD is the pipe whose end is the parent's.
"""

import sys
import threading

from tenuto import config
from tenuto.bootstrap.opening import refuse_missing
from tenuto.bootstrap.process import log
from tenuto.bootstrap.worker import run_worker
from tenuto.errors import OperatorError, TenutoError
from tenuto.logs import set_up_logs
from tenuto.worker.child import NOT_STARTED, follow_parent


def main(read_end: int) -> None:
    """Work until asked to stop; stop at once when the parent is gone."""
    if not (text := sys.stdin.read()):
        sys.exit(1)  # Our parent has died before it wrote them.
    settings = config.undump(text)
    set_up_logs(settings.log_level, settings.log_format)
    threading.Thread(target=follow_parent, args=(read_end,), name="parent", daemon=True).start()
    try:
        # Our parent has opened both: where they are gone, the folder was moved away, and none is made for it.
        refuse_missing(settings)
        if not settings.folder.is_dir():
            raise OperatorError(f"there is no data folder {settings.folder}; it was moved away")
        run_worker(settings, None, withdraws=False)
    except TenutoError as error:
        # The database is away, most likely: our parent starts us again until it is back, ever more slowly.
        log().error("worker.not_started", reason=error.message)
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
