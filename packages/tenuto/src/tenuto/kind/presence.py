"""Which workers are away, as one process sees it: those whose rows have stopped changing.

A worker writes its row with every heartbeat. It writes the time on its own machine's clock, and clocks need
not agree, so only the change counts, and how long ago the observer saw it by its own monotonic clock.
An orderly stop needs none of this: the worker withdraws its offers.
"""

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

OBSERVE_S = 2.5
"""How often a process that accepts jobs looks at the workers."""

AWAY_S = 29.0
"""A worker whose row has not changed for this long is away. The change and its absence are each seen a look
late, so a lost worker is noticed within 35 s. With rare heartbeats it is three of their intervals."""

STALE_MS = 600_000
"""When a process starts, a row older than this is not trusted until it changes; a younger one is, so that
restarting the process refuses no job."""

LONG_GAP_LOOKS = 3
"""After a gap of this many looks (database unavailable, machine asleep) an unchanged row proves nothing."""


class ProcessRow(Protocol):
    """The row of a process that keeps writing it while it is alive, such as a worker's or a backup's."""

    @property
    def id(self) -> str: ...

    @property
    def seen_at(self) -> int: ...


class _Seen(Struct):
    """What a worker last wrote, and when that was first seen on our monotonic clock."""

    seen_at: int
    since_s: float


class Presence:
    """The workers as one observer sees them. `observe` is called by one thread; `away` is read by any."""

    def __init__(self, *, away_s: float = AWAY_S, observe_s: float = OBSERVE_S) -> None:
        self._away_s = away_s
        self._gap_s = LONG_GAP_LOOKS * observe_s
        self._seen: dict[str, _Seen] = {}
        self._observed_s: float | None = None
        self.away: frozenset[str] = frozenset()
        """The ids of the workers that are away; replaced as a whole."""

    def observe(self, workers: Iterable[ProcessRow], *, now_s: float, now_ms: int | None = None) -> None:
        """Look at all rows of workers. `now_s` is monotonic.

        With `now_ms`, wall time, the first look considers workers with rows older than `STALE_MS` away;
        without it, it considers all of them alive.
        """
        first, observed_s = self._observed_s is None, self._observed_s
        self._observed_s = now_s
        after_gap = observed_s is not None and now_s - observed_s > self._gap_s
        seen = {}
        for worker in workers:
            worker_id, seen_at = worker.id, worker.seen_at
            known = self._seen.get(worker_id)
            if first and now_ms is not None and abs(now_ms - seen_at) > STALE_MS:
                known = _Seen(seen_at, float("-inf"))
            elif known is None or known.seen_at != seen_at or (after_gap and worker_id not in self.away):
                known = _Seen(seen_at, now_s)
            seen[worker_id] = known
        self._seen = seen
        self.away = frozenset(
            worker_id for worker_id, known in seen.items() if now_s - known.since_s >= self._away_s
        )
