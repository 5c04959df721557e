"""What the service answers, as frozen records; names that are not known yet stay readable in `raw`.

Times are unix seconds, durations end in their unit, amounts are decimal strings in the currency beside
them. It knows the contract's fields, not how they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, TypeVar

from tenuto_client.errors import UnexpectedAnswer

T = TypeVar("T")
Json = Mapping[str, Any]

PENDING = ("submitting", "queued", "running")
"""The states of a job that is still to be followed; every other one is final, known or not."""

RESULT_TYPES = {"speech": "audio/wav", "recognition": "application/json", "image": "image/png"}
"""What each kind of job makes."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that never changes: a download is right when its length and SHA-256 are these."""

    id: str
    media_type: str
    size_bytes: int
    sha256: str
    metadata: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the running attempt is: `completed` of `total` `unit`s of a `stage`."""

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
    """A job as the service last told of it. The contract promises `id`, `state` and `artifacts`."""

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
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_pending(self) -> bool:
        """Whether it is worth asking again; a state that is not known is not."""
        return self.state in PENDING


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a job's life."""

    sequence: int
    at: int
    type: str
    attempt_id: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of speech, final from the moment it is listed."""

    segment_id: str
    attempt_id: str
    sequence: int
    media_type: str
    size_bytes: int
    sha256: str
    duration_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Voice:
    """A recording under an id, for ever; only the name of an own voice can change."""

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
    """A saved choice for what shows voices to people; jobs never look at it."""

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
    """What can be named as `model`. `callable` is false while it takes no new work."""

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
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Balance:
    """The account's money now."""

    available: str
    held: str
    total: str
    currency: str


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the ledger."""

    id: str
    created_at: int
    type: str
    amount: str
    currency: str
    available_change: str
    held_change: str
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What one key used of one model on one day (UTC)."""

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


_INSIDE: dict[str, Callable[[Any], Any]] = {
    "progress": lambda value: read(Progress, value),
    "error": lambda value: read(Failure, value),
    "billing": lambda value: read(Billing, value),
    "default": lambda value: read(VoicePreference, value),
    "artifacts": lambda value: tuple(read(Artifact, item) for item in value),
}


def read(kind: type[T], value: Any, **own: Any) -> T:
    """The record that a JSON object holds; names that it does not know are left in `raw`.

    Raises UnexpectedAnswer when a name is missing without which the record means nothing.
    """
    if not isinstance(value, Mapping):
        raise UnexpectedAnswer(f"a {kind.__name__} should be a JSON object")
    found: dict[str, Any] = {}
    for known in fields(kind):  # type: ignore[arg-type]
        if known.name in own:
            found[known.name] = own[known.name]
        elif known.name == "raw":
            found["raw"] = value
        elif known.name in value:
            found[known.name] = _inner(known.name, value[known.name])
        elif known.default is MISSING and known.default_factory is MISSING:
            raise UnexpectedAnswer(f"a {kind.__name__} without {known.name}")
    return kind(**found)


def _inner(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _INSIDE:
        return _INSIDE[name](value)
    return tuple(value) if isinstance(value, list) else value
