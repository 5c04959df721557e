"""Final jobs as they were answered, so that looking again costs a check of the key and nothing else.

A final state never changes, nor does the record of a job that has one; what waits for an operator is not
final. Bounded by count and size of the answers: the job looked at longest ago goes first.
"""

import threading
from collections import OrderedDict

from tenuto.accounts.rules import Caller
from tenuto.jobs.read import Operation

MAX_JOBS = 4096
MAX_ANSWER_BYTES = 8 * 1024


class FinalJobCache:
    """Encoded operations by account and job, of one process; from any thread."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], tuple[str, bytes]] = OrderedDict()
        # Looked at in the database's threads on PostgreSQL, in the event loop on SQLite.
        self._lock = threading.Lock()

    def get(self, caller: Caller, job_id: str) -> bytes | None:
        """The answer of a final job that was kept; None: read it. ModelNotAllowed, as reading it would be."""
        with self._lock:
            found = self._answers.get((caller.account_id, job_id))
            if found is None:
                return None
            model, answer = found
            caller.check_job(model)
            self._answers.move_to_end((caller.account_id, job_id))
        return answer

    def keep(self, account_id: str, operation: Operation, answer: bytes) -> None:
        """Remember how a job that is final reads."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        with self._lock:
            self._answers[account_id, operation.id] = (operation.model, answer)
            if len(self._answers) > MAX_JOBS:
                self._answers.popitem(last=False)
