"""The transcript of a recording as written so far, while its job runs; for streams.

It is an extra, which costs nothing and does not mean that the job will succeed. Pieces of different attempts
are never mixed: each attempt starts over. They are removed once their job is final, like its chunks.
"""

from collections.abc import Sequence

from msgspec import Struct

from tenuto.db.database import Transaction
from tenuto.errors import Stale
from tenuto.features.recognition import live_text_store as store
from tenuto.job import attempts_sql
from tenuto.job.erasure import Erased
from tenuto.job.states import RUNNING

MAX_PIECES = 20_000
MAX_BYTES = 1 << 20
"""Of UTF-8, for one attempt; two hours of fast speech take a fifth of it. Anything beyond it comes only with
the result."""


class LiveText(Struct, frozen=True):
    """What a job's newest attempt has written, from a given piece on."""

    attempt_id: str | None
    """None before the first one."""
    pieces: list[str]


def add(tx: Transaction, attempt_id: str, first: int, pieces: Sequence[str], *, now_ms: int) -> None:
    """Store pieces, numbered from `first` on; repeatable. Stale: the attempt is no longer the job's."""
    attempt = attempts_sql.locked_attempt(tx, attempt_id)
    if attempt is None or attempt.job_attempt_id != attempt_id or attempt.job_state != RUNNING:
        raise Stale
    store.add(tx, pieces, first=first, job_id=attempt.job_id, attempt_id=attempt_id, now_ms=now_ms)


def of_job(tx: Transaction, job_id: str, *, attempt_id: str | None = None, first: int = 0) -> LiveText:
    """The pieces from `first` on if `attempt_id` is the newest attempt, else all of the newest attempt's.

    The caller has checked whose job it is.
    """
    newest = attempts_sql.newest_attempt(tx, job_id)
    if newest is None:
        return LiveText(None, [])
    first = first if newest == attempt_id else 0
    return LiveText(newest, store.texts(tx, newest, first=first, limit=MAX_PIECES))


def forget_final(tx: Transaction) -> int:
    """Remove the live text of jobs that are final: their results contain it."""
    return store.remove_final(tx)


def erase(tx: Transaction, erased: Erased) -> None:
    """Remove the live text of a job whose content is erased."""
    store.remove(tx, erased.job_id)
