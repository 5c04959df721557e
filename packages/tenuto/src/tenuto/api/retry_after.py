"""The `Retry-After` header: when the same request, or the next poll, is worth sending."""

from tenuto.errors import TenutoError
from tenuto.job.read import Job
from tenuto.job.states import QUEUED

NEXT_IN_LANE = 4
MAX_POLL_S = 10
MAX_ERROR_S = 120
_DEFAULT_ERROR_S = 2


def of_error(error: TenutoError) -> int:
    """Seconds until the refused request is worth sending again: what the error says, within bounds."""
    seconds = getattr(error, "retry_after_s", _DEFAULT_ERROR_S)
    return max(1, min(seconds, MAX_ERROR_S))


def of_job(job: Job) -> int | None:
    """Seconds until the next poll makes sense: 1 when it runs or is among the next four, else up to 10.

    None for a job in a final state.
    """
    if job.is_final():
        return None
    if job.state != QUEUED:
        return 1
    if job.queue_position is None:
        return MAX_POLL_S
    return 1 if job.queue_position < NEXT_IN_LANE else min(MAX_POLL_S, job.queue_position)
