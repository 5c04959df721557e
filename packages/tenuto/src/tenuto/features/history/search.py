"""The filters of a list of jobs besides state, kind and model. Knows no tables and no HTTP."""

from collections.abc import Mapping

import msgspec

from tenuto.ids import encode
from tenuto.job.store import AFTER_ALL

MAX_TIME_S = (1 << 48) // 1000 - 60
"""The latest time that an id can hold, in seconds."""
CLOCK_SLACK_MS = 60_000
"""An id is made at most this long after its job's time of acceptance, unless the clock is set back."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What a job must match; None or empty: anything."""

    pattern: str | None = None
    """From `titles.pattern_of`: what its text must contain."""
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

    def ids(self, after: str | None) -> tuple[str, str]:
        """Bounds for the ids of all jobs in its time range; `after`: the last id of the previous page."""
        since, before = "", after or AFTER_ALL
        if self.created_from is not None:
            since = f"job_{encode(self.created_from * 1000 << 80)}"
        if self.created_before is not None:
            end = self.created_before * 1000 + CLOCK_SLACK_MS
            before = min(before, f"job_{encode(end << 80)}")
        return since, before

    def has_time(self, created_at_ms: int) -> bool:
        """Whether a job accepted at this moment is in its time range: ids are slightly later than that."""
        if self.created_from is not None and created_at_ms < self.created_from * 1000:
            return False
        return self.created_before is None or created_at_ms < self.created_before * 1000


EVERYTHING = Search()
