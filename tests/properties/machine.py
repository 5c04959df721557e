"""The state machine: callers, workers and keepers on one database, in any order."""

from hypothesis.stateful import initialize

from properties.callers import Callers
from properties.ground import WORKERS
from properties.keepers import Keepers
from properties.workers import Workers
from servers.world import METERED, SPEECH


class Machine(Callers, Workers, Keepers):
    """All rules together; `Ground` compares after every step.

    No rule has a precondition, so that what is drawn never depends on which of two threads was first.
    """

    @initialize()
    def some_work(self) -> None:
        """A job that runs, a paid one that runs, one that waits."""
        for key, model in enumerate((SPEECH, METERED, SPEECH)):
            self.submit(who=0, key=key, text="一", model=model, fate="done")
        for worker in WORKERS[1:]:
            self.claim(worker=worker, fate="done")
