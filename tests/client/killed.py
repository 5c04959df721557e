"""The `tenuto` command of a client that dies: `python -m client.killed STEP before|after VERB …`.

Every step of every flow goes through one function of the driver; at the STEP-th one, before or after it was
done, the process kills itself with SIGKILL. Waiting takes no time, everything else is as it is shipped.
"""

import os
import signal
import sys
from typing import Any

from tenuto_client.commands import main
from tenuto_client.drive import Driver
from tenuto_client.steps import Pause, Step

SHORT_S = 0.02


class Doomed:
    """Counts the steps of this process."""

    def __init__(self, last: int, when: str) -> None:
        self.left = last
        self.when = when

    def perform(self, inner: Any, step: Step) -> Any:
        self.left -= 1
        if self.left < 0 and self.when == "before":
            self._die()
        outcome = inner(Pause(SHORT_S) if isinstance(step, Pause) else step)
        if self.left < 0:
            self._die()
        return outcome

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    doomed = Doomed(int(sys.argv[1]), sys.argv[2])
    shipped = Driver._perform

    def perform(driver: Driver, step: Step) -> Any:
        return doomed.perform(lambda given: shipped(driver, given), step)

    Driver._perform = perform  # type: ignore[method-assign, assignment]
    sys.exit(main(sys.argv[3:]))
