"""The rows of usage, charges and statistics, as the statements of `store` add them up."""

import datetime

import msgspec

DAY_MS = 24 * 3600 * 1000


class ChatUsageRow(msgspec.Struct, frozen=True):
    """One key's usage of one model on one day, summed over what processes have written.

    They write a twentieth of a second after an answer; what a killed process had not written is not counted.
    """

    model: str
    """The model that answered."""
    key_id: str
    """The key that called it."""
    day: str
    """The day in UTC on which the answers finished, as `2026-11-21`."""
    calls: int
    """Answers, including those whose callers disconnected before the end."""
    prompt_tokens: int
    """As the model reported them, or estimated."""
    completion_tokens: int
    """As the model reported them, or estimated."""
    estimated: int
    """How many of the calls have estimated tokens: the caller disconnected before the model reported them."""
    charged_micros: int
    """What the priced ones among the calls were charged."""


class Used(msgspec.Struct, frozen=True):
    """The combined usage of some calls."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    estimated_calls: int = 0
    """Calls with estimated tokens: the caller disconnected before the model reported them."""
    charged_micros: int = 0

    def __add__(self, other: "Used") -> "Used":
        return Used(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.estimated_calls + other.estimated_calls,
            self.charged_micros + other.charged_micros,
        )


class Use(msgspec.Struct, frozen=True):
    """Who used which model on which day (UTC, `2026-11-21`)."""

    account_id: str
    key_id: str
    model: str
    day: str


class JobUsage(msgspec.Struct, frozen=True):
    """The succeeded jobs of one model that one key submitted on one day."""

    day_number: int
    """Days since 1970, UTC."""
    model: str
    kind: str
    key_id: str
    jobs: int
    characters: int
    """Characters spoken, for speech."""
    audio_ms: int
    """Audio made by speech, or recognised by recognition."""
    charged_micros: int

    @property
    def day(self) -> str:
        """As `2026-11-21`."""
        return iso_day(self.day_number)


class ChargeRow(msgspec.Struct, frozen=True):
    """What the settled jobs and calls of one model, key or day were charged."""

    grouping: str | int
    """The model, the key's id, or the number of the day since 1970."""
    label: str | None
    """The key's name, the model's name, or empty for a day."""
    jobs: int
    charged_micros: int


class FinishedJobs(msgspec.Struct, frozen=True):
    """Jobs of one model that ended in one time slot and state, and waited and ran about equally long."""

    slot: int
    """When they ended, in slot widths since 1970."""
    entered: int
    """When they were accepted, likewise."""
    left_slot: int
    """When they started, or ended without a start."""
    model: str
    state: str
    wait_class: int
    """The class of the time until they started, by `store.CLASS_BOUNDS_MS`; -1: never started."""
    run_class: int
    """The same for the time from start to end."""
    jobs: int
    charged_micros: int
    longest_wait_ms: int
    """Until one of them started; 0: none did. Negative if the clock was set back meanwhile."""
    longest_run_ms: int
    """The same from start to end."""


class QueuedPrefix(msgspec.Struct, frozen=True):
    """Queued jobs whose ids begin with the same characters."""

    prefix: str
    """Characters after `job_`: the upper bits of the time, in milliseconds. Empty: before the period."""
    jobs: int


class QueuePassage(msgspec.Struct, frozen=True):
    """Jobs that entered the queue in one slot of time and left it in another."""

    entered: int
    left_slot: int
    jobs: int


class AccountLedgerLine(msgspec.Struct, frozen=True):
    """A line of the ledger with its job or call, and the key; amounts as in `money.rows.LedgerLine`."""

    id: str
    type: str
    job_id: str | None
    call_id: str | None
    available_micros: int
    held_micros: int
    revenue_micros: int
    operator_note: str | None
    created_at: int
    model: str | None
    key_name: str | None

    @property
    def amount_micros(self) -> int:
        """The amount that its type stands for, as in `money.read`."""
        amounts = {"hold": self.held_micros, "settle": self.revenue_micros}
        return amounts.get(self.type, self.available_micros)

    @property
    def note(self) -> str | None:
        """What the operator wrote about a credit; a note about a job is for operators only."""
        return self.operator_note if self.job_id is None else None


def iso_day(number: int) -> str:
    """A day by its number since 1970, as `2026-11-21`."""
    return datetime.datetime.fromtimestamp(number * DAY_MS / 1000, datetime.UTC).date().isoformat()
