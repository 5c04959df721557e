"""The worker process of `tenuto serve`: gets its settings from its parent, and never outlives it.

`serve` starts it as `python -m tenuto.process FD`; FD is a pipe whose other end the parent holds.
"""

import sys
from contextlib import suppress

from tenuto.errors import OperatorError, SettingsInvalid, TenutoError
from tenuto.kind.kinds import kinds
from tenuto.process.data_opening import refuse_missing
from tenuto.process.runtime import keep_private
from tenuto.process.worker import run_worker
from tenuto.worker.serve_child import NOT_STARTED, log_not_started, receive_settings


def main(read_end: int) -> None:
    """Work until asked to stop; stop at once if the parent dies."""
    # It may wait for its settings while weights are downloaded.
    keep_private()
    with suppress(SettingsInvalid):  # Our parent reports it.
        kinds()  # Loading their modules takes a while; meanwhile our parent prepares what we wait for.
    settings = receive_settings(read_end)
    try:
        # Our parent has opened both: if they are gone, the folder was moved away and must not be recreated.
        refuse_missing(settings)
        if not settings.folder.is_dir():
            raise OperatorError(f"there is no data folder {settings.folder}; it was moved away")
        run_worker(settings, None, withdraws=False)
    except TenutoError as error:
        # Most likely the database is unavailable: our parent restarts us, ever more slowly, until it is back.
        log_not_started("worker", error.message)
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(int(sys.argv[1]))
