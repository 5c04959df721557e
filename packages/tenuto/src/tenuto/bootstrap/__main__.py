"""The worker's process of `tenuto serve`: settings from its parent, and never longer alive than that.

`python -m tenuto.bootstrap FD` is how `serve` starts it; FD is the pipe whose end is the parent's.
"""

import sys
from contextlib import suppress

from tenuto.bootstrap.opening import refuse_missing
from tenuto.bootstrap.process import keep_private
from tenuto.bootstrap.worker import run_worker
from tenuto.catalog.kinds import kinds
from tenuto.errors import OperatorError, SettingsInvalid, TenutoError
from tenuto.worker.child import NOT_STARTED, log_not_started, receive_settings


def main(read_end: int) -> None:
    """Work until asked to stop; stop at once when the parent is gone."""
    # It may wait for its settings while weights are downloaded.
    keep_private()
    with suppress(SettingsInvalid):  # Our parent reports it.
        kinds()  # Loading their modules takes a while, in which our parent prepares what we wait for.
    settings = receive_settings(read_end)
    try:
        # Our parent has opened both: where they are gone, the folder was moved away, and none is made for it.
        refuse_missing(settings)
        if not settings.folder.is_dir():
            raise OperatorError(f"there is no data folder {settings.folder}; it was moved away")
        run_worker(settings, None, withdraws=False)
    except TenutoError as error:
        # The database is away, most likely: our parent starts us again until it is back, ever more slowly.
        log_not_started("worker", error.message)
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
