"""Final jobs as they were answered, so that looking again costs a check of the key and nothing else.

A final state never changes, nor does the record of a job that has one; what waits for an operator is not
final. Bounded by count and size of the answers: the job looked at longest ago goes first.
"""

from collections import OrderedDict

MAX_JOBS = 4096
MAX_ANSWER_BYTES = 8 * 1024


class Finals:
    """Encoded operations by account and job, of one process and one thread: the event loop's."""

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def get(self, account_id: str, job_id: str) -> bytes | None:
        """The answer of a final job that was kept; None: read it."""
        answer = self._answers.get((account_id, job_id))
        if answer is not None:
            self._answers.move_to_end((account_id, job_id))
        return answer

    def keep(self, account_id: str, job_id: str, answer: bytes) -> None:
        """Remember how a job that is final reads."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        self._answers[account_id, job_id] = answer
        if len(self._answers) > MAX_JOBS:
            self._answers.popitem(last=False)
