"""What a list of jobs may be narrowed by besides state, kind and model. Knows no tables and no HTTP."""

from collections.abc import Mapping

import msgspec

from tenuto.ids import encode
from tenuto.jobs.store import AFTER_ALL

MAX_TIME_S = (1 << 48) // 1000 - 60
"""The latest moment that an id can have, in seconds."""
CLOCK_SLACK_MS = 60_000
"""An id is made after its job's moment of acceptance, by this much at most unless the clock goes back."""


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What a job must have; None and empty: anything."""

    pattern: str | None = None
    """Of `titles.pattern_of`: what its text contains."""
    voice_id: str | None = None
    """The voice that it asked for."""
    metadata: Mapping[str, str] = {}
    """Pairs of its caller's notes, all of them."""
    created_from: int | None = None
    """Seconds; accepted then or later."""
    created_before: int | None = None
    """Seconds; accepted earlier."""

    def is_narrow(self) -> bool:
        """Whether more than a range of time is asked for, so that single jobs have to be looked at."""
        return self.pattern is not None or self.voice_id is not None or bool(self.metadata)

    def ids(self, after: str | None) -> tuple[str, str]:
        """The ids between which all jobs of its time are; `after`: the last one of the page before."""
        since, before = "", after or AFTER_ALL
        if self.created_from is not None:
            since = f"job_{encode(self.created_from * 1000 << 80)}"
        if self.created_before is not None:
            end = self.created_before * 1000 + CLOCK_SLACK_MS
            before = min(before, f"job_{encode(end << 80)}")
        return since, before

    def has_time(self, created_at_ms: int) -> bool:
        """Whether a job of this moment was accepted in time: ids are a little later than their jobs."""
        if self.created_from is not None and created_at_ms < self.created_from * 1000:
            return False
        return self.created_before is None or created_at_ms < self.created_before * 1000


EVERYTHING = Search()
