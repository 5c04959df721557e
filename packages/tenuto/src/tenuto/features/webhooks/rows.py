"""The rows of webhooks and of the messages to them, as structs. See the migrations."""

import msgspec


class WebhookRow(msgspec.Struct, frozen=True):
    """A webhook; see the migration for who sets what."""

    id: str
    account_id: str
    url: str
    events: str
    description: str
    models: str | None
    secret: str
    old_secret: str | None
    old_secret_until: int
    is_enabled: int
    disabled_because: str | None
    failing_since: int | None
    since_position: int
    is_low: int
    created_at: int
    is_sound: int


class DeliveryRow(msgspec.Struct, frozen=True):
    """A message to a webhook, and its outcome so far."""

    id: str
    webhook_id: str
    message_id: str
    type: str
    body: str
    state: str
    attempts: int
    next_at: int
    status: int | None
    error: str | None
    created_at: int
    ended_at: int | None
    sequence: int | None


class DueRow(msgspec.Struct, frozen=True):
    """A webhook with a message that is due."""

    webhook_id: str
    account_id: str
    is_sound: int


class WatchedBalance(msgspec.Struct, frozen=True):
    """A webhook that is to be informed of a low balance, and what its account has available."""

    id: str
    available_micros: int


class SenderRow(msgspec.Struct, frozen=True):
    """Who makes and sends deliveries, and how far it has read the events."""

    holder: str
    beat: int
    position: int
    job_id: str
    sequence: int
