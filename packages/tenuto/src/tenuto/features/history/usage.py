"""An account's usage and charges by day, model and key; its ledger with the jobs; the operator's statistics.

Read only. Days are UTC. Only succeeded jobs count, except in the operator's statistics, which show how the
service did lately, for all accounts. They are bounded: at most `MOST_JOBS` finished jobs, the newest, are
added up, from an index. Waiting and running times are only known to lie between two bounds
(`store.CLASS_BOUNDS_MS`); percentiles are interpolated between them.
"""

import datetime
from collections import Counter, defaultdict
from itertools import accumulate
from typing import Literal

from msgspec import Struct, field

from tenuto.db.database import Transaction
from tenuto.features.history import store
from tenuto.features.history.rows import (
    DAY_MS,
    AccountLedgerLine,
    ChargeRow,
    FinishedJobs,
    JobUsage,
    QueuePassage,
    iso_day,
)
from tenuto.ids import ALPHABET, encode
from tenuto.job.states import FAILED, SUCCEEDED

_EPOCH = datetime.date(1970, 1, 1)

MOST_JOBS = 50_000
"""The most jobs that are added up; older ones are left out, see `Statistics.complete_from`."""
SLOTS = {
    "hour": (60, 60_000, 8),
    "day": (48, 1_800_000, 7),
    "week": (56, 10_800_000, 6),
    "month": (60, 43_200_000, 6),
}
"""For each period the number of its time slots, the length of one in milliseconds, and how many characters of
an id determine the slot: the time of waiting jobs is in no index other than that of their ids."""
TIME_CHARACTERS = 10
"""How many characters of an id hold its time, in milliseconds."""

Grouping = Literal["model", "key", "day"]


class Charge(Struct, frozen=True):
    """What the jobs and calls of one model, key or day were charged."""

    group: str
    """The model's name, the key's id, or the day (UTC, `2026-11-21`) on which they were charged."""
    label: str
    jobs: int
    charged_micros: int


def of_account(
    tx: Transaction, account_id: str, *, since: datetime.date, until: datetime.date, limit: int
) -> list[JobUsage]:
    """Usage from one day to another, both included, newest first."""
    since_ms, until_ms = _start_ms(since), _start_ms(until) + DAY_MS
    return store.usage(tx, account_id, since_ms=since_ms, until_ms=until_ms, limit=limit)


def charges_of_account(
    tx: Transaction, account_id: str, grouping: Grouping, *, since: datetime.date, until: datetime.date
) -> list[Charge]:
    """Charges from one day to another, both included; days in order, models and keys by descending charge."""
    since_ms, until_ms = _start_ms(since), _start_ms(until) + DAY_MS
    # Ids contain the time and never go back, so those made after the clock was set back are ahead of it.
    low, high = _first_entry_id(since_ms), _first_entry_id(until_ms + DAY_MS)
    rows = store.charges(
        tx, grouping, account_id, since_ms=since_ms, until_ms=until_ms, low_id=low, high_id=high
    )
    charges = [_charge(row, grouping) for row in rows]
    if grouping == "day":
        return sorted(charges, key=lambda charge: charge.group)
    return sorted(charges, key=lambda charge: (-charge.charged_micros, charge.group))


def ledger_lines(tx: Transaction, account_id: str, *, after: str, limit: int) -> list[AccountLedgerLine]:
    """Lines after this id (empty: from the first), oldest first."""
    return store.ledger_lines(tx, account_id, after=after, limit=limit)


def _charge(row: ChargeRow, grouping: Grouping) -> Charge:
    group = iso_day(int(row.grouping)) if grouping == "day" else str(row.grouping)
    return Charge(group, row.label or group, row.jobs, row.charged_micros)


def _start_ms(day: datetime.date) -> int:
    return (day - _EPOCH).days * DAY_MS


def _first_entry_id(at_ms: int) -> str:
    """A lower bound for the ids of ledger lines made from this moment on."""
    return f"entry_{encode(at_ms << 80)}"


# --- how the service did lately, for the operator ------------------------------------------------------


class Times(Struct):
    """How long jobs took: how many in each class of `CLASS_BOUNDS_MS`, and the longest."""

    classes: Counter[int] = field(default_factory=Counter)
    longest_ms: int = 0

    def add(self, number: int, jobs: int, longest_ms: int) -> None:
        """Count jobs of a class."""
        self.classes[number] += jobs
        self.longest_ms = max(self.longest_ms, longest_ms)

    def percentile_ms(self, share: float) -> int | None:
        """The time within which this share of the jobs were done; None: there were none.

        Estimated within its class, and never more than the longest."""
        left = share * sum(self.classes.values())
        bounds = (0, *store.CLASS_BOUNDS_MS)
        for number in sorted(self.classes):
            jobs = self.classes[number]
            if left <= jobs:
                low, high = bounds[number], bounds[min(number + 1, len(bounds) - 1)]
                return min(round(low + (high - low) * left / jobs), self.longest_ms)
            left -= jobs
        return None


class Tally(Struct):
    """The jobs that ended in one slot, or of one model."""

    jobs: int = 0
    succeeded: int = 0
    failed: int = 0
    charged_micros: int = 0
    waits: Times = field(default_factory=Times)
    runs: Times = field(default_factory=Times)

    def add(self, row: FinishedJobs) -> None:
        self.jobs += row.jobs
        self.succeeded += row.jobs if row.state == SUCCEEDED else 0
        self.failed += row.jobs if row.state == FAILED else 0
        self.charged_micros += row.charged_micros
        if row.wait_class >= 0:
            self.waits.add(row.wait_class, row.jobs, row.longest_wait_ms)
            self.runs.add(row.run_class, row.jobs, row.longest_run_ms)


class Statistics(Struct, frozen=True):
    """A period divided into slots: the first begins at `first * width_ms`."""

    width_ms: int
    first: int
    slots: list[Tally]
    queued: list[int]
    """How many jobs were waiting at the end of each slot; for the last one, now."""
    models: dict[str, Tally]
    complete_from: int
    """The first slot with all of its jobs: `first`, unless there were `MOST_JOBS` or more."""


def statistics(tx: Transaction, period: str, *, now_ms: int) -> Statistics:
    """How the service did in one of the periods of `SLOTS` until now."""
    number, width_ms, characters = SLOTS[period]
    last = now_ms // width_ms
    first = last - number + 1
    since_ms = first * width_ms
    rows = store.finished_by_slot(tx, since_ms=since_ms, width_ms=width_ms, most=MOST_JOBS)
    slots: list[Tally] = [Tally() for _ in range(number)]
    models: dict[str, Tally] = defaultdict(Tally)
    for row in rows:
        # An end in a future slot comes from a clock that was ahead: it counts as now.
        slots[min(row.slot, last) - first].add(row)
        models[row.model].add(row)
    is_cut = sum(row.jobs for row in rows) >= MOST_JOBS
    changes: Counter[int] = Counter()
    passages: list[FinishedJobs | QueuePassage] = [*rows, *store.passages_of_running(tx, width_ms=width_ms)]
    for passage in passages:
        changes[max(passage.entered - first, 0)] += passage.jobs
        changes[max(passage.left_slot - first, 0)] -= passage.jobs
    for waiting in store.queued_by_id(tx, f"job_{encode(since_ms << 80)}", characters):
        changes[max(_began_ms(waiting.prefix) // width_ms - first, 0)] += waiting.jobs
    return Statistics(
        width_ms=width_ms,
        first=first,
        slots=slots,
        queued=[max(length, 0) for length in accumulate(changes[slot] for slot in range(number))],
        models=dict(sorted(models.items())),
        complete_from=min((row.slot for row in rows), default=first) + 1 if is_cut else first,
    )


def _began_ms(prefix: str) -> int:
    """The first millisecond whose ids have a time that begins with this prefix."""
    number = 0
    for character in prefix:
        number = number * 32 + ALPHABET.index(character)
    return number << 5 * (TIME_CHARACTERS - len(prefix))
