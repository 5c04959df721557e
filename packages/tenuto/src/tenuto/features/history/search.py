"""A search of an account's jobs, by more than state, kind and model. Knows no tables and no HTTP."""

import re
from collections.abc import Mapping

import msgspec

from tenuto.account.caller import Caller
from tenuto.db.damaged_text import decoded_json
from tenuto.db.database import Transaction
from tenuto.features.history import store
from tenuto.ids import encode
from tenuto.job import read
from tenuto.job.read import Job
from tenuto.job.titles import folded, line_of

MAX_TURNS = 20
"""How often one page asks for more ids, if the jobs do not match."""

MAX_TIME_S = (1 << 48) // 1000 - 60
"""The latest time that an id can hold, in seconds."""
CLOCK_SLACK_MS = 60_000
"""An id is made at most this long after its job's time of acceptance, unless the clock is set back."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What a job must match; None or empty: anything."""

    pattern: str | None = None
    """From `pattern_of`: what its text must contain."""
    voice_id: str | None = None
    """The voice that it asked for."""
    metadata: Mapping[str, str] = {}
    """Pairs that its metadata must all contain."""
    created_from: int | None = None
    """Seconds; accepted at this time or later."""
    created_before: int | None = None
    """Seconds; accepted before this time."""

    def is_narrow(self) -> bool:
        """Whether it filters by more than time, so that each job has to be examined."""
        return self.pattern is not None or self.voice_id is not None or bool(self.metadata)

    def ids(self, after: str | None) -> tuple[str, str | None]:
        """Bounds for the ids of all jobs in its time range; `after`: the last id of the previous page."""
        since, before = "", after
        if self.created_from is not None:
            since = f"job_{encode(self.created_from * 1000 << 80)}"
        if self.created_before is not None:
            end = self.created_before * 1000 + CLOCK_SLACK_MS
            last = f"job_{encode(end << 80)}"
            before = last if after is None else min(after, last)
        return since, before

    def has_time(self, created_at: int) -> bool:
        """Whether a job accepted in this second is in its time range: ids are slightly later than that."""
        if self.created_from is not None and created_at < self.created_from:
            return False
        return self.created_before is None or created_at < self.created_before


EVERYTHING = Search()


def list_jobs(
    tx: Transaction,
    caller: Caller,
    search: Search = EVERYTHING,
    *,
    state: str | None,
    kind: str | None,
    model: str | None,
    after: str | None,
    limit: int,
) -> tuple[list[Job], str | None]:
    """As `job.read.list_jobs`, of the jobs that match. A page may have fewer jobs than `limit`, even none,
    without being the last.
    """
    since, before = search.ids(after)
    if search.is_narrow():
        jobs, cursor = _found(
            tx, caller, search, state=state, kind=kind, model=model, since=since, before=before, limit=limit
        )
    else:
        jobs, cursor = read.list_jobs(
            tx, caller, state=state, kind=kind, model=model, after=before, limit=limit, since=since
        )
    return [job for job in jobs[:limit] if search.has_time(job.created_at)], cursor


def pattern_of(wanted: str) -> str | None:
    """For `like … escape '\\'`: the search text contains this. None: nothing is left to look for."""
    text = folded(line_of(wanted))
    if not text:
        return None
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def _found(
    tx: Transaction,
    caller: Caller,
    search: Search,
    *,
    state: str | None,
    kind: str | None,
    model: str | None,
    since: str,
    before: str | None,
    limit: int,
) -> tuple[list[Job], str | None]:
    """The matching jobs: ids from the index, then a check of their rows, in turns until the page is full."""
    if model is not None:
        caller.check_job(model)
    models = caller.key_models if model is None else frozenset({model})
    used = None
    if kind is not None or models is not None:
        used = read.used_models(tx, caller.account_id, kind, models)
        if not used:
            return [], None
    jobs: list[Job] = []
    turns, cursor = 0, before
    while turns < MAX_TURNS:
        turns += 1
        ids, further = store.search(
            tx,
            caller.account_id,
            models=used,
            voice_id=search.voice_id,
            pattern=search.pattern,
            since=since,
            before=cursor,
        )
        jobs += [job for job in read.by_ids(tx, ids) if _fits(job, state, search)]
        if len(jobs) > limit:
            return jobs, jobs[limit - 1].id
        if further is None:
            return jobs, None
        cursor = further
        if len(ids) < store.FOUND_AT_ONCE:
            break
    return jobs, cursor


def _fits(job: Job, state: str | None, search: Search) -> bool:
    """Whether a job matches the filters that no index covers: state and metadata."""
    if state is not None and job.state != state:
        return False
    if not search.metadata:
        return True
    notes = decoded_json(job.metadata, dict[str, str]) or {}
    return all(notes.get(name) == value for name, value in search.metadata.items())
