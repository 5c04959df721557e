"""Calls of priced models, as their rows say: held for before the model is called, then settled or void."""

import msgspec


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
