"""The service's responses as frozen records; fields that this version does not know stay in `raw`.

Times are Unix seconds, the names of durations end in their unit, amounts are decimal strings in the currency
of the field `currency`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from tenuto_client.errors import UnexpectedAnswer

T = TypeVar("T")
Json = Mapping[str, Any]

PENDING = ("submitting", "queued", "running")
"""The states of an unfinished job; every other state, known or not, is treated as final."""

RESULT_TYPES = {"speech": "audio/wav", "recognition": "application/json", "image": "image/png"}
"""The media type of each kind of job's result."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that never changes: a download is correct if its size and SHA-256 match these."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of the running attempt: `completed` of `total` `unit`s of a `stage`."""

    stage: str
    completed: int
    total: int
    unit: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job failed."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Billing:
    """What the job holds of the balance, and what it cost in the end."""

    held: str
    charged: str
    currency: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A job as the service last reported it. The contract guarantees `id`, `state` and `artifacts`."""

    id: str
    state: str
    artifacts: tuple[Artifact, ...] = ()
    kind: str | None = None
    model: str | None = None
    created_at: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    attempt: int = 0
    queue_position: int | None = None
    progress: Progress | None = None
    input_artifact_ids: tuple[str, ...] = ()
    result: Json | None = None
    error: Failure | None = None
    billing: Billing | None = None
    metadata: Json = field(default_factory=dict)
    cancel_requested: bool = False
    title: str | None = None
    erased_at: int | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_pending(self) -> bool:
        """Whether the job may still change; an unknown state counts as final."""
        return self.state in PENDING


@dataclass(frozen=True, slots=True)
class Event:
    """One event in the history of a job."""

    sequence: int
    at: int
    type: str
    attempt_id: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """A live event with its job; a later reader passes its `id` as `after`."""

    id: str
    sequence: int
    at: int
    type: str
    job_id: str
    state: str
    kind: str
    model: str
    attempt_id: str | None = None
    detail: str | None = None
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of speech; it never changes once it is listed."""

    segment_id: str
    attempt_id: str
    sequence: int
    media_type: str
    size_bytes: int
    sha256: str
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """A recording with a permanent id; only its name can change, if it is the caller's own voice."""

    voice_id: str
    name: str = ""
    kind: str = ""
    languages: tuple[str, ...] = ()
    default_parameters: Json = field(default_factory=dict)
    profile_version: str | None = None
    provenance: Json | None = None
    audio: Json = field(default_factory=dict)
    created_at: int | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class VoicePreference:
    """A saved choice for user interfaces; jobs ignore it."""

    content_account: str
    voice_id: str
    updated_at: int | None = None


@dataclass(frozen=True, slots=True)
class VoicePreferences:
    """All saved choices; `default` is the one without a content account."""

    data: tuple[VoicePreference, ...]
    default: VoicePreference | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A value for `model`. `callable` is false while it takes no new work."""

    id: str
    interface: str = "jobs"
    kind: str = ""
    callable: bool = True
    callable_reason: str | None = None
    languages: tuple[str, ...] = ()
    limits: Json = field(default_factory=dict)
    pricing: Json = field(default_factory=dict)
    engines: tuple[Json, ...] = ()
    honoured_parameters: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parameter_count: int | None = None
    demo: bool = False
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Balance:
    """The current balance of the account."""

    available: str
    held: str
    total: str
    currency: str


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry of the ledger."""

    id: str
    created_at: int
    type: str
    amount: str
    currency: str
    available_change: str
    held_change: str
    job_id: str | None = None
    call_id: str | None = None
    """The chat or embedding request that the entry held money for, charged or released."""


@dataclass(frozen=True, slots=True)
class UsageLine:
    """The usage of one model by one key on one day (UTC)."""

    day: str
    model: str
    kind: str
    key_id: str
    jobs: int
    characters: int
    audio_seconds: float
    images: int
    chats: int
    prompt_tokens: int
    completion_tokens: int
    charged: str
    currency: str


@dataclass(frozen=True, slots=True)
class Webhook:
    """A server of yours that is notified of events."""

    id: str
    url: str
    events: tuple[str, ...]
    description: str = ""
    enabled: bool = True
    disabled_because: str | None = None
    """Why the service disabled it; also None if you disabled it."""
    failing_since: int | None = None
    created_at: int | None = None
    secret: str | None = field(default=None, repr=False)
    """What messages are signed with: only in the response to `create` and `rotate`, never again."""
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """A message to a webhook, and the outcome of its latest attempt."""

    id: str
    message_id: str
    """The header `webhook-id`, the same in every attempt."""
    type: str
    state: str
    """`pending`, `delivered` or `failed`."""
    attempts: int
    next_attempt_at: int | None = None
    status: int | None = None
    error: str | None = None
    created_at: int | None = None
    sequence: int | None = None
    """The number in the message: messages to a webhook are numbered without gaps, and come in any order."""


_INSIDE: dict[str, Callable[[Any], Any]] = {
    "progress": lambda value: read(Progress, value),
    "error": lambda value: read(Failure, value),
    "billing": lambda value: read(Billing, value),
    "default": lambda value: read(VoicePreference, value),
    "artifacts": lambda value: tuple(read(Artifact, item) for item in value),
}


def read(kind: type[T], value: Any, **own: Any) -> T:
    """The record in a JSON object; unknown names stay in `raw`.

    Raises UnexpectedAnswer if a required name is missing.
    """
    if not isinstance(value, Mapping):
        raise UnexpectedAnswer(f"a {kind.__name__} should be a JSON object")
    values: dict[str, Any] = {}
    for known in fields(kind):  # type: ignore[arg-type]
        if known.name in own:
            values[known.name] = own[known.name]
        elif known.name == "raw":
            values["raw"] = value
        elif known.name in value:
            values[known.name] = _inner(known.name, value[known.name])
        elif known.default is MISSING and known.default_factory is MISSING:
            raise UnexpectedAnswer(f"a {kind.__name__} without {known.name}")
    return kind(**values)


def _inner(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _INSIDE:
        return _INSIDE[name](value)
    return tuple(value) if isinstance(value, list) else value
