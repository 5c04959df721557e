"""Rows of the ledger, of balances and of chat usage, as the stores here read them.

The ledger is append-only: a line is written in the transaction that changes the balance, and no field of it
ever changes. Amounts are micro-CNY.
"""

import msgspec


class LedgerLine(msgspec.Struct, frozen=True):
    """A line of the ledger: one double entry, whose four amounts sum to zero."""

    id: str
    """Rises with time. Chosen by the caller of the operation: an entry that exists is not written again."""
    type: str
    """credit, hold, settle, void or adjust. The database allows one hold and one settle or void per job."""
    account_id: str
    """Whose balance it changed."""
    job_id: str | None
    """The job behind it; null for calls, credits and what the operator took back."""
    available_micros: int
    """What it added to `available`, or took from it."""
    held_micros: int
    """What it added to `held`, or took from it."""
    revenue_micros: int
    """What was charged; 0 except in a settlement."""
    funding_micros: int
    """What came from outside the service: the negative of a credit or adjustment; else 0."""
    note: str | None
    """The operator's note on it."""
    created_at: int
    """When its transaction began, by the clock of the machine that began it."""
    call_id: str | None
    """The call of a chat or embedding model behind it, if any."""


class HoldRow(msgspec.Struct, frozen=True):
    """What a job holds: its hold entry, written in the transaction that queues the job."""

    account_id: str
    """The account whose money is held."""
    held_micros: int
    """What is held, and the most that the job can be charged."""


class BalanceRow(msgspec.Struct, frozen=True):
    """The sums of an account's entries, stored so that no request has to add them up.

    Both are written in the transaction of each entry; the audit adds up the entries and compares.
    """

    available_micros: int
    """What can be spent; never below 0."""
    held_micros: int
    """What open jobs hold; never below 0."""


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


class CallRow(msgspec.Struct, frozen=True):
    """A call of a priced model.

    Written with its hold before the model is called, resolved in one transaction with the ledger and the
    usage. If its process dies in between, a worker's upkeep releases it: its caller got no answer.
    """

    id: str
    account_id: str
    key_id: str
    model: str
    state: str
    """open, settled or void."""
    input_price_micros: int
    """Per million tokens; frozen here."""
    output_price_micros: int
    hold_micros: int
    """The most that it can be charged."""
    charged_micros: int | None = None
    """Set when it is settled."""
    request_key: str | None = None
    """The caller's Idempotency-Key: no other open or settled call of the API key has the same."""


class OpenCall(msgspec.Struct, frozen=True):
    """A call that holds money, as upkeep sees it."""

    id: str
    seen_at: int
    """When it began; nothing in its row changes while it is open."""


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
