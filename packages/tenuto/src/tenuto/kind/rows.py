"""Rows of workers, their offers and the operator's settings of models, as the store here reads them.

A worker writes its own rows. If it dies, they stay as they were: readers conclude that it is away because
`seen_at` has stopped changing (`presence`), and another worker's upkeep removes them some minutes later.
"""

import msgspec


class WorkerRow(msgspec.Struct, frozen=True):
    """A worker process, from its start until it stops or is forgotten."""

    id: str
    """New at each start."""
    machine: str
    """The machine that it runs on, as `worker.locks` names it; a lock file has no meaning elsewhere."""
    pid: int
    """Its process id, for display; the lock decides whether it is alive."""
    lock_name: str
    """The file whose lock it holds while it is alive; the kernel releases it when the process ends."""
    started_at: int
    """Set when it registers, by its own clock."""
    seen_at: int
    """Written with every heartbeat, by its own clock: only that it changes means anything elsewhere."""
    abilities: str
    """JSON: each model that it was asked to run, and why it cannot run one. Written when it registers."""
    engines: str
    """JSON: its loaded engines and the MiB that each takes. Written by its upkeep when that has changed."""
    engine_memory_mib: int
    """The most that its engines may take together; 0: no limit. From its settings, when it registers."""


class ModelSettingRow(msgspec.Struct, frozen=True):
    """The operator's settings for a model in the studio, which take precedence over the settings file."""

    model: str
    """The model's name."""
    is_enabled: int
    """0: nothing is accepted for it. Set by the operator."""
    price_micros: int | None
    """The price per job or minute from then on; null: that of the settings file."""


class ModelChangeRow(msgspec.Struct, frozen=True):
    """One change of these settings; written with it, never changed."""

    id: str
    model: str
    operator: str
    """The name of the operator's account at that time."""
    is_enabled: int
    price_micros: int | None
    at: int


class OfferRow(msgspec.Struct, frozen=True):
    """A model that a worker offers. Removed when the worker begins an orderly stop, or else with its row."""

    worker_id: str
    """Whose offer it is."""
    model: str
    """The model's name; written when the worker registers."""
    start_failures: int
    """How often in a row its engine failed to start there; 0 again once it starts."""
    reason: str | None
    """The last failure; null again once the engine starts."""
