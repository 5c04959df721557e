"""Rows of workers and of what they offer, as the store here reads them.

A worker writes its own rows. If it dies, they stay as they were: readers conclude that it is away because
`seen_at` has stopped changing (`presence`), and another worker's upkeep removes them some minutes later.
"""

import msgspec


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker process, from its start until it stops or is forgotten."""

    id: str
    """New at each start."""
    machine: str
    """The machine that it runs on, as `worker.locks` names it; a lock file means something there alone."""
    pid: int
    """Its process, for people; the lock decides whether it lives."""
    lock_name: str
    """The file whose lock it holds as long as it lives; the kernel lets go of it with the process."""
    started_at: int
    """Set when it registers, by its own clock."""
    seen_at: int
    """Written with every heartbeat, by its own clock: only that it changes means anything elsewhere."""
    abilities: str
    """JSON: each model that it was to run, and why it does not run one. Written when it registers."""
    engines: str
    """JSON: its loaded engines and the MiB that each takes. Written by its upkeep when that has changed."""
    engine_memory_mib: int
    """The most that its engines may take together; 0: no limit. From its settings, when it registers."""


class ModelSettingRow(msgspec.Struct, frozen=True):
    """What the operator set for a model in the studio, beside and before the settings file."""

    model: str
    """The model's name."""
    is_enabled: int
    """0: nothing is accepted for it. Set by the operator."""
    price_micros: int | None
    """The price of a job or a minute from then on; null: that of the settings file."""


class ModelChangeRow(msgspec.Struct, frozen=True):
    """One such change; written with it, never changed."""

    id: str
    model: str
    operator: str
    """The name of the operator's account at that time."""
    is_enabled: int
    price_micros: int | None
    at: int


class OfferRow(msgspec.Struct, frozen=True):
    """A model that a worker offers. Its offers go when it begins to stop in order, else with its own row."""

    worker_id: str
    """Whose offer it is."""
    model: str
    """The model's name; written when the worker registers."""
    start_failures: int
    """How often in a row its engine failed to start there; 0 again once it starts."""
    reason: str | None
    """What the last failure was; null again once the engine starts."""
