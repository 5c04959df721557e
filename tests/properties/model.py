"""What should become of jobs and money, worked out anew from the promises: a few lines, no database.

It shares no code with the service, not even its tables of states. `Late` means that a call comes from an
attempt that has lost its job: then nothing at all may change.
"""

from dataclasses import dataclass, field

PRICE = 50_000
HOSTS_LOST = 3
UNFORESEEN_ERRORS = 3
UNFORESEEN_PAUSE_MS = 2_000
FINAL = ("succeeded", "failed", "cancelled")


class Late(Exception):
    """The call must be refused and leave no trace."""


@dataclass
class Attempt:
    """One run of a job."""

    attempt_id: str
    job: "Job"
    worker: str
    state: str = "running"
    is_unknown: bool = False
    is_fenced: bool = False
    beats: int = 0
    blob: str | None = None
    segments: list[str] = field(default_factory=list)

    def end(self, *, unknown: bool = False) -> None:
        if self.state != "ended":
            self.state, self.is_unknown = "ended", unknown


@dataclass
class Job:
    """One accepted submission."""

    job_id: str
    account: str
    is_metered: bool
    deadline_at: int
    state: str = "queued"
    attempts: list[Attempt] = field(default_factory=list)
    is_cancel_asked: bool = False
    is_erased: bool = False
    hosts_lost: int = 0
    unforeseen_errors: int = 0
    workers_lost: int = 0
    not_before_at: int = 0
    charged: int | None = None
    may_run_again: bool = True
    """False once a paid call was begun, until an operator says otherwise."""

    @property
    def newest(self) -> Attempt | None:
        return self.attempts[-1] if self.attempts else None

    def finish(self, state: str) -> None:
        assert self.state not in FINAL, "a final state never changes"
        self.state = state
        self.charged = PRICE if state == "succeeded" else None
        if self.newest is not None:
            self.newest.end()

    def queue(self, not_before_at: int) -> None:
        assert self.may_run_again, "nothing paid for is made a second time"
        self.state, self.not_before_at = "queued", not_before_at
        if self.newest is not None:
            self.newest.end()

    def wait_for_operator(self) -> None:
        assert self.newest is not None
        self.newest.end(unknown=True)
        self.state = "recovery_required"


@dataclass
class Model:
    """All accounts, jobs and attempts, and whose turn it is."""

    slots: int
    credit: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    keys: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """By API key and idempotency key: the body and the job that it was bound to."""
    served: dict[str, int] = field(default_factory=dict)

    # --- what follows from all of it -----------------------------------------------------------------

    def balance(self, account: str) -> tuple[int, int]:
        """Available and held."""
        own = [job for job in self.jobs.values() if job.account == account]
        held = sum(PRICE for job in own if job.state not in FINAL)
        charged = sum(job.charged or 0 for job in own)
        return self.credit[account] - held - charged, held

    def in_state(self, *states: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in states]

    def next_job(self, now: int) -> Job | None:
        """Accounts take turns, first in first out within one, where a slot is free."""
        if len(self.in_state("running")) >= self.slots:
            return None
        due = [job for job in self.in_state("queued") if not now < job.not_before_at <= now + 600_000]
        if not due:
            return None
        account = min({job.account for job in due}, key=lambda one: (self.served.get(one, 0), one))
        return min((job for job in due if job.account == account), key=lambda job: job.job_id)

    # --- what callers and operators do -----------------------------------------------------------------

    def accept(self, key: tuple[str, str], body: str, job: Job) -> None:
        self.jobs[job.job_id] = job
        self.keys[key] = (body, job.job_id)

    def cancel(self, job: Job) -> None:
        if job.state == "queued":
            job.is_cancel_asked = True
            job.finish("cancelled")
        elif job.state == "running":
            job.is_cancel_asked = True

    def requeue(self, job: Job) -> None:
        assert job.newest is not None
        job.newest.end(unknown=True)
        job.may_run_again, job.is_cancel_asked = True, False
        job.queue(job.not_before_at)

    def void(self, job: Job, state: str) -> None:
        job.finish(state)

    def erase(self, job: Job) -> None:
        job.is_erased = True
        for attempt in job.attempts:
            attempt.blob = None

    # --- what workers do ---------------------------------------------------------------------------------

    def claim(self, job: Job, attempt_id: str, worker: str) -> Attempt:
        assert job.state == "queued", "only what waits is claimed"
        assert job.may_run_again, "nothing paid for is made a second time"
        attempt = Attempt(attempt_id, job, worker)
        job.state = "running"
        job.attempts.append(attempt)
        self.attempts[attempt_id] = attempt
        self.served[job.account] = max(self.served.values(), default=0) + 1
        return attempt

    def fence(self, attempt: Attempt) -> bool:
        job = _ours(attempt)
        if attempt.is_fenced:
            return True
        if attempt.state == "recorded":
            raise Late
        if job.is_cancel_asked:
            job.finish("cancelled")
            return False
        attempt.is_fenced, job.may_run_again = True, False
        return True

    def record(self, attempt: Attempt, blob: str) -> None:
        _ours(attempt, "running", "recovery_required")
        if attempt.blob == blob and attempt.state == "recorded":
            return
        if attempt.blob == blob or not (attempt.state == "running" or attempt.is_unknown):
            raise Late
        attempt.state, attempt.is_unknown, attempt.blob = "recorded", False, blob

    def succeed(self, attempt: Attempt) -> None:
        job = _ours(attempt, "running", "recovery_required")
        if attempt.state != "recorded":
            raise Late
        job.finish("succeeded")

    def fail(self, attempt: Attempt) -> None:
        _unrecorded(attempt).finish("failed")

    def cancelled(self, attempt: Attempt) -> None:
        job = _unrecorded(attempt)
        if attempt.is_fenced:
            job.wait_for_operator()
        else:
            job.finish("cancelled")

    def release(self, attempt: Attempt, not_before_at: int) -> None:
        job = _unrecorded(attempt)
        if attempt.is_fenced:
            job.wait_for_operator()
        elif job.is_cancel_asked:
            job.finish("cancelled")
        else:
            job.queue(not_before_at)

    def try_again(self, attempt: Attempt) -> None:
        job = _unrecorded(attempt)
        if attempt.is_fenced:
            job.wait_for_operator()
        elif job.is_cancel_asked:
            job.finish("cancelled")
        elif job.hosts_lost + 1 >= HOSTS_LOST:
            job.finish("failed")
        else:
            job.hosts_lost += 1
            job.queue(0)

    def unforeseen(self, attempt: Attempt, now: int) -> None:
        job = _unrecorded(attempt)
        if not attempt.is_fenced and job.is_cancel_asked:
            job.finish("cancelled")
        elif attempt.is_fenced or job.unforeseen_errors + 1 >= UNFORESEEN_ERRORS:
            job.may_run_again = False
            job.wait_for_operator()
        else:
            job.unforeseen_errors += 1
            job.queue(now + UNFORESEEN_PAUSE_MS)

    def unknown(self, attempt: Attempt) -> None:
        _unrecorded(attempt).wait_for_operator()

    def rescue(self, attempt: Attempt, now: int) -> None:
        """Its worker is gone and nothing is recorded."""
        job = _ours(attempt)
        if attempt.is_fenced:
            job.wait_for_operator()
        elif job.is_cancel_asked:
            job.finish("cancelled")
        else:
            job.workers_lost += 1
            over = job.workers_lost - 4
            job.queue(0 if over <= 0 else now + min(600_000, 1000 * 2 ** (over - 1)))

    def damage(self, attempt: Attempt) -> None:
        """The recorded bytes are not what they were."""
        job = _ours(attempt, "running", "recovery_required")
        if attempt.state != "recorded":
            raise Late
        job.may_run_again = False
        job.wait_for_operator()

    def show(self, attempt: Attempt, segment: str) -> None:
        _ours(attempt)
        if attempt.state != "running":
            raise Late
        if segment not in attempt.segments:
            attempt.segments.append(segment)


def _ours(attempt: Attempt, *states: str) -> Job:
    """The job, as long as it is this attempt's."""
    job = attempt.job
    if job.newest is not attempt or job.state not in (states or ("running",)):
        raise Late
    return job


def _unrecorded(attempt: Attempt) -> Job:
    """The same, where no result is recorded: a recorded one is finished, never lost or made again."""
    job = _ours(attempt)
    if attempt.state == "recorded":
        raise Late
    return job
